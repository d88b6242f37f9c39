"""How keyphrases are written: word after word, each phrase on its own and yet knowing those before it.

    a writer: (words before, memory) -> states (batch, target, state_width), weights over the document (batch, target,
    source); the same one word at a time for (batch, beam) hypotheses: start / step / reorder / narrow

NestedGru      ExHiRD (Chen et al., 2020): a GRU over phrases begins each run of a GRU over words.
FlatGru        catSeq (Yuan et al., 2020): one GRU over all words.
TransformerWriter   either, by what a place may see of those before it.

A phrase begins where the word before is [SEP].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from tagsmith.nn.attention import Attention, KeysValues
from tagsmith.nn.embed import TokenEmbedding, sinusoids
from tagsmith.nn.masks import causal, phrase_view
from tagsmith.nn.reading import Memory
from tagsmith.nn.recurrent import AdditiveAttention
from tagsmith.nn.transformer import Decoder, DecoderCache
from tagsmith.text.vocabulary import SEP

MOST_PHRASES = 64  # told apart by their number


class TransformerState(NamedTuple):
    """What was written, rows = batch * beam, and the memory as each layer sees it."""

    written: Tensor  # (rows, length)
    cache: DecoderCache
    projected: tuple[KeysValues, ...]  # rows = batch


class TransformerWriter(nn.Module):
    """A Transformer decoder; nested, it sees of an earlier phrase only the place that closed it."""

    waves: Tensor

    def __init__(self, table: nn.Embedding, decoder: Decoder, *, longest: int, nested: bool, dropout: float) -> None:
        super().__init__()
        width = table.embedding_dim
        self.state_width = width
        self.nested = nested
        self.embed = TokenEmbedding(table, longest=0 if nested else longest, dropout=dropout)
        if nested:
            self.phrase_table = nn.Embedding(MOST_PHRASES, width)
            self.register_buffer("waves", sinusoids(longest, width) / width**0.5, persistent=False)
        self.decoder = decoder
        self.look = Attention(width, 1)
        self.out_bias = nn.Parameter(torch.zeros(table.num_embeddings))  # the output matrix is the token table

    def scores(self, states: Tensor) -> Tensor:
        """Of every word of the vocabulary."""
        return linear(states, self.embed.table.weight, self.out_bias)

    def forward(self, inputs: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Whole targets at once."""
        mask = phrase_view(inputs == SEP) if self.nested else causal(inputs.shape[1], inputs.device)
        vectors = self.embed(inputs, self._places(inputs) if self.nested else None)
        states = self.decoder(vectors, mask, memory.states, memory.mask)
        return states, self._weights(states, memory)

    def start(self, memory: Memory) -> TransformerState:
        """Nothing written yet."""
        return TransformerState(memory.ids[:, :0], DecoderCache(), self.decoder.remember(memory.states))

    def step(self, tokens: Tensor, state: TransformerState, memory: Memory) -> tuple[Tensor, Tensor, TransformerState]:
        """One word more for each hypothesis."""
        written = torch.cat([state.written, tokens.reshape(-1, 1)], dim=1)
        if self.nested:
            mask = phrase_view(written == SEP, last=1)
            vectors = self.embed(written[:, -1:], self._places(written)[:, -1:])
        else:
            mask = None
            vectors = self.embed(written[:, -1:], start=written.shape[1] - 1)
        states, cache = self.decoder.step(vectors, state.cache, state.projected, memory.mask, mask)
        beams = states.reshape(*tokens.shape, -1)  # (batch, beam, width)
        return beams, self._weights(beams, memory), TransformerState(written, cache, state.projected)

    def reorder(self, state: TransformerState, parents: Tensor) -> TransformerState:
        """The state for hypotheses that continue `parents` (batch, beam)."""
        beam = len(state.written) // len(parents)
        rows = (torch.arange(len(parents), device=parents.device)[:, None] * beam + parents).flatten()
        return state._replace(written=state.written[rows], cache=state.cache.rows(rows))

    def narrow(self, state: TransformerState, texts: Tensor) -> TransformerState:
        """The state of some documents."""
        batch = state.projected[0].keys.shape[0]
        rows = torch.arange(len(state.written), device=texts.device).view(batch, -1)[texts].flatten()
        projected = tuple(layer.rows(texts) for layer in state.projected)
        return TransformerState(state.written[rows], state.cache.rows(rows), projected)

    def _places(self, inputs: Tensor) -> Tensor:
        """Where a word stands in its phrase, and which phrase that is.  -> (rows, length, width)"""
        begins = inputs == SEP
        places = torch.arange(inputs.shape[1], device=inputs.device).expand_as(inputs)
        inside = places - torch.where(begins, places, 0).cummax(1).values
        number = begins.cumsum(1).clamp(max=MOST_PHRASES - 1)
        return self.waves[inside].to(self.phrase_table.weight.dtype) + self.phrase_table(number)

    def _weights(self, states: Tensor, memory: Memory) -> Tensor:
        return self.look.weights(states, memory.states, memory.mask)[:, 0]  # (batch, target, source)


class NestedState(NamedTuple):
    """Two GRUs, each (batch, beam, hidden), and where the phrase looks (batch, beam, source)."""

    phrase: Tensor
    word: Tensor
    attentional: Tensor  # of the last word
    phrase_weights: Tensor


class FlatState(NamedTuple):
    """One GRU, and the documents as its attention sees them."""

    word: Tensor  # (batch, beam, hidden)
    keys: Tensor  # (batch, source, hidden)


