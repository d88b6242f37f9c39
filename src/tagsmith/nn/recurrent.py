"""Recurrent encoder and attentive decoder."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from tagsmith.nn.masks import padding

CELLS: dict[str, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}


class BothWays(nn.Module):
    """Two GRUs from learned initial states, one reading forward, one backward, each to its last real place.

    Padding is never packed away: lengths stay on the device, and the backward reader gets each row turned around.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.forward_reader = nn.GRU(width, hidden, batch_first=True)
        self.backward_reader = nn.GRU(width, hidden, batch_first=True)
        self.starts = nn.Parameter(torch.zeros(2, hidden))

    def forward(self, vectors: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, source, width) -> last states forward and backward, each (batch, hidden)"""
        backward = turned(vectors, lengths)
        last = (lengths - 1).clamp(min=0)
        return self._read(self.forward_reader, vectors, last, 0), self._read(self.backward_reader, backward, last, 1)

    def _read(self, reader: nn.GRU, vectors: Tensor, last: Tensor, way: int) -> Tensor:
        start = self.starts[way].to(vectors.dtype).expand(1, len(vectors), -1).contiguous()
        states, _ = reader(vectors, start)
        return states[torch.arange(len(states), device=states.device), last]


class TwoWays(nn.Module):
    """Every place read from both sides.  (batch, source, width), (batch,) -> (batch, source, 2 * hidden)

    As `BothWays`, lengths stay on the device; places behind a row's end hold nothing of use.
    """

    def __init__(self, width: int, hidden: int, *, cell: Literal["gru", "lstm"] = "lstm") -> None:
        super().__init__()
        self.ahead = CELLS[cell](width, hidden, batch_first=True)
        self.back = CELLS[cell](width, hidden, batch_first=True)

    def forward(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        ahead, _ = self.ahead(vectors)
        back, _ = self.back(turned(vectors, lengths))
        return torch.cat([ahead, turned(back, lengths)], dim=-1)


class RecurrentEncoder(nn.Module):
    """Read both ways.  (batch, source, width) -> states (batch, source, 2 * hidden), last (batch, 2 * hidden)

    States behind a row's end are zero.
    """

    def __init__(
        self, width: int, hidden: int, *, layers: int = 1, dropout: float = 0.0, cell: Literal["gru", "lstm"] = "gru"
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.layers = nn.ModuleList(
            TwoWays(2 * hidden if number else width, hidden, cell=cell) for number in range(layers)
        )
        self.between = nn.Dropout(dropout)

    def forward(self, vectors: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        states = vectors
        for number, layer in enumerate(self.layers):
            states = layer(self.between(states) if number else states, lengths)
        states = states * padding(lengths, states.shape[1])[:, 0, :, None]
        rows = torch.arange(len(states), device=states.device)
        ahead = states[rows, (lengths - 1).clamp(min=0), : self.hidden]
        return states, torch.cat([ahead, states[:, 0, self.hidden :]], dim=-1)


def turned(vectors: Tensor, lengths: Tensor) -> Tensor:
    """The real places of each row from the last to the first; its own inverse there.  (batch, source, width)"""
    places = torch.arange(vectors.shape[1], device=vectors.device)
    return vectors.gather(1, (lengths[:, None] - 1 - places).clamp(min=0)[:, :, None].expand_as(vectors))


class AdditiveAttention(nn.Module):
    """Bahdanau's attention: a small network scores each memory place against the state.

    The memory's share of it, `remember`, is the same at every step.
    """

    def __init__(self, state: int, memory: int, hidden: int) -> None:
        super().__init__()
        self.from_state = nn.Linear(state, hidden, bias=False)
        self.from_memory = nn.Linear(memory, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)

    def remember(self, memory: Tensor) -> Tensor:
        """(batch, key, memory) -> keys (batch, key, hidden)"""
        keys: Tensor = self.from_memory(memory)
        return keys

    def forward(self, states: Tensor, keys: Tensor, memory: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, beam, state), what was remembered of (batch, key, memory), and a mask (batch, 1, key)

        -> contexts (batch, beam, memory), weights (batch, beam, key)
        """
        mixed = torch.tanh(self.from_state(states)[:, :, None] + keys[:, None])
        weights = self.score(mixed)[..., 0].masked_fill(~mask, -1e9).softmax(-1)
        return weights @ memory, weights


class RecurrentState(NamedTuple):
    """Where a recurrent decoder stands."""

    hidden: Tensor  # (batch, hidden)
    context: Tensor  # (batch, memory), fed back in at the next step


class RecurrentDecoder(nn.Module):
    """A GRU that looks at the memory at each step and is fed what it saw."""

    def __init__(self, width: int, memory: int, hidden: int) -> None:
        super().__init__()
        self.begin = nn.Linear(memory, hidden)
        self.cell = nn.GRUCell(width + memory, hidden)
        self.attention = AdditiveAttention(hidden, memory, hidden)
        self.out = nn.Linear(width + hidden + memory, hidden)

    def start(self, last: Tensor) -> RecurrentState:
        """From the encoder's last states (batch, memory)."""
        return RecurrentState(torch.tanh(self.begin(last)), torch.zeros_like(last))

    def step(
        self, vector: Tensor, state: RecurrentState, keys: Tensor, memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor, RecurrentState]:
        """One token's vector (batch, width) -> read-out (batch, hidden), weights (batch, key), next state."""
        hidden = self.cell(torch.cat([vector, state.context], dim=-1), state.hidden)
        context, weights = (part[:, 0] for part in self.attention(hidden[:, None], keys, memory, mask))
        readout = torch.tanh(self.out(torch.cat([vector, hidden, context], dim=-1)))
        return readout, weights, RecurrentState(hidden, context)

    def forward(self, vectors: Tensor, last: Tensor, memory: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Whole targets (batch, target, width) -> read-outs (batch, target, hidden), weights (batch, target, key)"""
        mask, keys = padding(lengths, memory.shape[1]), self.attention.remember(memory)
        state, outs, looks = self.start(last), [], []
        for vector in vectors.unbind(1):
            out, weights, state = self.step(vector, state, keys, memory, mask)
            outs.append(out)
            looks.append(weights)
        return torch.stack(outs, 1), torch.stack(looks, 1)
