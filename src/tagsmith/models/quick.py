"""Quick: a post as one vector, at thousands a second; the same task as Tweet2Vec with a reader made for speed.

    sub-words --embed, + hashed pairs of neighbours--> [Transformer layers] --mean--> linear --> vector --> tag scores

Shapes: source (batch, source) -> vector (batch, width) -> scores (batch, tags).

Without layers it is a bag of sub-words and pairs, which is what fastText is; each layer costs speed and buys quality.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from tagsmith.config import check_positive
from tagsmith.data.batches import PairBatch
from tagsmith.models.tweet2vec import RankOutput
from tagsmith.nn.attention import Attention
from tagsmith.nn.embed import sinusoids
from tagsmith.nn.linear import Linear
from tagsmith.nn.losses import label_loss
from tagsmith.nn.masks import padding
from tagsmith.nn.ranking import TagHead
from tagsmith.nn.transformer import Encoder, EncoderLayer
from tagsmith.text.pieces import PAD


@dataclass(frozen=True)
class QuickConfig:
    """Sizes."""

    vocab: int
    tags: int
    learned: int = 0  # tags added after training
    width: int = 256
    pairs: int = 32_768  # places for pairs of neighbours, shared by those that hash alike; 0: none
    layers: int = 1
    heads: int = 4
    inner: int = 768
    dropout: float = 0.1
    smoothing: float = 0.0  # of labels in the loss
    longest: int = 96

    def __post_init__(self) -> None:
        check_positive(self, "vocab", "tags", "width", "heads", "inner", "longest")


class Quick(nn.Module):
    """Post in, vector and tag scores out."""

    Config = QuickConfig
    waves: Tensor

    def __init__(self, config: QuickConfig) -> None:
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.vocab, config.width, padding_idx=PAD)
        self.pair_table = nn.Embedding(config.pairs, config.width) if config.pairs else None
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("waves", sinusoids(config.longest, config.width) * 0.02, persistent=False)
        layers = [_layer(config) for _ in range(config.layers)]
        self.encoder = Encoder(layers, config.width) if layers else None
        self.project = Linear(config.width, config.width)
        self.head = TagHead(config.width, config.tags, learned=config.learned)
        for table in filter(None, (self.table, self.pair_table)):
            nn.init.normal_(table.weight, std=0.02)

    def vector(self, source: Tensor, lengths: Tensor) -> Tensor:
        """(batch, source) -> (batch, width)"""
        states = self.table(source)
        if self.pair_table is not None:
            states = states + self.pair_table(pair_places(source, self.config.pairs))
        if self.encoder is not None:
            states = states + self.waves[: source.shape[1]].to(states.dtype)
        states = self.dropout(self.norm(states))
        seen = padding(lengths, source.shape[1])  # (batch, 1, source)
        if self.encoder is not None:
            states = self.encoder(states, seen)
        mean = (seen.to(states.dtype) / lengths[:, None, None].to(states.dtype)) @ states  # (batch, 1, width)
        return self.project(mean[:, 0])

    def forward(self, batch: PairBatch) -> RankOutput:
        """Vectors and scores of a batch of posts."""
        vector = self.vector(batch.source, batch.source_lengths)
        return RankOutput(vector, self.head(self.dropout(vector)))

    def loss(self, batch: PairBatch) -> Tensor:
        """Cross-entropy with one tag of each post."""
        smoothing = self.config.smoothing if self.training else 0.0
        return label_loss(self(batch).scores, batch.target[:, 0], smoothing=smoothing)

    def repeated_parts(self) -> list[nn.Module]:
        """What is worth compiling."""
        return list(self.encoder.layers) if self.encoder is not None else []


def pair_places(source: Tensor, places: int) -> Tensor:
    """The place of each token's pair with the token before it.  (batch, source) -> (batch, source)"""
    before = pad(source[:, :-1], (1, 0), value=PAD)
    mixed = source * 2_654_435_761 + before * 1_664_525  # two large odd numbers spread neighbouring ids
    return torch.bitwise_right_shift(mixed.abs(), 7) % places


def _layer(config: QuickConfig) -> EncoderLayer:
    attention = Attention(config.width, config.heads, dropout=config.dropout)
    return EncoderLayer(attention, config.width, config.inner, dropout=config.dropout)


SIZES = {
    "quick-bag": QuickConfig(vocab=24_000, tags=2000, layers=0),
    "quick": QuickConfig(vocab=24_000, tags=2000),
    "quick-tiny": QuickConfig(vocab=100, tags=50, width=16, heads=2, inner=32, pairs=64),
}