class _GruWriter(nn.Module):
    """What the two GRU writers share: whole targets are written a word at a time, hypotheses are picked by place."""

    start: Any  # memory -> state
    step: Any  # tokens, state, memory -> states, weights, state

    def forward(self, inputs: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Whole targets, word after word."""
        state, outs, looks = self.start(memory), [], []
        for tokens in inputs.unbind(1):
            out, weights, state = self.step(tokens[:, None], state, memory)
            outs.append(out)
            looks.append(weights)
        return torch.cat(outs, dim=1), torch.cat(looks, dim=1)

    def reorder(self, state, parents: Tensor):  # type: ignore[no-untyped-def]
        """The state for hypotheses that continue `parents` (batch, beam)."""
        rows = torch.arange(len(parents), device=parents.device)[:, None]
        return type(state)(*(part[rows, parents] for part in state))

    def narrow(self, state, texts: Tensor):  # type: ignore[no-untyped-def]
        """The state of some documents."""
        return type(state)(*(part[texts] for part in state))


class NestedGru(_GruWriter):
    """ExHiRD: what a phrase looks at, and what its words look at, together."""

    def __init__(self, table: nn.Embedding, memory: int, hidden: int, *, dropout: float) -> None:
        super().__init__()
        self.state_width = hidden
        self.table = table
        self.dropout = nn.Dropout(dropout)
        self.begin = nn.Identity() if memory == hidden else nn.Sequential(nn.Linear(memory, hidden), nn.Tanh())
        self.phrase_cell = nn.GRUCell(hidden, hidden)
        self.word_cell = nn.GRUCell(table.embedding_dim + hidden, hidden)
        self.phrase_look = nn.Linear(hidden, memory, bias=False)  # Luong's general attention
        self.word_look = nn.Linear(hidden, memory, bias=False)
        self.mix = nn.Linear(memory + hidden, hidden)
        self.out = nn.Linear(hidden, table.num_embeddings)

    def scores(self, states: Tensor) -> Tensor:
        """Of every word of the vocabulary."""
        return self.out(states)

    def start(self, memory: Memory) -> NestedState:
        """The phrase GRU begins with the whole document."""
        phrase = self.begin(memory.whole)[:, None]
        none = torch.zeros_like(phrase)
        return NestedState(phrase, none, none, torch.zeros_like(memory.mask, dtype=phrase.dtype))

    def step(self, tokens: Tensor, state: NestedState, memory: Memory) -> tuple[Tensor, Tensor, NestedState]:
        """One word more; where a phrase begins, the phrase GRU moves first and the word GRU starts from it."""
        begins = (tokens == SEP)[:, :, None]
        moved = _cell(self.phrase_cell, state.attentional, state.phrase)
        phrase = torch.where(begins, moved, state.phrase)
        phrase_weights = torch.where(begins, self._look(self.phrase_look, phrase, memory), state.phrase_weights)
        fed = torch.where(begins, 0.0, state.attentional)
        before = torch.where(begins, phrase, state.word)
        word = _cell(self.word_cell, torch.cat([self.dropout(self.table(tokens)), fed], dim=-1), before)
        both = self._look(self.word_look, word, memory) * phrase_weights
        weights = both / both.sum(-1, keepdim=True).clamp(min=1e-9)
        context = weights @ memory.states  # (batch, beam, memory)
        attentional = torch.tanh(self.mix(torch.cat([context, word], dim=-1)))
        return attentional, weights, NestedState(phrase, word, attentional, phrase_weights)

    def _look(self, query: nn.Linear, states: Tensor, memory: Memory) -> Tensor:
        scores = query(states) @ memory.states.transpose(1, 2)  # (batch, beam, source)
        return scores.float().masked_fill(~memory.mask, -1e9).softmax(-1).to(states.dtype)


class FlatGru(_GruWriter):
    """catSeq: one GRU, additive attention; the words come from the state and what it looked at."""

    def __init__(self, table: nn.Embedding, memory: int, hidden: int, *, dropout: float) -> None:
        super().__init__()
        self.state_width = memory + hidden + table.embedding_dim
        self.seen = memory + hidden
        self.table = table
        self.dropout = nn.Dropout(dropout)
        self.begin = nn.Identity() if memory == hidden else nn.Sequential(nn.Linear(memory, hidden), nn.Tanh())
        self.word_cell = nn.GRUCell(table.embedding_dim, hidden)
        self.attention = AdditiveAttention(hidden, memory, hidden)
        self.out = nn.Sequential(nn.Linear(memory + hidden, hidden), nn.Linear(hidden, table.num_embeddings))

    def scores(self, states: Tensor) -> Tensor:
        """Of every word of the vocabulary; the gate alone sees the word before."""
        return self.out(states[..., : self.seen])

    def start(self, memory: Memory) -> FlatState:
        """The GRU begins with the whole document."""
        return FlatState(self.begin(memory.whole)[:, None], self.attention.remember(memory.states))

    def step(self, tokens: Tensor, state: FlatState, memory: Memory) -> tuple[Tensor, Tensor, FlatState]:
        """One word more."""
        vectors = self.dropout(self.table(tokens))  # (batch, beam, width)
        word = _cell(self.word_cell, vectors, state.word)
        context, weights = self.attention(word, state.keys, memory.states, memory.mask)
        return torch.cat([context, word, vectors], dim=-1), weights, state._replace(word=word)

    def reorder(self, state: FlatState, parents: Tensor) -> FlatState:
        """Hypotheses change places, the documents do not."""
        rows = torch.arange(len(parents), device=parents.device)[:, None]
        return state._replace(word=state.word[rows, parents])


def _cell(cell: nn.GRUCell, inputs: Tensor, hidden: Tensor) -> Tensor:
    """A GRU cell for (batch, beam, width)."""
    return cell(inputs.flatten(0, 1), hidden.flatten(0, 1).to(inputs.dtype)).view(*hidden.shape[:2], -1)
