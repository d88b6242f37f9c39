"""SEGTRM (Mao et al., 2021): a Transformer that picks segments of a post and writes hashtags from them.

    tokens --cut into segments--> [S] [SEG] t t t [SEG] t t t --embed (token + place + segment)--> encoder
           --similarity of [SEG]_i to [S], top k--> memory --decoder, begun with the vector of [S]--> tag # tag [END]

Shapes: source (batch, source) -> grid (batch, 1 + segments * (1 + size)) -> memory (batch, key, width)
        -> scores (batch, target, vocab).

The paper's systems are settings: TRANSABS has no grid; Softbase and Hardbase select everything (top = 0).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import nll_loss, pad

from tagsmith.config import check_positive
from tagsmith.data.batches import PairBatch
from tagsmith.nn.attention import Attention, KeysValues
from tagsmith.nn.best import Best, best_of
from tagsmith.nn.copying import Pointer
from tagsmith.nn.embed import TokenEmbedding
from tagsmith.nn.linear import Packing
from tagsmith.nn.losses import TokenLoss
from tagsmith.nn.masks import SegmentView, causal, or_itself, padding, segment_view
from tagsmith.nn.select import Gradient, Grid, Reach, SegmentSelector, Selection, Similarity
from tagsmith.nn.transformer import Decoder, DecoderCache, DecoderLayer, Encoder, EncoderLayer, NormPlace
from tagsmith.text.pieces import PAD, SEGMENT, TEXT

Told = TypeVar("Told")


@dataclass(frozen=True)
class SegTrmConfig:
    """Sizes, and which of the paper's variants."""

    vocab: int
    width: int = 512
    heads: int = 8
    inner: int = 2048
    encoder_layers: int = 4
    decoder_layers: int = 4
    dropout: float = 0.1
    norm: NormPlace = "pre"
    longest: int = 256  # source or target tokens
    segments: bool = True  # False: TRANSABS
    segment_size: int = 5  # paper: Length.Seg
    view: SegmentView = "seg_row"
    reach: Reach = "tokens"  # paper: soft; "segments": hard
    top: int = 0  # paper: k; 0 selects all
    similarity: Similarity = "manhattan"
    gradient: Gradient = "none"
    noise: float = 0.0  # of the selection in training
    copy: bool = False
    smoothing: float = 0.0  # of labels in the loss

    def __post_init__(self) -> None:
        check_positive(self, "vocab", "width", "heads", "inner", "encoder_layers", "decoder_layers")
        check_positive(self, "longest", "segment_size")


class SegTrmOutput(NamedTuple):
    """Scores of every target place (log-probabilities where the model copies), and what was selected."""

    scores: Tensor  # (batch, target, vocab)
    memory: SegTrmMemory


class SegTrmMemory(NamedTuple):
    """What the decoder reads."""

    states: Tensor  # (batch, key, width)
    mask: Tensor  # (batch, 1, key)
    ids: Tensor  # (batch, key) the tokens that stand there
    begin: Tensor  # (batch, width) first input of the decoder
    weights: Tensor  # (batch, segments) of the selector
    chosen: Tensor  # (batch, segments)


