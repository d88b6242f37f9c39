"""Position schemes: from queries and keys to an additive bias on attention scores.

Shapes: queries (batch, heads, query, size), keys (batch, heads, key, size) -> bias, broadcast to
(batch, heads, query, key).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from tagsmith.nn.embed import waves_at

Project = Callable[[Tensor], Tensor]  # the attention's own key matrix: (length, width) -> (heads, length, size)


class Positions(Protocol):
    """What `Attention` asks of a scheme; `first` is the place of the first query among the keys."""

    def __call__(self, queries: Tensor, keys: Tensor, *, first: int, project: Project) -> Tensor: ...


class RelativeBias(nn.Module):
    """A learned number for each head and distance, distances beyond `reach` taken as `reach`."""

    def __init__(self, heads: int, *, reach: int = 16) -> None:
        super().__init__()
        self.reach = reach
        self.table = nn.Parameter(torch.zeros(heads, 2 * reach + 1))

    def forward(self, queries: Tensor, keys: Tensor, *, first: int, project: Project) -> Tensor:
        here = torch.arange(first, first + queries.shape[-2], device=keys.device)
        there = torch.arange(keys.shape[-2], device=keys.device)
        distance = (there[None, :] - here[:, None]).clamp(-self.reach, self.reach) + self.reach
        return self.table[:, distance]  # (heads, query, key)


class RelativeWaves(nn.Module):
    """Relative multi-head attention (Xu et al., eq. 9): waves of the signed distance, through the keys' own matrix.

    score(i, j) = (q_i k_j + q_i (R_{i-j} W_k) + u k_j + v (R_{i-j} W_k)) / sqrt(size); the first term is attention's.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.width = width
        self.to_content = nn.Parameter(torch.zeros(heads, width // heads))  # paper: u
        self.to_distance = nn.Parameter(torch.zeros(heads, width // heads))  # paper: v

    def forward(self, queries: Tensor, keys: Tensor, *, first: int, project: Project) -> Tensor:
        """-> (batch, heads, query, key)"""
        many, most = queries.shape[-2], keys.shape[-2]
        # from the last query's distance to the first key down to the first query's to the last key, and one more:
        # as many as queries and keys together are multiplied faster than one less
        distances = torch.arange(first + many - 1, first - most - 1, -1, device=keys.device)
        waves = project(waves_at(distances, self.width).to(queries.dtype))  # (heads, distances, size)
        asked = queries + self.to_distance[:, None]
        by_distance = shift(asked @ waves.transpose(-1, -2), most)  # (batch, heads, query, key)
        content = (keys @ self.to_content[:, :, None]).transpose(-1, -2)  # (batch, heads, 1, key)
        return (by_distance + content) / math.sqrt(queries.shape[-1])


def shift(scores: Tensor, keys: int) -> Tensor:
    """Scores by distance to scores by key: row i begins one place earlier than the row before it.

    A fresh product (..., query, query + keys) -> (..., query, keys): a view of it, so that no index is computed.
    """
    *outer, down, across = scores.stride()
    return scores.as_strided((*scores.shape[:-1], keys), (*outer, down - across, across), scores.shape[-2] - 1)
