"""Sparse views (Xu et al., section 4): each query sees a few keys, chosen by place or by strength.

lead: the first places see all and are seen by all.   near: neighbours see each other.
strong: each query, in each head, sees the keys it scores highest.   A view is the union of those it has.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tagsmith.errors import ConfigError


class SparseView(nn.Module):
    """Which keys each query may look at; 0 leaves a kind out.  paper: g, w = 2 * near, k"""

    def __init__(self, *, lead: int = 0, near: int = 0, strong: int = 0) -> None:
        super().__init__()
        if min(lead, near, strong) < 0 or not (near or strong):
            raise ConfigError(f"a view needs near or strong above 0, none below, not near {near}, strong {strong}")
        self.lead = lead
        self.near = near
        self.strong = strong

    def forward(
        self, queries: Tensor, keys: Tensor, bias: Tensor | None, valid: Tensor | None, *, first: int
    ) -> Tensor:
        """queries, keys (batch, heads, length, size), valid a mask of real keys -> (batch?, heads?, query, key)

        `first` is the place of the first query among the keys.
        """
        here = torch.arange(first, first + queries.shape[-2], device=keys.device)
        seen = self.by_place(here, torch.arange(keys.shape[-2], device=keys.device))
        if self.strong:
            seen = seen | self._strongest(queries, keys, bias, valid)
        return seen if valid is None else seen & valid

    def by_place(self, here: Tensor, there: Tensor) -> Tensor:
        """What queries and keys at these places see of each other, strength aside.  -> (query, key)"""
        seen = (here[:, None] < self.lead) | (there < self.lead)
        return seen | ((here[:, None] - there).abs() <= self.near) if self.near else seen

    def _strongest(self, queries: Tensor, keys: Tensor, bias: Tensor | None, valid: Tensor | None) -> Tensor:
        """Scores decide, but no gradient flows through the choice."""
        scores = (queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])).detach()
        if bias is not None:
            scores = scores + bias.detach()
        if valid is not None:
            scores = scores.masked_fill(~valid, -math.inf)
        least = scores.topk(min(self.strong, scores.shape[-1]), dim=-1).values[..., -1:]
        return scores >= least  # of keys with one score, all or none
