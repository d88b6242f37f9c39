"""Readers of whole documents: ids to states that a decoder may look at and copy from."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from tagsmith.nn.masks import padding
from tagsmith.nn.recurrent import RecurrentEncoder
from tagsmith.nn.transformer import Encoder


class Memory(NamedTuple):
    """A document as it was read."""

    states: Tensor  # (batch, source, width)
    mask: Tensor  # (batch, 1, source)
    ids: Tensor  # (batch, source) to copy; unknown words of the text have ids past the vocabulary
    whole: Tensor  # (batch, width) the document as one vector

    def rows(self, places: Tensor) -> Memory:
        """The same for some documents of the batch."""
        return Memory(*(part[places] for part in self))


class TransformerReader(nn.Module):
    """Self-attention over the document, or over chunks of it read apart, each from its own first place on."""

    def __init__(self, embed: nn.Module, encoder: Encoder, *, chunk: int = 0) -> None:
        super().__init__()
        self.embed = embed
        self.encoder = encoder
        self.chunk = chunk  # paper: N; 0: the document as a whole

    def forward(self, known: Tensor, ids: Tensor, lengths: Tensor) -> Memory:
        """`known` are the ids with unknown words as one.  (batch, source)"""
        mask = padding(lengths, ids.shape[1])
        states = self._chunks(known, mask) if self.chunk else self.encoder(self.embed(known), mask)
        real = mask[:, 0, :, None]
        whole = (states * real).sum(1) / real.sum(1).clamp(min=1)
        return Memory(states, mask, ids, whole)

    def _chunks(self, known: Tensor, mask: Tensor) -> Tensor:
        batch, length = known.shape
        spare = -length % self.chunk
        cut = pad(known, (0, spare)).view(-1, self.chunk)  # (batch * chunks, chunk)
        own = pad(mask, (0, spare)).view(-1, 1, self.chunk)
        states = self.encoder(self.embed(cut), own)
        return states.view(batch, length + spare, -1)[:, :length]


class RecurrentReader(nn.Module):
    """The document read both ways."""

    def __init__(self, embed: nn.Module, encoder: RecurrentEncoder) -> None:
        super().__init__()
        self.embed = embed
        self.encoder = encoder

    def forward(self, known: Tensor, ids: Tensor, lengths: Tensor) -> Memory:
        """The same as of `TransformerReader`."""
        states, last = self.encoder(self.embed(known), lengths)
        return Memory(states, padding(lengths, ids.shape[1]), ids, last)


def as_known(ids: Tensor, vocab: int, unknown: int) -> Tensor:
    """Ids past the vocabulary as the one of an unknown word."""
    return torch.where(ids < vocab, ids, unknown)
