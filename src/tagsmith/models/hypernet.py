"""A title or question that writes the weights of the LSTM which reads the body (Duan et al., 2022).

    [S] meta [SEP] body [SEP] --Transformer--> states of the meta-text, states of the body
    states of the meta-text --LSTM--> code z --three linear maps--> weights of another LSTM
    states of the body --that LSTM--> label of the text | first and last word of an answer | BIO labels, CRF

Shapes: ids (batch, source) -> states (batch, source, width); body (batch, body, width) -> (batch, body, hidden) ->
scores: classify (batch, labels), answer (batch, 1 + body, 2) with "no answer" first, extract (batch, body, labels).

Baselines are other ways to read the body: `plain` (as the Transformer left it), `bilstm`, `tg` (title-guided).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tagsmith.config import check_positive
from tagsmith.data.reading import ReadBatch
from tagsmith.errors import ConfigError
from tagsmith.nn.attention import Attention
from tagsmith.nn.crf import CRF
from tagsmith.nn.embed import PlacedEmbedding, TokenEmbedding
from tagsmith.nn.hyper import Generated, HyperLSTM
from tagsmith.nn.masks import padding
from tagsmith.nn.reading import TransformerReader
from tagsmith.nn.recurrent import TwoWays, turned
from tagsmith.nn.transformer import Encoder, EncoderLayer, NormPlace
from tagsmith.text.vocabulary import PAD

Asked = Literal["classify", "answer", "extract"]
Pool = Literal["last", "mean", "max"]


@dataclass(frozen=True)
class HypernetConfig:
    """Sizes; the Transformer may take over a BERT, which is post-norm with learned places."""

    vocab: int
    labels: int = 2  # answer: has none of its own
    asked: Asked = "classify"
    body: Literal["hypernet", "plain", "bilstm", "tg"] = "hypernet"
    pool: Pool = "last"  # what stands for the whole text
    none: float = 1.0  # how much a window without an answer counts in training
    hidden: int = 512  # paper: N_h, and the hyper encoding layer's
    code: int = 16  # paper: N_z
    constant: bool = True  # False: the paper's, no part of the weights is the same for all texts
    code_scale: float = 1.0  # beside a constant part: how large the entries of a code are
    code_dropout: float = 0.0  # beside a constant part: share of texts that are read without their code in training
    ways: Literal["ahead", "both"] = "both"  # the body is read by one written LSTM (the paper), or from both sides
    freeze: bool = False  # the Transformer stays as it is
    width: int = 384
    heads: int = 12
    inner: int = 1536
    reader_layers: int = 6
    reader_norm: NormPlace = "pre"
    places: Literal["waves", "learned"] = "waves"
    dropout: float = 0.1
    body_dropout: float | None = None  # of the states that are read again, and of what was read; None: as the rest
    longest: int = 384

    def __post_init__(self) -> None:
        check_positive(self, "vocab", "labels", "hidden", "code", "width", "heads", "inner", "reader_layers", "longest")
        if self.code_scale <= 0 or not 0 <= self.code_dropout < 1:
            given = f"{self.code_scale} and {self.code_dropout}"
            raise ConfigError(f"code_scale must be above 0 and code_dropout at least 0 and below 1, not {given}")


class HypernetOutput(NamedTuple):
    """Scores as the head's description tells."""

    scores: Tensor


class Split(NamedTuple):
    """A text as the Transformer left it."""

    whole: Tensor  # (batch, source, width)
    lengths: Tensor  # (batch,)
    meta: Tensor  # (batch, meta, width), paper: H^u
    meta_lengths: Tensor  # (batch,)
    body: Tensor  # (batch, body, width), paper: H^v
    body_lengths: Tensor  # (batch,)


