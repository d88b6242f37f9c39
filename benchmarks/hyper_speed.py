"""How long the LSTM with written weights takes, forward and backward, by each of its ways.

    python benchmarks/hyper_speed.py

One JSON line for each size and way, in seconds of one CPU core: `plain` leaves the gradient to the library, `own` is
what training uses, `fused` hands one text after the other to the library's LSTM.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tagsmith.nn.hyper import Generated, HyperLSTM

SIZES = [
    (1, 128, 128, 384),
    (8, 128, 128, 384),
    (32, 128, 128, 384),
    (8, 128, 512, 384),
]  # batch, length, hidden, width


def plain(layer: HyperLSTM, states: Tensor, codes: Tensor) -> Tensor:
    return layer.steps(states, layer.generate(codes))


def own(layer: HyperLSTM, states: Tensor, codes: Tensor) -> Tensor:
    return layer(states, codes)


def fused(layer: HyperLSTM, states: Tensor, codes: Tensor) -> Tensor:
    weights = layer.generate(codes)
    rows = [Generated(*(part[row : row + 1] for part in weights)) for row in range(len(states))]
    return torch.cat([layer.fused(states[row : row + 1], one) for row, one in enumerate(rows)])


def timed(work: Callable[..., Tensor], *given: Any, times: int = 3) -> dict[str, float]:
    forward, backward = [], []
    for _ in range(times):
        start = time.process_time()
        out = work(*given)
        middle = time.process_time()
        out.sum().backward()
        forward.append(middle - start)
        backward.append(time.process_time() - middle)
    return {"forward": round(min(forward), 4), "backward": round(min(backward), 4)}


def main() -> None:
    torch.set_num_threads(1)
    for batch, length, hidden, width in SIZES:
        layer = HyperLSTM(width, hidden, 16)
        states, codes = torch.randn(batch, length, width), torch.randn(batch, 16)
        size = {"batch": batch, "length": length, "hidden": hidden, "width": width}
        for work in (plain, own, fused):
            print(json.dumps({**size, "way": work.__name__, **timed(work, layer, states, codes)}))


if __name__ == "__main__":
    main()
