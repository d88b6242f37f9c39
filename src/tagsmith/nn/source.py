"""A language model's layer that reads a query and writes behind it, and may look at the query once more (source).

    read:   query  --self-attention--> --feed-forward--> query'                 leaves what writing looks at
    write:  places --self-attention over query and places--> --source--> --feed-forward--> places'

`source` is where the second look happens: "none"; "sublayer", behind self-attention; "shared_layer", the whole layer
once more with the same weights, looking at the query alone. `write` takes whole responses or one place at a time.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from tagsmith.nn.attention import Attention, KeysValues
from tagsmith.nn.transformer import FeedForward, NormPlace, Residual

Source = Literal["none", "sublayer", "shared_layer"]


class QueryView(NamedTuple):
    """What writing sees of a query in one layer."""

    past: KeysValues  # for self-attention
    source: KeysValues | None  # for the second look


class Written(NamedTuple):
    """New states of the places, all that self-attention has seen, and what asked at the second look."""

    states: Tensor  # (rows, places, width)
    past: KeysValues
    asked: Tensor | None  # (rows, places, width)


class SourceLayer(nn.Module):
    """Self-attention, the second look, feed-forward; `look_source` may be the same part as `look_back`."""

    residuals: Any  # nn.ModuleList of Residual, which types cannot say

    def __init__(
        self,
        look_back: Attention,
        look_source: Attention | None,
        width: int,
        inner: int,
        *,
        source: Source,
        dropout: float,
        norm: NormPlace,
    ) -> None:
        super().__init__()
        self.source = source
        self.look_back = look_back
        if source == "sublayer":
            self.look_source = look_source or look_back
        self.forward_part = FeedForward(width, inner)
        count = 3 if source == "sublayer" else 2
        self.residuals = nn.ModuleList(Residual(width, dropout=dropout, norm=norm) for _ in range(count))

    def forward(
        self, query: Tensor, places: Tensor, query_mask: Tensor, mask: Tensor, source_mask: Tensor
    ) -> tuple[Tensor, QueryView, Written]:
        """Read queries (batch, query, width) and write whole responses (batch, places, width)."""
        query, view = self.read(query, query_mask)
        return query, view, self.write(places, view.past, mask, view.source, source_mask)

    def read(self, query: Tensor, mask: Tensor) -> tuple[Tensor, QueryView]:
        """(batch, query, width) -> the same, and what writing will look at"""
        first, *_, last = self.residuals
        entered = first.enter(query)
        past = self.look_back.remember(entered)
        looked = first.leave(query, self.look_back(entered, past, mask))
        out = last(looked, self.forward_part)
        source = None
        if self.source == "sublayer":
            source = self.look_source.remember(self.residuals[1].enter(looked))
        elif self.source == "shared_layer":
            source = self.look_back.remember(first.enter(out))
        return out, QueryView(past, source)

    def write(
        self, places: Tensor, past: KeysValues, mask: Tensor, source: KeysValues | None, source_mask: Tensor
    ) -> Written:
        """New places behind `past`, of as many rows; the memory of the second look may have fewer, one to a beam."""
        first, *_, last = self.residuals
        entered = first.enter(places)
        past = past.extend(self.look_back.remember(entered))
        states = first.leave(places, self.look_back(entered, past, mask))
        asked = None
        if self.source == "sublayer":
            states, asked = self._look_up(states, self.residuals[1], source, source_mask)
        states = last(states, self.forward_part)
        if self.source == "shared_layer":
            states, asked = self._look_up(states, first, source, source_mask)
            states = last(states, self.forward_part)
        return Written(states, past, asked)

    def _look_up(
        self, states: Tensor, residual: Residual, source: KeysValues | None, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """States after the second look, and what asked there."""
        assert source is not None
        asked = residual.enter(states)
        beams = asked.reshape(source.keys.shape[0], -1, asked.shape[-1])
        return residual.leave(states, self.looking(beams, source, mask).reshape_as(states)), asked

    @property
    def looking(self) -> Attention:
        """The attention of the second look."""
        return self.look_source if self.source == "sublayer" else self.look_back