class HyperBody(nn.Module):
    """The paper's layers: the meta-text as a code, the body read with weights made of it."""

    read: Any  # nn.ModuleList of HyperLSTM, which types cannot say

    def __init__(self, config: HypernetConfig) -> None:
        super().__init__()
        self.pool: Pool = config.pool
        ways = 2 if config.ways == "both" else 1
        self.width = ways * config.hidden
        self.sum_up = nn.LSTM(config.width, config.hidden, batch_first=True)
        self.code = nn.Linear(config.hidden, config.code)
        self.even = nn.LayerNorm(config.code, elementwise_affine=False) if config.constant else nn.Identity()
        self.scale, self.unheard = (config.code_scale, config.code_dropout) if config.constant else (1.0, 0.0)
        self.read = nn.ModuleList(
            HyperLSTM(config.width, config.hidden, config.code, constant=config.constant) for _ in range(ways)
        )

    def forward(self, given: Split) -> tuple[Tensor, Tensor]:
        """-> states (batch, body, ways * hidden), paper: H^S, and the whole (batch, ways * hidden)"""
        codes = self.codes(given)
        states = self._both(given, codes) if len(self.read) == 2 else self.read[0](given.body, codes)
        return states, pooled(states, given.body_lengths, self.pool)

    def codes(self, given: Split) -> Tensor:
        """What the meta-texts come down to, paper: z.  -> (batch, code)"""
        summed, _ = self.sum_up(given.meta)
        codes = self.scale * self.even(self.code(pooled(summed, given.meta_lengths, "last")))
        if self.training and self.unheard:
            codes = codes * (torch.rand(len(codes), 1, device=codes.device) >= self.unheard)
        return codes

    def _both(self, given: Split, codes: Tensor) -> Tensor:
        """Forward and backward as texts of one batch: on a GPU, twice as many take hardly longer."""
        written = [one.generate(codes) for one in self.read]
        weights = Generated(*(torch.cat(parts) for parts in zip(*written, strict=True)))
        texts = torch.cat([given.body, turned(given.body, given.body_lengths)])
        ahead, back = self.read[0].read(texts, weights).chunk(2)
        return torch.cat([ahead, turned(back, given.body_lengths)], dim=-1)


class PlainBody(nn.Module):
    """The Transformer's own states; the whole is pooled from meta-text and body, `last` meaning [S] as BERT has it."""

    def __init__(self, config: HypernetConfig) -> None:
        super().__init__()
        self.pool: Pool = config.pool
        self.width = config.width

    def forward(self, given: Split) -> tuple[Tensor, Tensor]:
        whole = given.whole[:, 0] if self.pool == "last" else pooled(given.whole, given.lengths, self.pool)
        return given.body, whole


class RecurrentBody(nn.Module):
    """An ordinary LSTM, both ways."""

    def __init__(self, config: HypernetConfig) -> None:
        super().__init__()
        self.pool: Pool = config.pool
        self.width = 2 * config.hidden
        self.read = TwoWays(config.width, config.hidden, cell="lstm")

    def forward(self, given: Split) -> tuple[Tensor, Tensor]:
        states = self.read(given.body, given.body_lengths)
        return states, pooled(states, given.body_lengths, self.pool)


class TitleGuidedBody(nn.Module):
    """Each word gathers what the title has for it (Chen et al., 2019), half of it kept as it was."""

    def __init__(self, config: HypernetConfig) -> None:
        super().__init__()
        self.pool: Pool = config.pool
        self.width = 2 * config.hidden
        self.read = TwoWays(config.width, config.hidden, cell="gru")
        self.read_title = TwoWays(config.width, config.hidden, cell="gru")
        self.match = nn.Linear(self.width, self.width, bias=False)
        self.merge = TwoWays(2 * self.width, config.hidden, cell="gru")

    def forward(self, given: Split) -> tuple[Tensor, Tensor]:
        words = self.read(given.body, given.body_lengths)
        title = self.read_title(given.meta, given.meta_lengths)
        scores = words @ self.match(title).transpose(1, 2)  # (batch, body, meta)
        mask = padding(given.meta_lengths, title.shape[1])
        gathered = scores.masked_fill(~mask, -math.inf).softmax(-1) @ title
        merged = self.merge(torch.cat([words, gathered], dim=-1), given.body_lengths)
        states = 0.5 * words + 0.5 * merged
        return states, pooled(states, given.body_lengths, self.pool)


BODIES: dict[str, type[HyperBody | PlainBody | RecurrentBody | TitleGuidedBody]] = {
    "hypernet": HyperBody,
    "plain": PlainBody,
    "bilstm": RecurrentBody,
    "tg": TitleGuidedBody,
}


