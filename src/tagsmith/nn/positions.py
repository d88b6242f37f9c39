"""Position schemes: from queries and keys to an additive bias on attention scores.

Shapes: queries (batch, heads, query, size), keys (batch, heads, key, size) -> bias, broadcast to
(batch, heads, query, key).
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn


class Positions(Protocol):
    """What `Attention` asks of a scheme."""

    def __call__(self, queries: Tensor, keys: Tensor) -> Tensor: ...


class RelativeBias(nn.Module):
    """A learned number for each head and distance, distances beyond `reach` taken as `reach`."""

    def __init__(self, heads: int, *, reach: int = 16) -> None:
        super().__init__()
        self.reach = reach
        self.table = nn.Parameter(torch.zeros(heads, 2 * reach + 1))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        # the last query stands at the last key: a cached step has one query and all keys so far
        first = keys.shape[-2] - queries.shape[-2]
        here = torch.arange(first, keys.shape[-2], device=keys.device)
        there = torch.arange(keys.shape[-2], device=keys.device)
        distance = (there[None, :] - here[:, None]).clamp(-self.reach, self.reach) + self.reach
        return self.table[:, distance]  # (heads, query, key)
