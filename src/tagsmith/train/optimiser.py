"""The optimisers of all recipes, fused, and told without asking the host when to leave out a step."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

Kind = Literal["adamw", "nesterov"]


def make_optimiser(
    model: nn.Module, kind: Kind, *, weight_decay: float, betas: tuple[float, float], reader_rate: float = 1.0
) -> torch.optim.Optimizer:
    """AdamW, or steepest descent with Nesterov's momentum (`betas[0]`); the learning rate is set before each step."""
    groups = weight_groups(model, weight_decay, reader_rate)
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


def weight_groups(model: nn.Module, decay: float, reader_rate: float = 1.0) -> list[dict[str, Any]]:
    """Matrices decay, biases and norms do not; what is not trained is left alone. A `reader` may have a rate apart."""
    trained = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    apart = [reader_rate != 1.0 and "reader" in name.split(".") for name, _ in trained]
    return [
        {
            "params": [
                weight
                for (_, weight), mine in zip(trained, apart, strict=True)
                if mine == slow and (weight.dim() > 1) == matrix
            ],
            "weight_decay": decay if matrix else 0.0,
            "factor": reader_rate if slow else 1.0,
        }
        for slow in sorted(set(apart))
        for matrix in (True, False)
    ]
