"""Keyphrase generation (Xu et al., 2021, on ExHiRD of Chen et al., 2020): a document to a row of keyphrases.

    words --embed--> reader: Transformer (chunks, sparse views, relative attention) or both-ways GRU --> memory
    [SEP] <present> w w [SEP] <absent> w w w [SEP] [END]
      |--writer: each phrase sees its own words, and of earlier phrases only their closing place--> states
      |--mixture of the vocabulary and of the document's own words--> next word

Shapes: source (batch, source) -> memory (batch, source, width); target (batch, target) -> scores (batch, target,
vocab + extra), where `extra` are words that only their own document knows.

The rows of the paper are settings: TF, + SM (lead, near, strong), + RMHA (places = "relative"), RNN (reader and writer
"gru"), catSeq (phrases = "flat").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from tagsmith.config import check_positive
from tagsmith.data.batches import PairBatch
from tagsmith.models.keyphrase_writers import FlatGru, NestedGru, TransformerWriter
from tagsmith.nn.attention import Attention
from tagsmith.nn.copying import Pointer
from tagsmith.nn.embed import TokenEmbedding
from tagsmith.nn.positions import RelativeWaves
from tagsmith.nn.reading import Memory, RecurrentReader, TransformerReader, as_known
from tagsmith.nn.recurrent import RecurrentEncoder
from tagsmith.nn.sparse import SparseView
from tagsmith.nn.transformer import Decoder, DecoderLayer, Encoder, EncoderLayer
from tagsmith.text.terms import ABSENT, PRESENT
from tagsmith.text.vocabulary import PAD, SEP, UNK


@dataclass(frozen=True)
class KeyphraseConfig:
    """Sizes, and which of the paper's variants."""

    vocab: int
    extra: int = 0  # unknown words of one document that can be copied
    width: int = 512
    heads: int = 8
    inner: int = 2048
    reader: Literal["transformer", "gru"] = "transformer"
    reader_layers: int = 4
    chunk: int = 0  # paper: N; words that are read apart from the rest, 0: all together
    lead: int = 0  # paper: g
    near: int = 0  # paper: half of w
    strong: int = 0  # paper: k
    places: Literal["waves", "relative"] = "waves"  # relative: the paper's RMHA
    writer: Literal["transformer", "gru"] = "transformer"
    writer_layers: int = 4
    phrases: Literal["nested", "flat"] = "nested"  # nested: ExHiRD; flat: catSeq
    hidden: int = 300  # of a GRU writer
    dropout: float = 0.1
    longest: int = 512  # words read or written, where places are waves
    exclusion: float = 0.0  # paper: lambda; weight of not beginning like the phrases before
    back: int = 4  # paper: K; how many phrases before

    def __post_init__(self) -> None:
        check_positive(self, "vocab", "width", "heads", "inner", "reader_layers", "writer_layers", "hidden", "longest")


class KeyphraseOutput(NamedTuple):
    """Log-probabilities of every target place."""

    scores: Tensor  # (batch, target, vocab + extra)


class Keyphrase(nn.Module):
    """Document in, keyphrases out."""

    Config = KeyphraseConfig

    def __init__(self, config: KeyphraseConfig) -> None:
        super().__init__()
        self.config = config
        table = nn.Embedding(config.vocab, config.width, padding_idx=PAD)
        self.reader = _reader(config, table)
        self.writer = _writer(config, table)
        self.pointer = Pointer(self.writer.state_width)
        self.apply(_start_small)

    def forward(self, batch: PairBatch) -> KeyphraseOutput:
        """Log-probabilities for each target word, given those before it."""
        memory = self.encode(batch.source, batch.source_lengths)
        states, weights = self.writer(self.inputs(batch.target), memory)
        return KeyphraseOutput(self.scores(states, weights, memory))

    def loss(self, batch: PairBatch) -> Tensor:
        """Mean surprise at the target's words; with exclusion, besides, at beginnings that should not be repeated."""
        memory = self.encode(batch.source, batch.source_lengths)
        inputs = self.inputs(batch.target)
        states, weights = self.writer(inputs, memory)
        scores = self.writer.scores(states)
        logs = self.pointer.pick(scores, states, weights, memory.ids, batch.target[:, :, None])[:, :, 0]
        real = batch.target != PAD
        loss = -(logs * real).sum() / real.sum()
        if self.config.exclusion:
            before, barred = earlier_beginnings(batch.target, self.config.back)
            again = self.pointer.pick(scores, states, weights, memory.ids, before).exp()
            surprise = -torch.log1p(-again.clamp(max=1 - 1e-6))
            loss = loss + self.config.exclusion * (surprise * barred).sum() / real.sum()
        return loss

    def repeated_parts(self) -> list[nn.Module]:
        """What is worth compiling: a Transformer's layers; GRUs are fused already."""
        return [part for part in self.modules() if isinstance(part, EncoderLayer | DecoderLayer)]

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        """Read the documents."""
        return self.reader(as_known(source, self.config.vocab, UNK), source, lengths)

    def scores(self, states: Tensor, weights: Tensor, memory: Memory) -> Tensor:
        """Log-probabilities of every word.  -> (batch, target, vocab + extra)"""
        return self.pointer(self.writer.scores(states), states, weights, memory.ids, extra=self.config.extra)

    def stepper(self, source: Tensor, lengths: Tensor) -> KeyphraseStepper:
        """Ready to write, one word at a time."""
        return KeyphraseStepper(self, self.encode(source, lengths))

    def inputs(self, target: Tensor) -> Tensor:
        """What stands before each target word; a row begins as a phrase does."""
        return as_known(pad(target[:, :-1], (1, 0), value=SEP), self.config.vocab, UNK)


