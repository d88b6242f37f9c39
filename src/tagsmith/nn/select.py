"""Segment selection (Mao et al., section 3.2): keep the segments most like the whole text, in text order.

    grid states --[S], [SEG]_i--> similarity --top k--> memory of [S] + chosen segments
                                                         soft: [SEG] and its tokens   hard: [SEG] alone

No weight is learned here except by the Mahalanobis metric. Index-only selection (`gradient="none"`) sends no gradient
to the scores; "scale" multiplies what was chosen by its share of the weight, "straight" does so only in the backward
pass. With `noise`, training draws the segments by their weights (Gumbel top k, Kool et al., 2019) in place of the best.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

Similarity = Literal["euclidean", "cosine", "manhattan", "mahalanobis"]
Reach = Literal["tokens", "segments"]  # paper: soft, hard
Gradient = Literal["none", "scale", "straight"]


class Grid(NamedTuple):
    """Encoder states of one batch of grids, split into its parts."""

    text: Tensor  # (batch, width) at [S]
    blocks: Tensor  # (batch, segments, 1 + size, width): [SEG], then its tokens
    filled: Tensor  # (batch, segments, 1 + size) True where something stands


class Selection(NamedTuple):
    """A memory for the decoder, and how it was chosen."""

    states: Tensor  # (batch, key, width)
    mask: Tensor  # (batch, 1, key)
    weights: Tensor  # (batch, segments) softmax of the similarities, 0 for empty segments
    chosen: Tensor  # (batch, segments) True for the selected
    places: Tensor  # (batch, top) which segments, in text order


class Mahalanobis(nn.Module):
    """Minus the distance under a learned metric L L^T, at the start the Euclidean one.

    The covariance of one post's segments, which the paper inverts, is singular (fewer segments than dimensions) and
    makes every distance equal; a metric learned over the corpus is what the name asks for.
    """

    def __init__(self, width: int, *, rank: int = 64) -> None:
        super().__init__()
        self.low_rank = nn.Parameter(torch.randn(width, rank) / width)
        self.diagonal = nn.Parameter(torch.ones(width))

    def forward(self, text: Tensor, segments: Tensor) -> Tensor:
        difference = segments - text[:, None]
        stretched = (difference * self.diagonal).square().sum(-1) + (difference @ self.low_rank).square().sum(-1)
        return -(stretched + 1e-6).sqrt()


def euclidean(text: Tensor, segments: Tensor) -> Tensor:
    """Minus the L2 distance.  (batch, width), (batch, segments, width) -> (batch, segments)"""
    return -((segments - text[:, None]).square().sum(-1) + 1e-6).sqrt()


def manhattan(text: Tensor, segments: Tensor) -> Tensor:
    """Minus the L1 distance."""
    return -(segments - text[:, None]).abs().sum(-1)


def cosine(text: Tensor, segments: Tensor) -> Tensor:
    """The cosine of the angle."""
    return nn.functional.cosine_similarity(segments, text[:, None], dim=-1)


class SegmentSelector(nn.Module):
    """Choose `top` segments by similarity (0: all of them) and hand them on as memory."""

    def __init__(
        self,
        width: int,
        *,
        top: int,
        similarity: Similarity,
        reach: Reach,
        gradient: Gradient = "none",
        noise: float = 0.0,
    ) -> None:
        super().__init__()
        measures = {"euclidean": euclidean, "cosine": cosine, "manhattan": manhattan}
        self.measure = Mahalanobis(width) if similarity == "mahalanobis" else measures[similarity]
        # distances grow with the width, cosines do not: bring both to where softmax has a slope
        self.sharpness = {"manhattan": 1 / width, "cosine": 4.0}.get(similarity, width**-0.5)
        self.top = top
        self.reach = reach
        self.gradient = gradient
        self.noise = noise

    def forward(self, grid: Grid) -> Selection:
        """Grid -> memory of [S] and the chosen segments, in text order."""
        real = grid.filled[:, :, 0]  # (batch, segments)
        scores = self.measure(grid.text.float(), grid.blocks[:, :, 0].float()) * self.sharpness
        scores = scores.masked_fill(~real, -1e9)
        weights = scores.softmax(-1)
        count = real.shape[1]
        top = min(self.top or count, count)
        places = self._draw(scores).topk(top, dim=-1).indices.sort(-1).values  # (batch, top)
        chosen = torch.zeros_like(real).scatter(1, places, True) & real
        wide = 1 if self.reach == "segments" else grid.blocks.shape[2]
        kept = _pick(grid.blocks[:, :, :wide], places)
        filled = grid.filled[:, :, :wide].gather(1, places[:, :, None].expand(-1, -1, wide))
        kept = self._carry_gradient(kept, weights.gather(1, places) * chosen.sum(1, keepdim=True))
        states = torch.cat([grid.text[:, None], kept.flatten(1, 2)], dim=1)  # (batch, key, width)
        mask = nn.functional.pad(filled.flatten(1), (1, 0), value=True)  # [S] is always there
        return Selection(states, mask[:, None], weights, chosen, places)

    def _draw(self, scores: Tensor) -> Tensor:
        if not self.noise or not self.training:
            return scores
        return scores - self.noise * torch.empty_like(scores).exponential_().log()

    def _carry_gradient(self, kept: Tensor, share: Tensor) -> Tensor:
        if self.gradient == "none":
            return kept
        share = share[:, :, None, None].to(kept.dtype)
        return kept * share if self.gradient == "scale" else kept * (1 + share - share.detach())


def _pick(blocks: Tensor, places: Tensor) -> Tensor:
    """The segments at these places.  (batch, segments, n, width), (batch, top) -> (batch, top, n, width)"""
    segments = blocks.shape[1]
    rows = places + torch.arange(len(blocks), device=blocks.device)[:, None] * segments
    return blocks.flatten(0, 1).index_select(0, rows.flatten()).unflatten(0, places.shape)  # much faster than `gather`