class Hypernet(nn.Module):
    """A title and a text, or a question and a passage, in; a label, an answer or keyphrases out."""

    Config = HypernetConfig

    def __init__(self, config: HypernetConfig) -> None:
        super().__init__()
        self.config = config
        table = nn.Embedding(config.vocab, config.width, padding_idx=PAD)
        kind = PlacedEmbedding if config.places == "learned" else TokenEmbedding
        embed = kind(table, longest=config.longest, dropout=config.dropout)
        layers = [_layer(config) for _ in range(config.reader_layers)]
        self.reader = TransformerReader(embed, Encoder(layers, config.width, norm=config.reader_norm))
        self.reader.apply(_start_small)
        self.norm = nn.LayerNorm(config.width)  # backbones end in states of any size
        self.dropout = nn.Dropout(config.dropout if config.body_dropout is None else config.body_dropout)
        body = BODIES[config.body](config)
        self.body = body
        self.head = nn.Linear(body.width, 2 if config.asked == "answer" else config.labels)
        if config.asked == "answer":
            self.null = nn.Linear(body.width, 2)  # the paper has no place for "no answer": [S] is not in the body
        if config.asked == "extract":
            self.crf = CRF(config.labels)
        if config.freeze:
            self.reader.requires_grad_(False)

    def forward(self, batch: ReadBatch) -> HypernetOutput:
        """Scores of labels, or of places."""
        states, whole = self.body(self.split(batch))
        if self.config.asked == "classify":
            return HypernetOutput(self.head(self.dropout(whole)).float())
        scores = self.head(self.dropout(states)).float()
        if self.config.asked == "extract":
            return HypernetOutput(scores)
        mask = padding(batch.body_lengths, scores.shape[1])[:, 0, :, None]
        none = self.null(self.dropout(whole)).float()[:, None]
        return HypernetOutput(torch.cat([none, scores.masked_fill(~mask, -math.inf)], dim=1))

    def loss(self, batch: ReadBatch) -> Tensor:
        """Mean surprise at labels, at first and last words, or at paths of labels."""
        scores = self(batch).scores
        if self.config.asked == "classify":
            return cross_entropy(scores, batch.target[:, 0])
        if self.config.asked == "extract":
            return self.crf.loss(scores, batch.target, batch.body_lengths)
        first, last = scores.unbind(-1)  # each (batch, 1 + body)
        right = batch.target[:, :2]
        each = cross_entropy(first, right[:, 0], reduction="none") + cross_entropy(last, right[:, 1], reduction="none")
        counts = 1.0 + (self.config.none - 1.0) * (right[:, 0] == 0)
        return (counts * each).sum() / counts.sum()

    def repeated_parts(self) -> list[nn.Module]:
        """What is worth compiling."""
        return [] if self.config.freeze else list(self.reader.encoder.layers)

    def split(self, batch: ReadBatch) -> Split:
        """Read the texts together with their meta-texts, then part them."""
        whole = self.dropout(self.norm(self.states(batch)))
        meta, body = (
            whole.gather(1, places[:, :, None].expand(-1, -1, whole.shape[2])) for places in (batch.meta, batch.body)
        )
        return Split(whole, batch.lengths, meta, batch.meta_lengths, body, batch.body_lengths)

    def states(self, batch: ReadBatch) -> Tensor:
        """What the Transformer makes of the ids, or has made of them before.  -> (batch, source, width)"""
        if batch.states.shape[-1]:
            return batch.states.to(self.head.weight.dtype)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.config.freeze):
            return self.reader(batch.ids, batch.ids, batch.lengths).states

    def train(self, mode: bool = True) -> Self:
        """A frozen Transformer never drops anything."""
        super().train(mode)
        if self.config.freeze:
            self.reader.eval()
        return self


def pooled(states: Tensor, lengths: Tensor, how: Pool) -> Tensor:
    """The real places of each row as one vector.  (batch, length, width), (batch,) -> (batch, width)"""
    if how == "last":
        places = (lengths - 1)[:, None, None].expand(-1, 1, states.shape[2])
        return states.gather(1, places)[:, 0]
    mask = padding(lengths, states.shape[1])[:, 0, :, None]
    if how == "max":
        return states.masked_fill(~mask, -math.inf).amax(1)
    return (states * mask).sum(1) / lengths[:, None]


def _layer(config: HypernetConfig) -> EncoderLayer:
    attention = Attention(config.width, config.heads, dropout=config.dropout)
    return EncoderLayer(attention, config.width, config.inner, dropout=config.dropout, norm=config.reader_norm)


def _start_small(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
