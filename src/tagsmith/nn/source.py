"""A language model's layer that reads a query and writes behind it, and may look at the query once more (source).

    read:   query  --self-attention--> --feed-forward--> query'                 leaves what writing looks at
    write:  places --self-attention over query and places--> --source--> --feed-forward--> places'

`source` is where the second look happens: "none"; "sublayer", behind self-attention; "shared_layer", the whole layer
once more with the same weights, looking at the query alone. `write` takes whole responses or one place at a time.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

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
        seen: list[KeysValues] = []

        def back(states: Tensor) -> Tensor:
            seen.append(self.look_back.remember(states))
            return self.look_back(states, seen[0], mask)

        looked = self.residuals[0](query, back)
        out = self.residuals[-1](looked, self.forward_part)
        source = None
        if self.source == "sublayer":
            source = self.look_source.remember(self._as_memory(looked, 1))
        elif self.source == "shared_layer":
            source = self.look_back.remember(self._as_memory(out, 0))
        return out, QueryView(seen[0], source)

    def write(
        self, places: Tensor, past: KeysValues, mask: Tensor, source: KeysValues | None, source_mask: Tensor
    ) -> Written:
        """New places behind `past`, of as many rows; the memory of the second look may have fewer, one to a beam."""
        seen: list[KeysValues] = []
        asked: list[Tensor] = []

        def back(states: Tensor) -> Tensor:
            seen.append(past.extend(self.look_back.remember(states)))
            return self.look_back(states, seen[0], mask)

        def up(states: Tensor) -> Tensor:
            assert source is not None
            asked.append(states)
            beams = states.reshape(source.keys.shape[0], -1, states.shape[-1])
            return self.looking(beams, source, source_mask).reshape_as(states)

        states = self.residuals[0](places, back)
        if self.source == "sublayer":
            states = self.residuals[1](states, up)
        states = self.residuals[-1](states, self.forward_part)
        if self.source == "shared_layer":
            states = self.residuals[0](states, up)
            states = self.residuals[-1](states, self.forward_part)
        return Written(states, seen[0], asked[0] if asked else None)

    @property
    def looking(self) -> Attention:
        """The attention of the second look."""
        return self.look_source if self.source == "sublayer" else self.look_back

    def _as_memory(self, states: Tensor, place: int) -> Tensor:
        """States as the residual at `place` gives them to its part."""
        residual = self.residuals[place]
        return residual.norm(states) if residual.place == "pre" else states  # type: ignore[operator]
