"""A recurrent layer whose weights are written for each text by another network (Ha et al., 2016).

    code z --three linear maps--> recurrent, input and bias weights of an LSTM --reads--> states of the text

Shapes: states (batch, length, width), codes (batch, code) -> (batch, length, hidden). `steps` is the plain way;
training has a gradient of its own, each step one kernel on a GPU; on a CPU without gradients `fused` hands text after
text to the library's LSTM.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

FUSED = True  # on a GPU: the steps of the recurrence as single kernels
SMALL = 0.1  # how far the weights of a layer with a constant part move at first
STEEPEST = 10.0  # no gradient of a state is larger: what grows from place to place would pass all numbers


class Generated(NamedTuple):
    """The weights of one LSTM for each text; gates in the order input, forget, cell, output."""

    recurrent: Tensor  # (batch, 4 * hidden, hidden), paper: W_Ih
    inward: Tensor  # (batch, 4 * hidden, width), paper: W_Ix
    bias: Tensor  # (batch, 4 * hidden), paper: W_Ib


class HyperLSTM(nn.Module):
    """An LSTM with weights of each text's own; with a `constant` part it begins as an ordinary one.

    Without it (the paper, eqs. 4-6) a code of zero means weights of zero.
    """

    def __init__(self, width: int, hidden: int, code: int, *, constant: bool = True) -> None:
        super().__init__()
        self.width, self.hidden = width, hidden
        self.recurrent = nn.Linear(code, 4 * hidden * hidden, bias=constant)  # paper: W_hz
        self.inward = nn.Linear(code, 4 * hidden * width, bias=constant)  # paper: W_xz
        self.bias = nn.Linear(code, 4 * hidden, bias=constant)  # paper: W_bz
        self._start()

    def _start(self) -> None:
        bound = 1 / math.sqrt(self.hidden)
        for part, ways in ((self.recurrent, self.hidden), (self.inward, self.width), (self.bias, self.hidden)):
            scale = SMALL if part.bias is not None else 1.0
            nn.init.normal_(part.weight, std=scale / math.sqrt(part.in_features * ways))
            if part.bias is not None:
                nn.init.uniform_(part.bias, -bound, bound)

    def generate(self, codes: Tensor) -> Generated:
        """(batch, code) -> the weights of each text"""
        return Generated(
            self.recurrent(codes).unflatten(-1, (4 * self.hidden, self.hidden)),
            self.inward(codes).unflatten(-1, (4 * self.hidden, self.width)),
            self.bias(codes),
        )

    def forward(self, states: Tensor, codes: Tensor) -> Tensor:
        """The state behind each place; what stands later changes nothing before it."""
        return self.read(states, self.generate(codes))

    def read(self, states: Tensor, weights: Generated) -> Tensor:
        """Each text with its own weights.  (batch, length, width) -> (batch, length, hidden)"""
        if not torch.is_grad_enabled() and states.dtype != torch.float64:  # many small steps: their errors add up
            kind, states = states.dtype, states.float()
            return self._read(states, Generated(*(part.float() for part in weights))).to(kind)
        return self._read(states, weights)

    def _read(self, states: Tensor, weights: Generated) -> Tensor:
        if states.device.type == "cpu" and (len(states) == 1 or not torch.is_grad_enabled()):
            alone = [Generated(*(part[row : row + 1] for part in weights)) for row in range(len(states))]
            return torch.cat([self.fused(states[row : row + 1], one) for row, one in enumerate(alone)])
        inward = torch.baddbmm(weights.bias[:, None], states, weights.inward.transpose(1, 2))
        return _Recurrence.apply(inward, weights.recurrent)

    def steps(self, states: Tensor, weights: Generated) -> Tensor:
        """The plain twin: all inputs at once, then place after place."""
        inward = torch.baddbmm(weights.bias[:, None], states, weights.inward.transpose(1, 2))
        turned = weights.recurrent.transpose(1, 2)  # (batch, hidden, 4 * hidden)
        hidden = inward.new_zeros(len(states), 1, self.hidden)
        cell = hidden[:, 0].float() if hidden.dtype != torch.float64 else hidden[:, 0]
        behind = []
        for given in inward.unbind(1):
            gates = (given + torch.bmm(hidden, turned)[:, 0]).to(cell.dtype)
            enter, keep, new, out = gates.chunk(4, dim=-1)
            cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
            hidden = (out.sigmoid() * cell.tanh()).to(inward.dtype)[:, None]
            behind.append(hidden)
        return torch.cat(behind, dim=1)

    def fused(self, states: Tensor, weights: Generated) -> Tensor:
        """One text through the library's LSTM."""
        kind = torch.float64 if states.dtype == torch.float64 else torch.float32
        recurrent, inward, bias = (part[0].to(kind) for part in weights)
        start = states.new_zeros(1, 1, self.hidden, dtype=kind)
        parts = [inward, recurrent, bias, torch.zeros_like(bias)]
        once = torch.lstm(states.to(kind), (start, start), parts, True, 1, 0.0, self.training, False, True)
        return once[0].to(states.dtype)


