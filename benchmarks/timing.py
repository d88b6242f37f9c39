"""Systems timed in turn on the same items, round by round, so that a busy machine slows all of them alike."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


def per_cpu_second(
    systems: Mapping[str, Callable[[Sequence[Any]], object]],
    items: Sequence[Any],
    *,
    rounds: int,
    shares: Mapping[str, int] = {},
) -> dict[str, float]:
    """Items per CPU-second of each system: the median of its rounds, after one that warms up.

    A slow system may get only one in so many of the items (`shares`).
    """
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(rounds + 1):
        for name, system in systems.items():
            own = items[: -(-len(items) // shares.get(name, 1))]
            start = time.process_time()
            system(own)
            if number:
                speeds[name].append(len(own) / (time.process_time() - start))
    return {name: round(statistics.median(each), 1) for name, each in speeds.items()}


def told(kind: str, speeds: Mapping[str, float], out: Path | None, **more: object) -> None:
    """Print, and write to `out`, the speeds, the first system's as multiples of the others', and what else there is."""
    ours, *others = speeds
    ratio = {name: round(speeds[ours] / speeds[name], 2) for name in others}
    result = json.dumps({f"{kind}_per_cpu_second": speeds, "ratio": ratio, **more}, indent=1)
    print(result)
    if out:
        out.write_text(result + "\n", encoding="utf-8")
