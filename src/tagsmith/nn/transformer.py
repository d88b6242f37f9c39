"""Transformer layers and stacks, pre- or post-norm, with a key-value cache for decoding step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from tagsmith.nn.attention import Attention, KeysValues, as_bias
from tagsmith.nn.linear import Linear

NormPlace = Literal["pre", "post"]


class Residual(nn.Module):
    """A part with its shortcut: normed before it (pre) or after the sum (post)."""

    def __init__(self, width: int, *, dropout: float, norm: NormPlace) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.place = norm

    def forward(self, states: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        return self.leave(states, part(self.enter(states)))

    def enter(self, states: Tensor) -> Tensor:
        """What its part is given."""
        normed: Tensor = self.norm(states) if self.place == "pre" else states
        return normed

    def leave(self, states: Tensor, made: Tensor) -> Tensor:
        """The shortcut and what its part has made."""
        summed: Tensor = states + self.dropout(made)
        return summed if self.place == "pre" else self.norm(summed)


class FeedForward(nn.Sequential):
    """Widen, bend, narrow; each place on its own."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__(Linear(width, inner), nn.GELU(), Linear(inner, width))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(
        self, attention: Attention, width: int, inner: int, *, dropout: float = 0.0, norm: NormPlace = "pre"
    ) -> None:
        super().__init__()
        self.attention = attention
        self.forward_part = FeedForward(width, inner)
        self.residuals = nn.ModuleList(Residual(width, dropout=dropout, norm=norm) for _ in range(2))

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        states = self.residuals[0](states, lambda x: self.attention(x, x, mask))
        return self.residuals[1](states, self.forward_part)


class Encoder(nn.Module):
    """A stack of encoder layers; pre-norm stacks end in a norm.  (batch, source, width) -> same"""

    def __init__(self, layers: list[EncoderLayer], width: int, *, norm: NormPlace = "pre") -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(width) if norm == "pre" else nn.Identity()
        self.plain = all(layer.attention.positions is None and layer.attention.view is None for layer in layers)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None and self.plain and not self.training and not states.is_cuda:
            mask = as_bias(mask, states)  # once, which every layer would do by itself
        for layer in self.layers:
            states = layer(states, mask)
        return self.norm(states)


class DecoderCache(NamedTuple):
    """What a decoder has already written: keys and values of each layer, rows = batch * beam."""

    layers: tuple[KeysValues, ...] = ()

    @property
    def length(self) -> int:
        return self.layers[0].keys.shape[2] if self.layers else 0

    def rows(self, places: Tensor) -> DecoderCache:
        """The same for other rows: what beam search asks when hypotheses die and branch."""
        return DecoderCache(tuple(layer.rows(places) for layer in self.layers))


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the memory, feed-forward."""

    residuals: Any  # nn.ModuleList of Residual, which types cannot say

    def __init__(
        self, look_back: Attention, look_up: Attention, width: int, inner: int, *, dropout: float, norm: NormPlace
    ) -> None:
        super().__init__()
        self.look_back = look_back
        self.look_up = look_up
        self.forward_part = FeedForward(width, inner)
        self.residuals = nn.ModuleList(Residual(width, dropout=dropout, norm=norm) for _ in range(3))

    def forward(self, states: Tensor, mask: Tensor, memory: Tensor, memory_mask: Tensor | None) -> Tensor:
        states = self.residuals[0](states, lambda x: self.look_back(x, x, mask))
        states = self.residuals[1](states, lambda x: self.look_up(x, memory, memory_mask))
        return self.residuals[2](states, self.forward_part)

    def step(
        self,
        state: Tensor,
        cache: KeysValues | None,
        memory: KeysValues,
        memory_mask: Tensor | None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """One new place for each hypothesis.  (batch * beam, 1, width) with a memory of `batch` rows.

        `mask` (batch * beam, 1, written) tells what it may see of all that was written, itself included; None: all.
        """

        def up(query: Tensor) -> Tensor:
            # the hypotheses of one text are queries side by side: its memory is never copied
            beams = query.reshape(memory.keys.shape[0], -1, query.shape[-1])
            return self.look_up(beams, memory, memory_mask).reshape_as(query)

        entered = self.residuals[0].enter(state)
        new = self.look_back.remember(entered)
        seen = cache.extend(new) if cache else new
        state = self.residuals[0].leave(state, self.look_back(entered, seen, mask))
        state = self.residuals[1](state, up)
        return self.residuals[2](state, self.forward_part), seen


class Decoder(nn.Module):
    """A stack of decoder layers: whole targets at once (`forward`) or one place at a time (`step`)."""

    layers: Any  # nn.ModuleList of DecoderLayer, which types cannot say

    def __init__(self, layers: list[DecoderLayer], width: int, *, norm: NormPlace = "pre") -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(width) if norm == "pre" else nn.Identity()

    def forward(self, states: Tensor, mask: Tensor, memory: Tensor, memory_mask: Tensor | None) -> Tensor:
        for layer in self.layers:
            states = layer(states, mask, memory, memory_mask)
        return self.norm(states)

    def remember(self, memory: Tensor) -> tuple[KeysValues, ...]:
        """The memory projected once for each layer."""
        return tuple(layer.look_up.remember(memory) for layer in self.layers)

    def step(
        self,
        state: Tensor,
        cache: DecoderCache,
        memory: tuple[KeysValues, ...],
        memory_mask: Tensor | None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, DecoderCache]:
        """(batch * beam, 1, width) -> the same, and the longer cache"""
        grown = []
        for place, layer in enumerate(self.layers):
            past = cache.layers[place] if cache.layers else None
            state, now = layer.step(state, past, memory[place], memory_mask, mask)
            grown.append(now)
        return self.norm(state), DecoderCache(tuple(grown))