class KeyphraseState(NamedTuple):
    """Where the writer stands, for every document of a batch and its hypotheses."""

    memory: Memory
    writer: Any  # the state of the writer itself


class KeyphraseStepper:
    """The writer as search sees it; the hypotheses of a batch are (batch, beam)."""

    def __init__(self, model: Keyphrase, memory: Memory) -> None:
        self.model = model
        self.memory = memory

    def start(self) -> tuple[Tensor, KeyphraseState]:
        """Log-probabilities of the first word (batch, 1, vocab + extra)."""
        state = KeyphraseState(self.memory, self.model.writer.start(self.memory))
        return self.step(torch.full_like(self.memory.ids[:, :1], SEP), state)

    def step(self, tokens: Tensor, state: KeyphraseState) -> tuple[Tensor, KeyphraseState]:
        """Words just written (batch, beam) -> log-probabilities of the next (batch, beam, vocab + extra)."""
        known = as_known(tokens, self.model.config.vocab, UNK)
        states, weights, writer = self.model.writer.step(known, state.writer, state.memory)
        return self.model.scores(states, weights, state.memory), KeyphraseState(state.memory, writer)

    def reorder(self, state: KeyphraseState, parents: Tensor) -> KeyphraseState:
        """The state for hypotheses that continue `parents` (batch, beam) of the old ones."""
        return state._replace(writer=self.model.writer.reorder(state.writer, parents))

    def narrow(self, state: KeyphraseState, texts: Tensor) -> KeyphraseState:
        """The state of some documents of the batch."""
        return KeyphraseState(state.memory.rows(texts), self.model.writer.narrow(state.writer, texts))


def earlier_beginnings(target: Tensor, back: int) -> tuple[Tensor, Tensor]:
    """At each phrase's first word, the first words of the `back` phrases before it, and which of them to avoid.

    (batch, target) -> ids, barred (batch, target, back)
    """
    kinds = (target == PRESENT) | (target == ABSENT)
    first = pad(kinds[:, :-1], (1, 0))  # places of first words
    number = first.cumsum(1)  # 1 for the first phrase
    most = target.shape[1] // 2 + 1
    # the first words by the number of their phrase; places that are none go to a column of their own
    words = target.new_zeros(len(target), most + 1).scatter(1, torch.where(first, number, most).clamp(max=most), target)
    wanted = number[:, :, None] - torch.arange(1, back + 1, device=target.device)  # (batch, target, back)
    before = words.gather(1, wanted.clamp(min=0).flatten(1)).view_as(wanted)
    barred = first[:, :, None] & (wanted > 0) & (before != target[:, :, None])
    return torch.where(barred, before, PAD), barred


def _reader(config: KeyphraseConfig, table: nn.Embedding) -> TransformerReader | RecurrentReader:
    width = config.width
    if config.reader == "gru":
        embed = TokenEmbedding(table, longest=0, dropout=config.dropout)
        encoder = RecurrentEncoder(width, config.hidden // 2, layers=config.reader_layers, dropout=config.dropout)
        return RecurrentReader(embed, encoder)
    relative = config.places == "relative"
    longest = 0 if relative else (config.chunk or config.longest)
    embed = TokenEmbedding(table, longest=longest, dropout=config.dropout)
    layers = []
    for _ in range(config.reader_layers):
        view = SparseView(lead=config.lead, near=config.near, strong=config.strong) if _sparse(config) else None
        positions = RelativeWaves(width, config.heads) if relative else None
        attention = Attention(width, config.heads, dropout=config.dropout, positions=positions, view=view)
        layers.append(EncoderLayer(attention, width, config.inner, dropout=config.dropout))
    return TransformerReader(embed, Encoder(layers, width), chunk=config.chunk)


def _writer(config: KeyphraseConfig, table: nn.Embedding) -> TransformerWriter | NestedGru | FlatGru:
    memory = config.hidden // 2 * 2 if config.reader == "gru" else config.width
    if config.writer == "gru":
        kind = NestedGru if config.phrases == "nested" else FlatGru
        return kind(table, memory, config.hidden, dropout=config.dropout)
    layers = []
    for _ in range(config.writer_layers):
        back, up = (Attention(config.width, config.heads, dropout=config.dropout) for _ in range(2))
        layers.append(DecoderLayer(back, up, config.width, config.inner, dropout=config.dropout, norm="pre"))
    decoder = Decoder(layers, config.width)
    return TransformerWriter(
        table, decoder, longest=config.longest, nested=config.phrases == "nested", dropout=config.dropout
    )


def _sparse(config: KeyphraseConfig) -> bool:
    return bool(config.lead or config.near or config.strong)


def _start_small(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02 if module.weight.shape[-1] > 200 else 0.1)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
