"""Multi-head attention with boolean masks and pluggable positions.

    query --linear--> (batch, heads, query, size) --+
                                                    +-- scores + bias, masked, softmax --> mix of values --linear--> out
    memory --linear--> keys, values (batch, heads, key, size)

`forward` is the fused path; `weights` the plain twin, for tests and for models that read the weights. With a sparse
view, long texts are read a block of queries at a time, so that memory grows with their length and not with its square.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, scaled_dot_product_attention

from tagsmith.errors import ConfigError
from tagsmith.nn.linear import Linear
from tagsmith.nn.positions import Positions
from tagsmith.nn.sparse import SparseView

EVEN = 16  # keys: fused attention on a CPU takes half as long again for other numbers of them
BLOCK = 512  # queries read at once where the text is longer and the view is sparse


class KeysValues(NamedTuple):
    """A memory made ready to be looked at, each (batch, heads, key, size)."""

    keys: Tensor
    values: Tensor

    def extend(self, later: KeysValues) -> KeysValues:
        """This memory followed by `later`."""
        return KeysValues(torch.cat([self.keys, later.keys], dim=2), torch.cat([self.values, later.values], dim=2))

    def rows(self, places: Tensor) -> KeysValues:
        """The rows of the batch at `places`, in that order."""
        return KeysValues(self.keys.index_select(0, places), self.values.index_select(0, places))


class Attention(nn.Module):
    """Look from each query at the keys its mask allows; a row that may see nothing gives zeros."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        dropout: float = 0.0,
        positions: Positions | None = None,
        view: SparseView | None = None,
    ) -> None:
        super().__init__()
        if width % heads:
            raise ConfigError(f"width {width} is not a multiple of heads {heads}")
        self.heads = heads
        self.dropout = dropout
        self.query = Linear(width, width)
        self.key_value = Linear(width, 2 * width)
        self.out = Linear(width, width)
        self.positions = positions
        self.view = view

    def forward(self, query: Tensor, memory: Tensor | KeysValues, mask: Tensor | None = None) -> Tensor:
        """(batch, query, width), (batch, key, width), mask (batch?, query, key) -> (batch, query, width)

        Without positions and view the mask may also come as the numbers of `as_bias`, with places to spare.
        """
        queries = self._split(self.query(query))
        places = mask.shape[-1] if mask is not None else 0
        keys, values = memory if isinstance(memory, KeysValues) else self.remember(memory, places=places)
        if self.view is None or queries.shape[2] <= BLOCK:
            mixed = self._mix(queries, keys, values, mask, first=keys.shape[2] - queries.shape[2])
        elif self.view.strong or keys.shape[2] != queries.shape[2]:
            mixed = self._mix_blocks(queries, keys, values, mask)
        else:
            mixed = self._mix_near(queries, keys, values, mask)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _mix(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, *, first: int) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        bias = self._bias(queries, keys, mask, first=first)
        return scaled_dot_product_attention(queries, keys, values, attn_mask=bias, dropout_p=dropout)

    def _mix_blocks(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """The same, a block of queries after the other."""
        mixed = []
        for start in range(0, queries.shape[2], BLOCK):
            some = slice(start, start + BLOCK)
            first = keys.shape[2] - queries.shape[2] + start
            mixed.append(self._mix(queries[:, :, some], keys, values, _queries_of(mask, some), first=first))
        return torch.cat(mixed, dim=2)

    def _mix_near(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """The same for a view by place alone: a block of queries meets the leading keys and those near it only."""
        view, length = self.view, queries.shape[2]
        assert view is not None
        leading = slice(0, view.lead)
        mixed = []
        if view.lead:  # they see everything
            mixed.append(self._mix(queries[:, :, leading], keys, values, _queries_of(mask, leading), first=0))
        for start in range(view.lead, length, BLOCK):
            some = slice(start, min(start + BLOCK, length))
            low, high = max(start - view.near, view.lead), min(some.stop + view.near, length)
            runs = [slice(0, view.lead), slice(low, high)] if view.lead else [slice(low, high)]
            met = torch.cat([torch.arange(run.start, run.stop, device=keys.device) for run in runs])
            seen = view.by_place(torch.arange(some.start, some.stop, device=keys.device), met)
            own = _queries_of(mask, some)
            seen = seen if own is None else seen & own[..., met].unsqueeze(-3)
            asked = queries[:, :, some]
            bias: Tensor = seen
            if self.positions is not None:
                parts = [
                    self.positions(asked, keys[:, :, run], first=start - run.start, project=self._project_keys)
                    for run in runs
                ]
                bias = torch.cat(parts, dim=-1).to(queries.dtype).masked_fill(~seen, -math.inf)
            dropout = self.dropout if self.training else 0.0
            near = keys[:, :, met], values[:, :, met]
            mixed.append(scaled_dot_product_attention(asked, *near, attn_mask=bias, dropout_p=dropout))
        return torch.cat(mixed, dim=2)

    def weights(
        self, query: Tensor, memory: Tensor | KeysValues, mask: Tensor | None = None, *, heads: int | None = None
    ) -> Tensor:
        """The plain twin's weights.  -> (batch, heads, query, key)

        `heads`: of the first ones only, where there are no positions.
        """
        queries = self._split(self.query(query))[:, :heads]
        keys = (memory if isinstance(memory, KeysValues) else self.remember(memory)).keys[:, :heads]
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
        bias = self._bias(queries, keys, mask, first=keys.shape[2] - queries.shape[2])
        if bias is None:
            return scores.softmax(-1)
        if bias.dtype != torch.bool:
            scores, bias = scores + bias, bias > -math.inf
        # filled last, so that a row that sees nothing has no weight anywhere and no gradient either
        return scores.masked_fill(~bias, -math.inf).softmax(-1).nan_to_num(0.0)

    def plain(self, query: Tensor, memory: Tensor | KeysValues, mask: Tensor | None = None) -> Tensor:
        """`forward` without dropout, through `weights`."""
        _, values = memory if isinstance(memory, KeysValues) else self.remember(memory)
        return self.out((self.weights(query, memory, mask) @ values).transpose(1, 2).flatten(2))

    def remember(self, memory: Tensor, *, places: int = 0) -> KeysValues:
        """Project a memory once, to look at it many times; zeros fill it up to so many places."""
        both = self.key_value(memory)
        if places > both.shape[1]:
            both = pad(both, (0, 0, 0, places - both.shape[1]))
        keys, values = both.chunk(2, dim=-1)
        return KeysValues(self._split(keys), self._split(values))

    def _split(self, states: Tensor) -> Tensor:
        return states.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (batch, heads, length, size)

    def _bias(self, queries: Tensor, keys: Tensor, mask: Tensor | None, *, first: int) -> Tensor | None:
        if mask is not None:
            mask = mask.unsqueeze(-3)  # one mask for all heads
        bias = None
        if self.positions is not None:
            bias = self.positions(queries, keys, first=first, project=self._project_keys).to(queries.dtype)
        if self.view is not None:
            mask = self.view(queries, keys, bias, mask, first=first)
        if bias is None:
            return mask
        return bias if mask is None else bias.masked_fill(~mask, -math.inf)

    def _project_keys(self, states: Tensor) -> Tensor:
        """Through the keys' matrix, without its bias.  (length, width) -> (heads, length, size)"""
        width = states.shape[-1]
        return linear(states, self.key_value.weight[:width]).unflatten(-1, (self.heads, -1)).transpose(0, 1)


def as_bias(mask: Tensor, states: Tensor) -> Tensor:
    """A mask as numbers to be added to scores, in the precision of these states, with barred places behind its keys.

    There are so many of these that all are a multiple of `EVEN`.  (batch, query, key) -> (batch, query, places)
    """
    bias = states.new_zeros(mask.shape).masked_fill_(~mask, -math.inf)
    return pad(bias, (0, -mask.shape[-1] % EVEN), value=-math.inf)


def _queries_of(mask: Tensor | None, some: slice) -> Tensor | None:
    """The part of a mask that is about some queries."""
    return mask if mask is None or mask.shape[-2] == 1 else mask[..., some, :]
