"""Training steps as CUDA graphs: recorded once for each shape of batch, then replayed without the host's launches.

Small models spend more time launching kernels than running them. A step that reads nothing back to the host can be
recorded whole (forward, backward, clipping, optimiser) and replayed with new numbers in the same places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

WARM = 2  # plain steps of a shape before it is recorded: what is made on first use must exist by then


class GraphedStep:
    """Calls `step(batch)`, or replays its recording; a batch is a named tuple of tensors on the host."""

    def __init__(self, step: Callable[[Any], None], device: torch.device) -> None:
        self.step = step
        self.device = device
        self.seen: Counter[tuple[torch.Size, ...]] = Counter()
        self.graphs: dict[tuple[torch.Size, ...], tuple[torch.cuda.CUDAGraph, Any]] = {}
        self.pool = torch.cuda.graph_pool_handle()  # graphs never run side by side, so they share their memory

    def __call__(self, batch: Any) -> None:
        shape = tuple(part.shape for part in batch)
        self.seen[shape] += 1
        if shape not in self.graphs:
            if self.seen[shape] <= WARM:
                self.step(batch.to(self.device))
                return
            self.graphs[shape] = self._record(batch)
        graph, places = self.graphs[shape]
        for place, part in zip(places, batch, strict=True):
            place.copy_(part, non_blocking=True)
        graph.replay()

    def _record(self, batch: Any) -> tuple[torch.cuda.CUDAGraph, Any]:
        places = batch.to(self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self.step(places)
        return graph, places