class _Recurrence(torch.autograd.Function):
    """The steps with a gradient of their own: that of the recurrent weights is one product over all places.

    Left to itself, the library would add a matrix for each text at each place.
    """

    @staticmethod
    def forward(ctx: Any, inward: Tensor, recurrent: Tensor) -> Tensor:
        """inward (batch, length, 4 * hidden), recurrent (batch, 4 * hidden, hidden) -> (batch, length, hidden)"""
        exact = torch.float64 if inward.dtype == torch.float64 else torch.float32
        recurrent = recurrent.to(inward.dtype)
        turned = recurrent.transpose(1, 2)
        hidden = inward.new_zeros(len(inward), 1, recurrent.shape[2])
        cell = hidden[:, 0].to(exact)
        behind, cells, gates = [], [cell], []
        fused = _is_fused(inward)
        step = _fused_step if fused else _plain_step
        with torch.autocast("cuda", enabled=False) if fused else nullcontext():  # which would round the cells
            for given in inward.to(exact).unbind(1):
                found, cell, opened = step(given, torch.bmm(hidden, turned)[:, 0].to(exact), cell)
                hidden = found.to(inward.dtype)[:, None]
                behind.append(hidden)
                cells.append(cell)
                gates.append(opened)
        states = torch.cat(behind, dim=1)
        ctx.save_for_backward(recurrent, states, torch.stack(cells, 1), torch.stack(gates, 1))
        return states

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor, Tensor]:
        recurrent, states, cells, gates = ctx.saved_tensors
        upward = given[0].to(cells.dtype)
        on_hidden, on_cell = upward[:, -1], torch.zeros_like(cells[:, 0])
        step = _fused_step_back if _is_fused(states) else _plain_step_back
        found = []
        for place in range(upward.shape[1] - 1, -1, -1):
            on_gates, on_cell = step(on_hidden, on_cell, cells[:, place], cells[:, place + 1], gates[:, place])
            mixed = on_gates.to(recurrent.dtype)
            found.append(mixed)
            if place:
                on_hidden = upward[:, place - 1] + torch.bmm(mixed[:, None], recurrent)[:, 0]
                on_hidden = on_hidden.clamp_(-STEEPEST, STEEPEST)
        on_inward = torch.stack(found[::-1], dim=1)
        before = torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], dim=1)
        return on_inward, torch.bmm(on_inward.transpose(1, 2), before)


def _is_fused(given: Tensor) -> bool:
    """Whether the library has a kernel for the whole of a step."""
    return FUSED and given.device.type == "cuda" and given.dtype != torch.float64


def _plain_step(given: Tensor, pushed: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(batch, 4 * hidden) twice, (batch, hidden) -> hidden and cell behind the place, the gates as they were open"""
    enter, keep, new, out = (given + pushed).chunk(4, dim=-1)
    enter, keep, new, out = enter.sigmoid(), keep.sigmoid(), new.tanh(), out.sigmoid()
    cell = keep * cell + enter * new
    return out * cell.tanh(), cell, torch.cat([enter, keep, new, out], dim=-1)


def _plain_step_back(
    on_hidden: Tensor, on_cell: Tensor, before: Tensor, cell: Tensor, gates: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of what went into the gates, and of the cell before."""
    enter, keep, new, out = gates.chunk(4, dim=-1)
    bent = cell.tanh()
    on_cell = on_cell + on_hidden * out * (1 - bent * bent)
    parts = [
        on_cell * new * enter * (1 - enter),
        on_cell * before * keep * (1 - keep),
        on_cell * enter * (1 - new * new),
        on_hidden * bent * out * (1 - out),
    ]
    return torch.cat(parts, dim=-1), on_cell * keep


def _fused_step(given: Tensor, pushed: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same as one kernel."""
    hidden, cell, gates = torch.ops.aten._thnn_fused_lstm_cell(given, pushed, cell)
    return hidden, cell, gates


def _fused_step_back(
    on_hidden: Tensor, on_cell: Tensor, before: Tensor, cell: Tensor, gates: Tensor
) -> tuple[Tensor, Tensor]:
    found = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(on_hidden, on_cell, before, cell, gates, False)
    return found[0], found[1]
