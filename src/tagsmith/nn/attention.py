"""Multi-head attention with boolean masks and pluggable positions.

    query --linear--> (batch, heads, query, size) --+
                                                    +-- scores + bias, masked, softmax --> mix of values --linear--> out
    memory --linear--> keys, values (batch, heads, key, size)

`forward` is the fused path; `weights` the plain twin, for tests and for models that read the weights.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from tagsmith.errors import ConfigError
from tagsmith.nn.positions import Positions


class KeysValues(NamedTuple):
    """A memory made ready to be looked at, each (batch, heads, key, size)."""

    keys: Tensor
    values: Tensor

    def extend(self, later: KeysValues) -> KeysValues:
        """This memory followed by `later`."""
        return KeysValues(torch.cat([self.keys, later.keys], dim=2), torch.cat([self.values, later.values], dim=2))

    def rows(self, places: Tensor) -> KeysValues:
        """The rows of the batch at `places`, in that order."""
        return KeysValues(self.keys[places], self.values[places])


class Attention(nn.Module):
    """Look from each query at the keys its mask allows; a row that may see nothing gives zeros."""

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0, positions: Positions | None = None) -> None:
        super().__init__()
        if width % heads:
            raise ConfigError(f"width {width} is not a multiple of heads {heads}")
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)
        self.positions = positions

    def forward(self, query: Tensor, memory: Tensor | KeysValues, mask: Tensor | None = None) -> Tensor:
        """(batch, query, width), (batch, key, width), mask (batch?, query, key) -> (batch, query, width)"""
        queries = self._split(self.query(query))
        keys, values = memory if isinstance(memory, KeysValues) else self.remember(memory)
        dropout = self.dropout if self.training else 0.0
        mixed = scaled_dot_product_attention(
            queries, keys, values, attn_mask=self._bias(queries, keys, mask), dropout_p=dropout
        )
        return self.out(mixed.transpose(1, 2).flatten(2))

    def weights(self, query: Tensor, memory: Tensor | KeysValues, mask: Tensor | None = None) -> Tensor:
        """The plain twin's weights.  -> (batch, heads, query, key)"""
        queries = self._split(self.query(query))
        keys, _ = memory if isinstance(memory, KeysValues) else self.remember(memory)
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
        bias = self._bias(queries, keys, mask)
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

    def remember(self, memory: Tensor) -> KeysValues:
        """Project a memory once, to look at it many times."""
        keys, values = self.key_value(memory).chunk(2, dim=-1)
        return KeysValues(self._split(keys), self._split(values))

    def _split(self, states: Tensor) -> Tensor:
        return states.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (batch, heads, length, size)

    def _bias(self, queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor | None:
        if mask is not None:
            mask = mask.unsqueeze(-3)  # one mask for all heads
        if self.positions is None:
            return mask
        bias = self.positions(queries, keys).to(queries.dtype)
        return bias if mask is None else bias.masked_fill(~mask, -math.inf)
