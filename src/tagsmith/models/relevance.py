"""A relevance-promoting language model (Li et al., 2020): a reply is what a language model writes behind the query.

    query q q q --read--> states, keys and values of each layer
    [SEP] r r r --write: self-attention over query and reply, then source attention to the query alone--> states h
    state at [SEP] --tanh--> topic vector --> distribution of topic words            (topic inference)
    (1 - gate) h + gate * topic vector --> scores of r r r [END]

Shapes: source (batch, source), target (batch, target) -> scores (batch, target, vocab). Query and reply are two blocks,
each padded on its own; places run on from the one to the other, so padding changes nothing.

Two losses besides that of the language model: source attention, at its most over the reply, should fall on the
informative words of the query; the topic distribution should name the keywords of the query's responses.
The paper's systems are settings: TFM-LM has source_attention = "none" and topics = false.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from tagsmith.config import check_positive
from tagsmith.data.batches import PairBatch
from tagsmith.data.replies import ReplyBatch
from tagsmith.nn.attention import Attention, KeysValues
from tagsmith.nn.embed import PlacedEmbedding
from tagsmith.nn.losses import TokenLoss
from tagsmith.nn.masks import behind, causal, padding
from tagsmith.nn.source import QueryView, Source, SourceLayer
from tagsmith.nn.transformer import NormPlace
from tagsmith.text.pieces import PAD, SEPARATOR


@dataclass(frozen=True)
class RelevanceConfig:
    """Sizes, and which of the paper's variants."""

    vocab: int
    width: int = 512
    heads: int = 8
    inner: int = 1024
    layers: int = 6
    dropout: float = 0.1
    norm: NormPlace = "post"
    longest: int = 128  # query, [SEP] and reply together
    source_attention: Source = "shared_layer"  # the released code; "sublayer": the paper's figure
    source_weights: Literal["shared", "own"] = "shared"  # of a sublayer: those of self-attention (eq. 3), or its own
    supervised_heads: Literal["first", "all"] = "first"  # whose weights are taught: the first head's, or their mean
    topics: bool = True  # topic inference and its gate
    attention_loss: float = 1.0  # paper: gamma 1
    topic_loss: float = 0.2  # paper: gamma 2
    query_loss: float = 1.0  # weight of the query's own tokens; 0: only replies are learned
    tied: bool = False  # the output matrix is the token table

    def __post_init__(self) -> None:
        check_positive(self, "vocab", "width", "heads", "inner", "layers", "longest")


class RelevanceOutput(NamedTuple):
    """Scores of every target place."""

    scores: Tensor  # (batch, target, vocab)


class Reading(NamedTuple):
    """Queries as writing sees them."""

    states: Tensor  # (batch, source, width) after the last layer
    views: tuple[QueryView, ...]  # one for each layer
    mask: Tensor  # (batch, 1, source)
    lengths: Tensor  # (batch,)