class SegTrm(nn.Module):
    """Post in, hashtags out."""

    Config = SegTrmConfig

    def __init__(self, config: SegTrmConfig) -> None:
        super().__init__()
        self.config = config
        width, size = config.width, config.segment_size
        table = nn.Embedding(config.vocab, width, padding_idx=PAD)
        grid_longest = 1 + -(-config.longest // size) * (size + 1)
        self.embed_source = TokenEmbedding(table, longest=grid_longest, dropout=config.dropout)
        self.embed_target = TokenEmbedding(table, longest=config.longest, dropout=config.dropout)
        self.encoder = Encoder([_encoder_layer(config) for _ in range(config.encoder_layers)], width, norm=config.norm)
        self.decoder = Decoder([_decoder_layer(config) for _ in range(config.decoder_layers)], width, norm=config.norm)
        if config.segments:
            self.segment_table = nn.Embedding(-(-config.longest // size), width)
            self.selector = SegmentSelector(
                width,
                top=config.top,
                similarity=config.similarity,
                reach=config.reach,
                gradient=config.gradient,
                noise=config.noise,
            )
        if config.copy:
            self.look = Attention(width, 1)
            self.pointer = Pointer(width)
        self.token_loss = TokenLoss(smoothing=config.smoothing, pad=PAD)
        self.out_bias = nn.Parameter(torch.zeros(config.vocab))  # the output matrix is the token table
        self.packing = Packing()  # of that matrix
        self.apply(_start_small)

    def forward(self, batch: PairBatch) -> SegTrmOutput:
        """Scores for each target token, given those before it."""
        states, memory = self.write(batch)
        return SegTrmOutput(self.scores(states, memory), memory)

    def loss(self, batch: PairBatch) -> Tensor:
        """Mean cross-entropy of the target tokens."""
        return self.loss_of(*self.write(batch), batch)

    def loss_of(self, states: Tensor, memory: SegTrmMemory, batch: PairBatch) -> Tensor:
        """The same from decoder states."""
        if self.config.copy:
            logs = self.scores(states, memory).flatten(0, 1)
            return nll_loss(logs, batch.target.flatten(), ignore_index=PAD)
        return self.token_loss(states, self.embed_target.table.weight, self.out_bias, batch.target)

    def repeated_parts(self) -> list[nn.Module]:
        """What is worth compiling: parts that run often, with shapes a compiler can follow."""
        return [*self.encoder.layers, *self.decoder.layers, self.token_loss]

    def encode(self, source: Tensor, lengths: Tensor) -> SegTrmMemory:
        """Read the posts and select their segments."""
        if not self.config.segments:
            return self._encode_plain(source, lengths)
        ids, filled = lay_grid(source, self.config.segment_size)
        segments = ids.shape[1]  # ids (batch, segments, 1 + size)
        flat_ids = pad(ids.flatten(1), (1, 0), value=TEXT)  # (batch, grid)
        flat_filled = pad(filled.flatten(1), (1, 0), value=True)
        own = self.segment_table.weight[:segments].repeat_interleave(ids.shape[2], 0)
        view = segment_view(segments, self.config.segment_size, view=self.config.view, device=source.device)
        mask = or_itself(view & flat_filled[:, None])  # (batch, grid, grid)
        states = self.encoder(self.embed_source(flat_ids, pad(own, (0, 0, 1, 0))), mask)
        blocks = states[:, 1:].view(-1, segments, ids.shape[2], states.shape[-1])
        picked = self.selector(Grid(states[:, 0], blocks, filled))
        return SegTrmMemory(
            picked.states, picked.mask, self._ids_of(ids, picked), states[:, 0], picked.weights, picked.chosen
        )

    def stepper(self, source: Tensor, lengths: Tensor) -> SegTrmStepper[Tensor]:
        """Ready to write, one token at a time."""
        return SegTrmStepper(self, self.encode(source, lengths), self.scores)

    def chooser(self, memory: SegTrmMemory, *, keep: int) -> SegTrmStepper[Best]:
        """The same for a beam, told the `keep` likeliest tokens alone."""
        return SegTrmStepper(self, memory, partial(self.best, keep=keep))

    def write(self, batch: PairBatch) -> tuple[Tensor, SegTrmMemory]:
        """Decoder states over whole targets.  -> (batch, target, width)"""
        memory = self.encode(batch.source, batch.source_lengths)
        written = self.embed_target(batch.target[:, :-1])
        states = torch.cat([memory.begin[:, None].to(written.dtype), written], dim=1)
        mask = causal(states.shape[1], states.device)
        return self.decoder(states, mask, memory.states, memory.mask), memory

    def _encode_plain(self, source: Tensor, lengths: Tensor) -> SegTrmMemory:
        mask = padding(lengths, source.shape[1])
        states = self.encoder(self.embed_source(source), mask)
        start = torch.full_like(source[:, :1], TEXT)
        none = states.new_zeros(len(source), 0)
        return SegTrmMemory(states, mask, source, self.embed_target(start)[:, 0], none, none.bool())

    def _ids_of(self, ids: Tensor, picked: Selection) -> Tensor:
        wide = 1 if self.config.reach == "segments" else ids.shape[2]
        places = picked.places[:, :, None].expand(-1, -1, wide)
        return pad(ids[:, :, :wide].gather(1, places).flatten(1), (1, 0), value=TEXT)

    def scores(self, states: Tensor, memory: SegTrmMemory, looked: KeysValues | None = None) -> Tensor:
        """Scores of every token (log-probabilities where the model copies).  -> (batch, target, vocab)

        `looked` is the memory as `look` sees it, where that is known.
        """
        scores = self._vocabulary(states)
        if not self.config.copy:
            return scores
        weights = self.look.weights(states, looked or memory.states, memory.mask)[:, 0]  # (batch, target, key)
        return self.pointer(scores, states, weights, memory.ids)

    def best(self, states: Tensor, memory: SegTrmMemory, looked: KeysValues | None = None, *, keep: int) -> Best:
        """The likeliest tokens by those scores.  -> (batch, target, keep)"""
        scores = self._vocabulary(states)
        keep = min(keep, scores.shape[2])
        if not self.config.copy:
            return best_of(scores, keep)
        weights = self.look.weights(states, looked or memory.states, memory.mask)[:, 0]
        return self.pointer.best(scores, states, weights, memory.ids, keep=keep)

    def _vocabulary(self, states: Tensor) -> Tensor:
        return self.packing.linear(states, self.embed_target.table.weight, self.out_bias)


class SegTrmState(NamedTuple):
    """Where the decoder stands, for every text of a batch and its hypotheses."""

    memory: SegTrmMemory
    projected: tuple[KeysValues, ...]  # the memory as each decoder layer sees it
    looked: KeysValues | None  # the same as copying sees it
    cache: DecoderCache  # rows = batch * beam


class SegTrmStepper(Generic[Told]):
    """The decoder as search sees it; the hypotheses of a batch are (batch, beam).

    `tell` makes of decoder states (batch, beam, width) what search is told: all scores, or the best.
    """

    def __init__(
        self, model: SegTrm, memory: SegTrmMemory, tell: Callable[[Tensor, SegTrmMemory, KeysValues | None], Told]
    ) -> None:
        self.model = model
        self.memory = memory
        self.tell = tell

    def start(self) -> tuple[Told, SegTrmState]:
        """What is told of the first token (batch, 1, ...)."""
        projected = self.model.decoder.remember(self.memory.states)
        looked = self.model.look.remember(self.memory.states) if self.model.config.copy else None
        return self._advance(self.memory.begin[:, None], SegTrmState(self.memory, projected, looked, DecoderCache()))

    def step(self, tokens: Tensor, state: SegTrmState) -> tuple[Told, SegTrmState]:
        """Tokens just written (batch, beam) -> what is told of the next (batch, beam, ...)."""
        return self._advance(self.model.embed_target(tokens.reshape(-1, 1), start=state.cache.length - 1), state)

    def reorder(self, state: SegTrmState, parents: Tensor) -> SegTrmState:
        """The state for hypotheses that continue `parents` (batch, beam) of the old ones."""
        return state._replace(cache=state.cache.rows(_rows(state, parents)))

    def narrow(self, state: SegTrmState, texts: Tensor) -> SegTrmState:
        """The state of some texts of the batch."""
        beam = state.cache.layers[0].keys.shape[0] // len(state.memory.states)
        every = torch.arange(beam, device=texts.device).expand(len(state.memory.states), -1)
        return SegTrmState(
            SegTrmMemory(*(part[texts] for part in state.memory)),
            tuple(layer.rows(texts) for layer in state.projected),
            state.looked.rows(texts) if state.looked else None,
            state.cache.rows(_rows(state, every).view(-1, beam)[texts].flatten()),
        )

    def _advance(self, vectors: Tensor, state: SegTrmState) -> tuple[Told, SegTrmState]:
        states, cache = self.model.decoder.step(vectors, state.cache, state.projected, state.memory.mask)
        beams = states.reshape(len(state.memory.states), -1, states.shape[-1])  # (batch, beam, width)
        return self.tell(beams, state.memory, state.looked), state._replace(cache=cache)


def _rows(state: SegTrmState, parents: Tensor) -> Tensor:
    """Places (batch, beam) as rows of the cache."""
    batch = parents.shape[0]
    beam = state.cache.layers[0].keys.shape[0] // batch
    return (torch.arange(batch, device=parents.device)[:, None] * beam + parents).flatten()


def lay_grid(source: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Cut rows into segments, each headed by [SEG].  (batch, source) -> ids, filled (batch, segments, 1 + size)"""
    segments = (source.shape[1] + size - 1) // size
    tokens = pad(source, (0, segments * size - source.shape[1]), value=PAD).view(-1, segments, size)
    ids = pad(tokens, (1, 0), value=SEGMENT)
    filled = tokens != PAD
    return ids, torch.cat([filled.any(-1, keepdim=True), filled], dim=-1)  # [SEG] of an empty segment is masked


def _encoder_layer(config: SegTrmConfig) -> EncoderLayer:
    attention = Attention(config.width, config.heads, dropout=config.dropout)
    return EncoderLayer(attention, config.width, config.inner, dropout=config.dropout, norm=config.norm)


def _decoder_layer(config: SegTrmConfig) -> DecoderLayer:
    back, up = (Attention(config.width, config.heads, dropout=config.dropout) for _ in range(2))
    return DecoderLayer(back, up, config.width, config.inner, dropout=config.dropout, norm=config.norm)


def _start_small(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


SIZES = {
    "segtrm-paper": SegTrmConfig(
        vocab=30_381, width=768, heads=12, inner=3072, encoder_layers=12, decoder_layers=12, norm="post", top=6
    ),
    "segtrm-middle": SegTrmConfig(vocab=20_000, top=4, smoothing=0.1),
    "segtrm-tiny": SegTrmConfig(vocab=100, width=16, heads=2, inner=32, encoder_layers=1, decoder_layers=1, top=2),
}
