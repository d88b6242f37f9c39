"""One2Set (Ye et al., 2021): all keyphrases of a document at once, each written by a slot of its own.

    words --reader--> memory
    slot code + [SEP] --writer: a slot sees its own words only--> w w w [SEP]      an unneeded slot writes [SEP] at once

Shapes: source (batch, source) -> memory (batch, source, width); phrases (batch, slots, words) -> scores (batch,
slots * words, vocab + extra). The first half of the slots writes phrases of the text, the second half others.

Which slot learns which phrase is decided anew each time: by what the slots would write by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from tagsmith.config import check_positive
from tagsmith.data.batches import PairBatch
from tagsmith.nn.attention import Attention, KeysValues
from tagsmith.nn.best import Best
from tagsmith.nn.copying import Pointer, SourceWords
from tagsmith.nn.embed import PlacedEmbedding, TokenEmbedding
from tagsmith.nn.linear import Packing
from tagsmith.nn.reading import Memory, TransformerReader, as_known
from tagsmith.nn.transformer import Decoder, DecoderCache, DecoderLayer, Encoder, EncoderLayer, NormPlace
from tagsmith.text.terms import ABSENT, PRESENT
from tagsmith.text.vocabulary import END, PAD, SEP, UNK


@dataclass(frozen=True)
class SlotsConfig:
    """Sizes; the reader may take over a BERT, which is post-norm with learned places."""

    vocab: int
    extra: int = 0  # unknown words of one document that can be copied
    written: int = 0  # words that can be written, the first of the vocabulary, others only be copied; 0: all
    width: int = 384
    heads: int = 12
    inner: int = 1536
    reader_layers: int = 6
    writer_layers: int = 2
    reader_norm: NormPlace = "pre"
    places: Literal["waves", "learned"] = "waves"
    dropout: float = 0.1
    longest: int = 512  # words read
    slots: int = 20
    words: int = 8  # of a phrase, with the [SEP] behind it
    foresight: int = 2  # words that slots write by themselves before they are given their phrases
    none_present: float = 0.2  # weight of an unneeded slot
    none_absent: float = 0.1

    def __post_init__(self) -> None:
        check_positive(self, "vocab", "width", "heads", "inner", "reader_layers", "writer_layers", "longest", "slots")
        check_positive(self, "words", "foresight")


class SlotsOutput(NamedTuple):
    """Log-probabilities at every place of every slot, and what the slots were given."""

    scores: Tensor  # (batch, slots, words, vocab + extra)
    given: Tensor  # (batch, slots, words)


class Written(NamedTuple):
    """Where the slots stand after a word."""

    states: Tensor  # (batch, slots, width)
    weights: Tensor  # (batch, slots, source)


class SlotsState(NamedTuple):
    """What was written, rows = batch * slots, and the memory as each layer sees it."""

    length: int
    slots: Tensor  # (batch, slots) which they are
    cache: DecoderCache
    projected: tuple[KeysValues, ...]  # rows = batch
    looked: KeysValues  # the same, as the pointer sees it
    words: SourceWords

    def narrow(self, places: Tensor) -> SlotsState:
        """The same for some slots of each document.  places (batch, fewer)"""
        first = torch.arange(len(places), device=places.device)[:, None] * self.slots.shape[1]
        cache = self.cache.rows((first + places).flatten())
        return self._replace(slots=self.slots.gather(1, places), cache=cache)


class Slots(nn.Module):
    """Document in, a set of keyphrases out."""

    Config = SlotsConfig
    mask: Tensor

    def __init__(self, config: SlotsConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        table = nn.Embedding(config.vocab, width, padding_idx=PAD)
        embed: nn.Module = (
            PlacedEmbedding(table, longest=config.longest, dropout=config.dropout)
            if config.places == "learned"
            else TokenEmbedding(table, longest=config.longest, dropout=config.dropout)
        )
        layers = [_reader_layer(config) for _ in range(config.reader_layers)]
        self.reader = TransformerReader(embed, Encoder(layers, width, norm=config.reader_norm))
        self.embed = TokenEmbedding(table, longest=config.words, dropout=config.dropout)
        self.codes = nn.Embedding(config.slots, width)
        self.decoder = Decoder([_writer_layer(config) for _ in range(config.writer_layers)], width)
        self.look = Attention(width, 1)
        self.pointer = Pointer(width)
        self.written = min(config.written or config.vocab, config.vocab)
        self.packing = Packing(self.written)  # the output matrix is the token table
        self.out_bias = nn.Parameter(torch.zeros(self.written))
        self.apply(_start_small)

    def forward(self, batch: PairBatch) -> SlotsOutput:
        """Log-probabilities of the phrases that the slots are given."""
        memory = self.encode(batch.source, batch.source_lengths)
        given = self.give(batch.target, memory)
        states, weights = self.write(self.inputs(given), memory)
        scores = self.scores(states, weights, memory)
        return SlotsOutput(scores.unflatten(1, given.shape[1:]), given)

    def loss(self, batch: PairBatch) -> Tensor:
        """Mean surprise at the words of the phrases; that of unneeded slots weighs less."""
        memory = self.encode(batch.source, batch.source_lengths)
        given = self.give(batch.target, memory)
        states, weights = self.write(self.inputs(given), memory)
        wanted = given.flatten(1)[:, :, None]
        logs = self.pointer.pick(self._vocabulary(states), states, weights, memory.ids, wanted)[:, :, 0]
        worth = self._worth(given).flatten(1)
        return -(logs * worth).sum() / worth.sum()

    def repeated_parts(self) -> list[nn.Module]:
        """What is worth compiling."""
        return [*self.reader.encoder.layers, *self.decoder.layers]

    def encode(self, source: Tensor, lengths: Tensor) -> Memory:
        """Read the documents."""
        return self.reader(as_known(source, self.config.vocab, UNK), source, lengths)

    @torch.no_grad()
    def give(self, target: Tensor, memory: Memory) -> Tensor:
        """Each phrase to the slot that is nearest to writing it.  (batch, target) -> (batch, slots, words)"""
        config = self.config
        phrases = phrase_matrix(target, config.slots, config.words)
        gain = self._gain(phrases, memory)  # (batch, slots, slots)
        half = config.slots // 2
        given = []
        for part in (slice(0, half), slice(half, config.slots)):
            own = phrases[:, part]
            chosen = match(gain[:, part, part], own[:, :, 0] != PAD)  # (batch, half)
            rows = own.gather(1, chosen.clamp(min=0)[:, :, None].expand_as(own))
            given.append(torch.where(chosen[:, :, None] >= 0, rows, PAD))
        whole = torch.cat(given, dim=1)
        empty = whole[:, :, 0] == PAD
        return torch.cat([whole[:, :, :1].masked_fill(empty[:, :, None], SEP), whole[:, :, 1:]], dim=2)

    def _gain(self, phrases: Tensor, memory: Memory) -> Tensor:
        """How likely each slot is to begin each phrase, by itself.  -> (batch, slots, phrases)"""
        was_training = self.training
        self.eval()
        steps = self.config.foresight
        written = torch.full_like(phrases[:, :, :1], SEP)
        for step in range(steps):
            states, weights = self.write(as_known(written, self.config.vocab, UNK), memory)
            if step + 1 < steps:
                last = states.unflatten(1, written.shape[1:])[:, :, -1]
                looks = weights.unflatten(1, written.shape[1:])[:, :, -1]
                written = torch.cat([written, self.scores(last, looks, memory).argmax(-1, keepdim=True)], dim=2)
        wanted = phrases[:, :, :steps].transpose(1, 2)  # (batch, steps, phrases)
        wanted = wanted[:, None].expand(-1, phrases.shape[1], -1, -1).flatten(1, 2)  # (batch, slots * steps, phrases)
        logs = self.pointer.pick(self._vocabulary(states), states, weights, memory.ids, wanted)
        chance = torch.where(wanted == PAD, 0.0, logs.exp())
        self.train(was_training)
        return chance.unflatten(1, (-1, steps)).sum(2)

    def write(self, inputs: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Whole phrases at once.  (batch, slots, words) -> states (batch, slots * words, width), weights"""
        _, slots, length = inputs.shape
        codes = self.codes.weight[:slots].to(self.embed.table.weight.dtype)
        vectors = self.embed(inputs, codes[:, None]).flatten(1, 2)
        places = torch.arange(slots * length, device=inputs.device)
        number = places.div(length, rounding_mode="floor")
        mask = (number[:, None] == number) & (places[:, None] >= places)
        states = self.decoder(vectors, mask, memory.states, memory.mask)
        return states, self.look.weights(states, memory.states, memory.mask)[:, 0]

    def scores(self, states: Tensor, weights: Tensor, memory: Memory) -> Tensor:
        """Log-probabilities of every word.  -> (batch, target, vocab + extra)"""
        extra = self.config.vocab + self.config.extra - self.written
        return self.pointer(self._vocabulary(states), states, weights, memory.ids, extra=extra)

    def start(self, memory: Memory) -> tuple[Written, SlotsState]:
        """Every slot before its first word."""
        batch, slots = len(memory.ids), self.config.slots
        every = torch.arange(slots, device=memory.ids.device).expand(batch, -1)
        projected, looked = self.decoder.remember(memory.states), self.look.remember(memory.states)
        state = SlotsState(0, every, DecoderCache(), projected, looked, SourceWords.of(memory.ids))
        return self.step(memory.ids.new_full((batch, slots), SEP), state, memory)

    def step(self, tokens: Tensor, state: SlotsState, memory: Memory) -> tuple[Written, SlotsState]:
        """Words just written (batch, slots) -> states and weights, from which the next come."""
        known = as_known(tokens, self.config.vocab, UNK)
        codes = self.codes(state.slots)[:, :, None]
        vectors = self.embed(known[:, :, None], codes, start=state.length)
        states, cache = self.decoder.step(vectors.flatten(0, 1), state.cache, state.projected, memory.mask)
        rows = states.reshape(*tokens.shape, -1)
        weights = self.look.weights(rows, state.looked, memory.mask)[:, 0]
        return Written(rows, weights), state._replace(length=state.length + 1, cache=cache)

    def best_words(
        self,
        written: Written,
        memory: Memory,
        *,
        keep: int,
        never: Sequence[int] = (),
        words: SourceWords | None = None,
    ) -> Best:
        """The likeliest next words of `scores`, but for some ids.  -> (batch, slots, keep)"""
        scores = self._vocabulary(written.states)
        best = self.pointer.best(scores, *written, memory.ids, keep=keep + len(never), words=words)
        barred = torch.isin(best.ids, best.ids.new_tensor(list(never)))
        logs, places = best.logs.masked_fill(barred, -math.inf).topk(keep)
        return Best(logs, best.ids.gather(2, places))

    def inputs(self, given: Tensor) -> Tensor:
        """What stands before each word of a phrase."""
        return as_known(pad(given[:, :, :-1], (1, 0), value=SEP), self.config.vocab, UNK)

    def _worth(self, given: Tensor) -> Tensor:
        """The weight of each word in the loss.  -> (batch, slots, words)"""
        real = (given != PAD).float()
        none = given[:, :, 0] == SEP
        half = self.config.slots // 2
        weights = real.new_full((self.config.slots,), self.config.none_present)
        weights[half:] = self.config.none_absent
        return real * torch.where(none, weights, 1.0)[:, :, None]

    def _vocabulary(self, states: Tensor) -> Tensor:
        return self.packing.linear(states, self.embed.table.weight, self.out_bias)


