"""From ids to vectors: a sum of tables, with sine waves for places."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def sinusoids(length: int, width: int, *, timescale: float = 10_000.0) -> Tensor:
    """Fixed waves for places 0..length-1.  -> (length, width)"""
    real = torch.device("cpu")  # numbers even where weights are built without storage
    return waves_at(torch.arange(length, device=real), width, timescale=timescale)


def waves_at(places: Tensor, width: int, *, timescale: float = 10_000.0) -> Tensor:
    """Fixed waves for any places: sines in the first half, cosines in the second.  (places,) -> (places, width)"""
    half = (width + 1) // 2
    rates = torch.exp(torch.arange(half, device=places.device) * (-math.log(timescale) / max(half - 1, 1)))
    angles = places[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[:, :width]


class TokenEmbedding(nn.Module):
    """Token vectors plus their places, normed; the table may be shared with other embeddings and an output layer.

    A `longest` of 0 leaves places out: for readers that know them in another way.
    """

    waves: Tensor

    def __init__(self, table: nn.Embedding, *, longest: int, dropout: float, timescale: float = 10_000.0) -> None:
        super().__init__()
        self.table = table
        self.norm = nn.LayerNorm(table.embedding_dim)
        self.dropout = nn.Dropout(dropout)
        waves = sinusoids(longest, table.embedding_dim, timescale=timescale)
        self.register_buffer("waves", waves / math.sqrt(table.embedding_dim), persistent=False)

    def forward(self, ids: Tensor, extra: Tensor | None = None, *, start: int = 0) -> Tensor:
        """`extra` is added before the norm (segment vectors).  (batch, length) -> (batch, length, width)"""
        vectors = self.table(ids)
        if len(self.waves):
            vectors = vectors + self.waves[start : start + ids.shape[-1]].to(vectors.dtype)
        if extra is not None:
            vectors = vectors + extra
        return self.dropout(self.norm(vectors))


class PlacedEmbedding(nn.Module):
    """Token vectors plus learned places, normed: as BERT embeds.  (batch, length) -> (batch, length, width)"""

    def __init__(self, table: nn.Embedding, *, longest: int, dropout: float) -> None:
        super().__init__()
        self.table = table
        self.places = nn.Embedding(longest, table.embedding_dim)
        self.norm = nn.LayerNorm(table.embedding_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Tensor, places: Tensor | None = None) -> Tensor:
        """`places` (batch, length) where rows do not begin at 0."""
        placed = self.places.weight[: ids.shape[-1]] if places is None else self.places(places)
        return self.dropout(self.norm(self.table(ids) + placed))
