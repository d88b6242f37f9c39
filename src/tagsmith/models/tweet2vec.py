"""Tweet2Vec (Dhingra et al., 2016): a post as one vector, read character by character.

    characters --embed--> GRU forward, GRU backward --last states, each projected, summed--> vector --> tag scores

Shapes: source (batch, chars) -> vector (batch, width) -> scores (batch, tags).

The word baseline is the same network over words. The released code has no bias in the sum of projections, and its GRU
resets after the matrix, which is what `nn.GRU` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor, nn

from tagsmith.config import check_positive
from tagsmith.data.batches import PairBatch
from tagsmith.nn.losses import label_loss
from tagsmith.nn.ranking import TagHead
from tagsmith.nn.recurrent import BothWays
from tagsmith.text.vocabulary import PAD


@dataclass(frozen=True)
class Tweet2VecConfig:
    """Sizes; the paper's are the defaults."""

    vocab: int  # characters, or words
    tags: int
    learned: int = 0  # tags added after training
    embed: int = 150  # paper: d_c
    hidden: int = 500  # paper: d_h
    width: int = 500  # paper: d_t
    dropout: float = 0.0
    smoothing: float = 0.0  # of labels in the loss
    longest: int = 152  # symbols read, at most

    def __post_init__(self) -> None:
        check_positive(self, "vocab", "tags", "embed", "hidden", "width", "longest")


class RankOutput(NamedTuple):
    """The post's vector and the scores of the tags trained on."""

    vector: Tensor  # (batch, width)
    scores: Tensor  # (batch, tags)


class Tweet2Vec(nn.Module):
    """Post in, vector and tag scores out."""

    Config = Tweet2VecConfig

    def __init__(self, config: Tweet2VecConfig) -> None:
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.vocab, config.embed, padding_idx=PAD)
        self.read = BothWays(config.embed, config.hidden)
        self.from_forward = nn.Linear(config.hidden, config.width, bias=False)  # paper: W^f
        self.from_backward = nn.Linear(config.hidden, config.width, bias=False)  # paper: W^b
        self.dropout = nn.Dropout(config.dropout)
        self.head = TagHead(config.width, config.tags, learned=config.learned)
        nn.init.normal_(self.table.weight, std=0.1)

    def vector(self, source: Tensor, lengths: Tensor) -> Tensor:
        """(batch, chars) -> (batch, width)"""
        ahead, back = self.read(self.dropout(self.table(source)), lengths)
        return self.from_forward(ahead) + self.from_backward(back)  # paper: e_t

    def forward(self, batch: PairBatch) -> RankOutput:
        """Vectors and scores of a batch of posts."""
        vector = self.vector(batch.source, batch.source_lengths)
        return RankOutput(vector, self.head(self.dropout(vector)))

    def loss(self, batch: PairBatch) -> Tensor:
        """Cross-entropy with one tag of each post."""
        smoothing = self.config.smoothing if self.training else 0.0
        return label_loss(self(batch).scores, batch.target[:, 0], smoothing=smoothing)

    def repeated_parts(self) -> list[nn.Module]:
        """Nothing to compile: the readers are fused already."""
        return []


SIZES = {
    "tweet2vec-paper": Tweet2VecConfig(vocab=2830, tags=2039),
    "tweet2vec-words": Tweet2VecConfig(vocab=20_000, tags=2039, hidden=200, width=200, longest=24),
    "tweet2vec-tiny": Tweet2VecConfig(vocab=100, tags=50, embed=16, hidden=24, width=24),
}
