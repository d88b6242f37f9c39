"""Learning-rate schedules: from the share of training done to a factor on the learning rate."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["cosine", "linear", "ratio", "inverse_sqrt", "constant"]
RATIO = 32.0  # paper: how much smaller the first learning rate is than the largest


def factor(schedule: Schedule, step: int, *, steps: int, warmup: int) -> float:  # noqa: PLR0911 - one for each
    """The factor for step 0, 1, ... of `steps`.

    cosine, linear: up from zero, then down to zero. ratio (SEGTRM): up from 1/32, then linearly down, the fall counted
    from step 0. inverse_sqrt: up, then as one over the root of the step. constant: up, then level.
    """
    if schedule == "ratio":
        if step < warmup:
            return (1 + step / warmup * (RATIO - 1)) / RATIO
        return max(0.0, 1 - step / steps)
    if step < warmup:
        return (step + 1) / warmup
    past = (step - warmup) / max(steps - warmup, 1)
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * min(past, 1.0)))
    if schedule == "linear":
        return max(0.0, 1 - past)
    if schedule == "inverse_sqrt":
        return math.sqrt(max(warmup, 1) / (step + 1))
    return 1.0
