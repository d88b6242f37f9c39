"""Everything a run needs to go on exactly where it was, as one safetensors file; no pickle.

A checkpoint is written beside the old one and then takes its name: a kill at any moment leaves a whole one.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from tagsmith.errors import OutputError, TrainError


@dataclass
class Progress:
    """Where a run stands."""

    step: int = 0  # optimiser steps taken
    epoch: int = 0
    batch: int = 0  # steps of this epoch already taken
    best: float | None = None  # best dev metric so far
    best_step: int = 0
    stale: int = 0  # evaluations since the best
    damping: float = 1.0  # learning-rate factor of plateau halving
    last: float | None = None  # dev metric of the last evaluation
    lowered: int = 0  # how often the learning rate was lowered for too small a change
    done: bool = False
    scores: dict[str, float] = field(default_factory=dict)  # of the best evaluation


def save_checkpoint(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, progress: Progress) -> None:
    """Model, optimiser, chance and progress."""
    tensors = {f"model.{name}": value for name, value in _weights(model).items()}
    for number, state in optimiser.state_dict()["state"].items():
        for name, value in state.items():
            tensors[f"optimiser.{number}.{name}"] = torch.as_tensor(value)
    tensors["chance.cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["chance.cuda"] = torch.cuda.get_rng_state()
    _save(path, tensors, {"progress": json.dumps(asdict(progress))})


def load_checkpoint(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer) -> Progress:
    """Put everything back as it was."""
    tensors, about = _load(path)
    try:
        load_weights_from(tensors, model, path, prefix="model.")
        described = optimiser.state_dict()
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            kind, _, rest = name.partition(".")
            if kind == "optimiser":
                number, _, key = rest.partition(".")
                state.setdefault(int(number), {})[key] = value
        optimiser.load_state_dict({"state": state, "param_groups": described["param_groups"]})
        torch.set_rng_state(tensors["chance.cpu"])
        if "chance.cuda" in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors["chance.cuda"])
        return Progress(**json.loads(about["progress"]))
    except (KeyError, ValueError, TypeError, RuntimeError) as problem:  # the last: weights of other sizes
        raise TrainError(f"{path} does not fit this run ({problem}); start anew without --resume") from None


def save_weights(path: Path, model: nn.Module) -> None:
    """The weights alone."""
    _save(path, _weights(model), {})


def load_weights(path: Path, model: nn.Module) -> None:
    """Weights that `save_weights` left."""
    load_weights_from(_load(path)[0], model, path)


def load_weights_from(tensors: dict[str, Tensor], model: nn.Module, path: Path, *, prefix: str = "") -> None:
    """Fill the model, which must want exactly these weights (shared ones stand once)."""
    given = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    missing, unknown = model.load_state_dict(given, strict=False)
    lost = set(missing) - _shared_names(model)
    if lost or unknown:
        raise TrainError(f"{path} is of another model: it lacks {sorted(lost)[:3]}, has unknown {sorted(unknown)[:3]}")


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().contiguous() for name, value in model.named_parameters()} | {
        name: value for name, value in model.named_buffers() if name in model.state_dict()
    }


def _shared_names(model: nn.Module) -> set[str]:
    """Second names of parameters that stand under a first one."""
    every = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    return every - {name for name, _ in model.named_parameters()}


def _save(path: Path, tensors: dict[str, Tensor], about: dict[str, str]) -> None:
    beside = path.with_suffix(".part")
    try:
        save_file({name: value.cpu() for name, value in tensors.items()}, beside, metadata=about)
        os.replace(beside, path)
    except (SafetensorError, OSError) as problem:
        beside.unlink(missing_ok=True)
        raise OutputError(f"cannot write {path}: {problem}; free some space, then go on with --resume") from None


def _load(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except FileNotFoundError:
        raise TrainError(f"there is no checkpoint {path}; start without --resume") from None
    except (SafetensorError, OSError) as problem:
        raise TrainError(f"{path} cannot be read ({problem}); start anew without --resume") from None
