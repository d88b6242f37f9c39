"""Work on batches as CUDA graphs: recorded once for each shape, then replayed without the host's launches.

Small models spend more time launching kernels than running them. Forward and backward pass read nothing back to the
host, so they can be recorded whole and replayed with new numbers in the same places; gradients add up where they lie.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

WARM = 2  # plain calls for a shape before it is recorded: what is made on first use must exist by then


class Graphed:
    """Calls `work(batch)`, or replays its recording; a batch is a named tuple of tensors on the host."""

    def __init__(self, work: Callable[[Any], None], device: torch.device) -> None:
        self.work = work
        self.device = device
        self.seen: Counter[tuple[torch.Size, ...]] = Counter()
        self.graphs: dict[tuple[torch.Size, ...], tuple[torch.cuda.CUDAGraph, Any]] = {}
        self.pool = torch.cuda.graph_pool_handle()  # graphs never run side by side, so they share their memory
        self.stream = torch.cuda.Stream(device)  # recording needs one, and plain calls must not leave it

    def __call__(self, batch: Any) -> None:
        shape = tuple(part.shape for part in batch)
        self.seen[shape] += 1
        if shape not in self.graphs:
            if self.seen[shape] <= WARM:
                self._plain(batch)
                return
            self.graphs[shape] = self._record(batch)
        graph, places = self.graphs[shape]
        for place, part in zip(places, batch, strict=True):
            place.copy_(part, non_blocking=True)
        graph.replay()

    def _plain(self, batch: Any) -> None:
        main = torch.cuda.current_stream()
        self.stream.wait_stream(main)
        with torch.cuda.stream(self.stream):
            self.work(batch.to(self.device))
        main.wait_stream(self.stream)

    def _record(self, batch: Any) -> tuple[torch.cuda.CUDAGraph, Any]:
        places = batch.to(self.device)
        graph = torch.cuda.CUDAGraph()
        # by thread: the thread that makes batches pins memory meanwhile
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
            self.work(places)
        return graph, places
