"""The optimisers of all recipes, fused, and told without asking the host when to leave out a step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

Kind = Literal["adamw", "nesterov"]


def make_optimiser(
    model: nn.Module,
    kind: Kind,
    *,
    weight_decay: float,
    betas: tuple[float, float],
    rates: Mapping[str, float] | None = None,
) -> torch.optim.Optimizer:
    """AdamW, or steepest descent with Nesterov's momentum (`betas[0]`); the learning rate is set before each step."""
    groups = weight_groups(model, weight_decay, rates)
    made: Any
    if kind == "adamw":
        made = torch.optim.AdamW(groups, lr=0.0, betas=betas, fused=True)
    else:
        made = torch.optim.SGD(groups, lr=0.0, momentum=betas[0], nesterov=True, fused=True)
    device = next(model.parameters()).device
    # the fused kernels leave out a step where this is 1
    made.grad_scale, made.found_inf = None, torch.zeros((), device=device)
    return made


def take_step(optimiser: torch.optim.Optimizer, rate: float, *, unusable: Tensor) -> None:
    """One step at that learning rate, or none if the gradient is unusable (1.0)."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["factor"]
    optimiser.found_inf.copy_(unusable)  # type: ignore[attr-defined]
    optimiser.step()


def reset_momentum(optimiser: torch.optim.Optimizer) -> None:
    """Forget which way the last steps went."""
    for state in optimiser.state.values():
        if state.get("momentum_buffer") is not None:
            state["momentum_buffer"].zero_()


def weight_groups(model: nn.Module, decay: float, rates: Mapping[str, float] | None = None) -> list[dict[str, Any]]:
    """Matrices decay, biases and norms do not; what is not trained is left alone.

    `rates` are factors on the learning rate of all parts of such a name.
    """
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            named = ((rates or {}).get(part, 1.0) for part in set(name.split(".")))
            groups.setdefault((math.prod(named), weight.dim() <= 1), []).append(weight)
    return [
        {"params": groups[factor, vector], "weight_decay": 0.0 if vector else decay, "factor": factor}
        for factor, vector in sorted(groups, key=lambda one: (-one[0], one[1]))
    ]