class Relevance(nn.Module):
    """Query in, reply out."""

    Config = RelevanceConfig

    def __init__(self, config: RelevanceConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        table = nn.Embedding(config.vocab, width, padding_idx=PAD)
        self.embed = PlacedEmbedding(table, longest=config.longest, dropout=config.dropout)
        self.layers: Any = nn.ModuleList(_layer(config) for _ in range(config.layers))
        self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        if not config.tied:
            self.out = nn.Parameter(torch.empty(config.vocab, width))
            nn.init.normal_(self.out, std=0.02)
        self.out_bias = nn.Parameter(torch.zeros(config.vocab))
        if config.topics:
            self.topic = nn.Sequential(nn.Linear(width, width), nn.Tanh())
            self.gate_topic = nn.Linear(width, width, bias=False)  # paper: W^g
            self.gate_state = nn.Linear(width, width)  # paper: W^l, b
        self.token_loss = TokenLoss(smoothing=0.0, pad=PAD)
        self.apply(_start_small)

    @property
    def output(self) -> Tensor:
        """The output matrix (vocab, width)."""
        return self.embed.table.weight if self.config.tied else self.out

    def forward(self, batch: PairBatch | ReplyBatch) -> RelevanceOutput:
        """Scores for each token of the replies, given the queries and the tokens before it."""
        _, states, _ = self._pass(batch)
        return RelevanceOutput(self.scores(self.mixed(states, self.topic_of(states))))

    def loss(self, batch: PairBatch | ReplyBatch) -> Tensor:
        """Mean surprise at the tokens of query and reply; with what a `ReplyBatch` tells, the two other losses."""
        query, states, weights = self._pass(batch, weights=isinstance(batch, ReplyBatch))
        topic = self.topic_of(states)
        loss = self._language_loss(query, self.mixed(states, topic), batch)
        if not isinstance(batch, ReplyBatch):
            return loss
        if weights is not None:
            loss = loss + self.config.attention_loss * attention_loss(weights, batch)
        if topic is not None and self.config.topic_loss:
            logs = linear(topic, self.output, self.out_bias).float().log_softmax(-1)
            loss = loss + self.config.topic_loss * topic_loss(logs, batch.topics)
        return loss

    def _language_loss(self, query: Tensor, states: Tensor, batch: PairBatch | ReplyBatch) -> Tensor:
        own = self.token_loss(states, self.output, self.out_bias, batch.target)
        if not self.config.query_loss:
            return own
        # the topic vector has seen the whole query: where the query itself is predicted it stays out
        wanted = next_tokens(batch.source, batch.source_lengths)
        theirs = self.token_loss(self.head(query), self.output, self.out_bias, wanted)
        many, few = (batch.target != PAD).sum(), self.config.query_loss * (wanted != PAD).sum()
        return (own * many + theirs * few) / (many + few)

    def repeated_parts(self) -> list[nn.Module]:
        """What is worth compiling."""
        return [*self.layers, self.token_loss]

    def _pass(self, batch: PairBatch | ReplyBatch, *, weights: bool = False) -> tuple[Tensor, Tensor, Tensor | None]:
        """States of queries, of replies after the head, and the last layer's taught weights if asked for."""
        source, lengths = batch.source, batch.source_lengths
        query = self.embed(source)
        inputs = pad(batch.target[:, :-1], (1, 0), value=SEPARATOR)
        places = lengths[:, None] + torch.arange(inputs.shape[1], device=source.device)
        states = self.embed(inputs, places)
        mask = padding(lengths, source.shape[1])
        query_mask, state_mask = causal(source.shape[1], source.device), behind(mask, inputs.shape[1])
        found = None
        for number, layer in enumerate(self.layers, start=1):
            query, view, written = layer(query, states, query_mask, state_mask, mask)
            states = written.states
            if weights and number == len(self.layers) and written.asked is not None and self.config.attention_loss:
                taught = 1 if self.config.supervised_heads == "first" else None
                found = layer.looking.weights(written.asked, view.source, mask, heads=taught).mean(1)
        return query, self.head(states), found

    def topic_of(self, states: Tensor) -> Tensor | None:
        """The topic vector, from the state at [SEP], which has seen the query only.  -> (batch, width)"""
        return self.topic(states[:, 0]) if self.config.topics else None

    def mixed(self, states: Tensor, topic: Tensor | None) -> Tensor:
        """States with as much of the topic as the gate lets in.  (batch, target, width), (batch, width)"""
        if topic is None:
            return states
        gate = torch.sigmoid(self.gate_topic(topic)[:, None] + self.gate_state(states))
        return torch.lerp(states, topic[:, None].to(states.dtype).expand_as(states), gate.to(states.dtype))

    def scores(self, states: Tensor) -> Tensor:
        """(batch, target, width) -> (batch, target, vocab)"""
        return linear(states, self.output, self.out_bias)

    def read(self, source: Tensor, lengths: Tensor) -> Reading:
        """Read the queries."""
        states, mask = self.embed(source), padding(lengths, source.shape[1])
        query_mask, views = causal(source.shape[1], source.device), []
        for layer in self.layers:
            states, view = layer.read(states, query_mask)
            views.append(view)
        return Reading(states, tuple(views), mask, lengths)

    def stepper(self, source: Tensor, lengths: Tensor) -> RelevanceStepper:
        """Ready to write, one token at a time."""
        return RelevanceStepper(self, self.read(source, lengths))

    def own_likeliness(self, texts: Tensor, lengths: Tensor) -> Tensor:
        """The log-probability of texts by themselves, behind their first token.  (batch, length) -> (batch,)"""
        wanted = texts[:, 1:]
        logs = self.scores(self.head(self.read(texts, lengths).states[:, :-1])).float().log_softmax(-1)
        return (logs.gather(2, wanted[:, :, None])[:, :, 0] * (wanted != PAD)).sum(1)

    def salience(self, batch: PairBatch) -> Tensor | None:
        """How much each query token was attended to, at its most over the reply.  -> (batch, source)"""
        _, _, weights = self._pass(batch, weights=True)
        return None if weights is None else at_most(weights, batch.target_lengths)

    def topic_scores(self, source: Tensor, lengths: Tensor) -> Tensor | None:
        """Log-probabilities of topic words.  -> (batch, vocab)"""
        if not self.config.topics:
            return None
        start = torch.full_like(source[:, :1], SEPARATOR)
        _, states, _ = self._pass(PairBatch(source, lengths, start, torch.ones_like(lengths)))
        topic = self.topic_of(states)
        assert topic is not None
        return linear(topic, self.output, self.out_bias).float().log_softmax(-1)


class RelevanceState(NamedTuple):
    """Where writing stands, for every query of a batch and its hypotheses."""

    past: tuple[KeysValues, ...]  # of each layer: the query, then what was written; rows = batch * beam
    source: tuple[KeysValues | None, ...]  # of each layer; rows = batch
    mask: Tensor  # (batch, 1, source)
    lengths: Tensor  # (batch,)
    topic: Tensor | None  # (batch, width)


class RelevanceStepper:
    """The model as search sees it; the hypotheses of a batch are (batch, beam)."""

    def __init__(self, model: Relevance, reading: Reading) -> None:
        self.model = model
        self.reading = reading

    def start(self) -> tuple[Tensor, RelevanceState]:
        """Scores of the first token (batch, 1, vocab)."""
        reading = self.reading
        past, source = zip(*reading.views, strict=True)
        state = RelevanceState(past, source, reading.mask, reading.lengths, None)
        states, state = self._advance(torch.full_like(reading.lengths[:, None], SEPARATOR), state)
        state = state._replace(topic=self.model.topic_of(states))
        return self.model.scores(self.model.mixed(states, state.topic)), state

    def step(self, tokens: Tensor, state: RelevanceState) -> tuple[Tensor, RelevanceState]:
        """Tokens just written (batch, beam) -> scores of the next (batch, beam, vocab)."""
        states, state = self._advance(tokens, state)
        return self.model.scores(self.model.mixed(states, state.topic)), state

    def _advance(self, tokens: Tensor, state: RelevanceState) -> tuple[Tensor, RelevanceState]:
        """One place for each hypothesis.  -> states after the head (batch, beam, width)"""
        batch, beam = tokens.shape
        written = state.past[0].keys.shape[2] - state.mask.shape[2]
        places = (state.lengths + written).repeat_interleave(beam)[:, None]
        states = self.model.embed(tokens.reshape(-1, 1), places)
        mask = pad(state.mask, (0, written + 1), value=True).repeat_interleave(beam, 0)
        past = []
        for layer, seen, source in zip(self.model.layers, state.past, state.source, strict=True):
            states, now, _ = layer.write(states, seen, mask, source, state.mask)
            past.append(now)
        return self.model.head(states).view(batch, beam, -1), state._replace(past=tuple(past))

    def reorder(self, state: RelevanceState, parents: Tensor) -> RelevanceState:
        """The state for hypotheses that continue `parents` (batch, beam) of the old ones."""
        return state._replace(past=_rows(state, _places(state)[:, 0:1] + parents))

    def narrow(self, state: RelevanceState, texts: Tensor) -> RelevanceState:
        """The state of some queries of the batch; one may be named several times."""
        return RelevanceState(
            _rows(state, _places(state)[texts]),
            tuple(layer and layer.rows(texts) for layer in state.source),
            state.mask[texts],
            state.lengths[texts],
            None if state.topic is None else state.topic[texts],
        )


def _places(state: RelevanceState) -> Tensor:
    """The rows of each query's hypotheses.  -> (batch, beam)"""
    rows, batch = state.past[0].keys.shape[0], len(state.lengths)
    return torch.arange(rows, device=state.lengths.device).view(batch, -1)


def _rows(state: RelevanceState, places: Tensor) -> tuple[KeysValues, ...]:
    return tuple(layer.rows(places.flatten()) for layer in state.past)


def next_tokens(source: Tensor, lengths: Tensor) -> Tensor:
    """What follows each query token: the next one, [SEP] behind the last.  (batch, source) -> same"""
    following = pad(source[:, 1:], (0, 1), value=PAD)
    return following.scatter(1, (lengths - 1)[:, None], SEPARATOR)


def at_most(weights: Tensor, lengths: Tensor) -> Tensor:
    """The largest weight over a reply's own places (eq. 4).  (batch, target, source), (batch,) -> (batch, source)"""
    real = padding(lengths, weights.shape[1])[:, 0, :, None]
    return weights.masked_fill(~real, 0.0).amax(1)


def attention_loss(weights: Tensor, batch: ReplyBatch) -> Tensor:
    """Squared distance to the informative words over a query's tokens (eq. 5); queries without any do not count."""
    away = (at_most(weights.float(), batch.target_lengths) - batch.informative.float()).square()
    each = (away * (batch.source != PAD)).sum(1) / batch.source_lengths
    counts = batch.informative.any(1)
    return (each * counts).sum() / counts.sum().clamp(min=1)


def topic_loss(logs: Tensor, topics: Tensor) -> Tensor:
    """Mean surprise at a query's topic words (eq. 7, by word).  (batch, vocab), (batch, topics) padded with [PAD]"""
    real = topics != PAD
    each = -(logs.gather(1, topics) * real).sum(1) / real.sum(1).clamp(min=1)
    return each.sum() / real.any(1).sum().clamp(min=1)


def _layer(config: RelevanceConfig) -> SourceLayer:
    back = Attention(config.width, config.heads, dropout=config.dropout)
    own = None
    if config.source_attention == "sublayer" and config.source_weights == "own":
        own = Attention(config.width, config.heads, dropout=config.dropout)
    return SourceLayer(
        back,
        own,
        config.width,
        config.inner,
        source=config.source_attention,
        dropout=config.dropout,
        norm=config.norm,
    )


def _start_small(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02 if module.weight.shape[-1] > 200 else 0.1)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


SIZES = {
    "relevance-paper": RelevanceConfig(vocab=12_000),
    "relevance-small": RelevanceConfig(vocab=9_000, width=320, heads=5, inner=1280, tied=True),
    "relevance-tiny": RelevanceConfig(vocab=100, width=16, heads=2, inner=32, layers=2),
}