def phrase_matrix(target: Tensor, slots: int, words: int) -> Tensor:
    """A row of phrases as a table: present ones in the first half, absent ones in the second.

    (batch, target) -> (batch, slots, words); phrases longer than `words`, or too many, are left out.
    """
    half = slots // 2
    present, absent = target == PRESENT, target == ABSENT
    heads = present | absent
    places = torch.arange(target.shape[1], device=target.device).expand_as(target)
    inside = places - torch.where(heads, places, -1).cummax(1).values - 1  # 0 for a phrase's first word
    of_present = present.cumsum(1)
    of_absent = absent.cumsum(1)
    row = torch.where(of_absent > 0, half + of_absent - 1, of_present - 1)
    fits = torch.where(of_absent > 0, of_absent <= half, (of_present > 0) & (of_present <= half))
    word = ~heads & (target != PAD) & (target != END) & fits & (inside < words)
    flat = torch.where(word, row * words + inside, slots * words)  # what is no word of a phrase goes behind the table
    table = target.new_zeros(len(target), slots * words + 1).scatter(1, flat, target)[:, :-1]
    table = table.unflatten(1, (slots, words))
    whole = (table == SEP).any(-1, keepdim=True)
    return torch.where(whole, table, PAD)


def match(gain: Tensor, real: Tensor) -> Tensor:
    """A phrase for each slot, or -1: the likeliest pair first, then the likeliest of what is left.

    gain (batch, slots, phrases), real (batch, phrases) -> (batch, slots)
    """
    batch, slots, phrases = gain.shape
    left = gain.masked_fill(~real[:, None, :], -math.inf)
    chosen = gain.new_full((batch, slots), -1, dtype=torch.long)
    slot_numbers = torch.arange(slots, device=gain.device)
    phrase_numbers = torch.arange(phrases, device=gain.device)
    for _ in range(min(slots, phrases)):
        best, place = left.flatten(1).max(-1)
        slot, phrase = place.div(phrases, rounding_mode="floor"), place % phrases
        found = (best > -math.inf)[:, None]
        here = (slot_numbers == slot[:, None]) & found
        chosen = torch.where(here, phrase[:, None], chosen)
        taken = here[:, :, None] | ((phrase_numbers == phrase[:, None]) & found)[:, None, :]
        left = left.masked_fill(taken, -math.inf)
    return chosen


def _reader_layer(config: SlotsConfig) -> EncoderLayer:
    attention = Attention(config.width, config.heads, dropout=config.dropout)
    return EncoderLayer(attention, config.width, config.inner, dropout=config.dropout, norm=config.reader_norm)


def _writer_layer(config: SlotsConfig) -> DecoderLayer:
    back, up = (Attention(config.width, config.heads, dropout=config.dropout) for _ in range(2))
    return DecoderLayer(back, up, config.width, config.inner, dropout=config.dropout, norm="pre")


def _start_small(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
