"""A recurrent layer whose weights are written for each text by another network (Ha et al., 2016).

    code z --three linear maps--> recurrent, input and bias weights of an LSTM --reads--> states of the text

Shapes: states (batch, length, width), codes (batch, code) -> (batch, length, hidden). `steps` works for any batch; of
one text alone `fused` hands the same weights to the library's LSTM.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

SMALL = 0.1  # how far the weights of a layer with a constant part move at first


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
        weights = self.generate(codes)
        if len(states) == 1 and states.device.type == "cpu":
            return self.fused(states, weights)
        return self.steps(states, weights)

    def steps(self, states: Tensor, weights: Generated) -> Tensor:
        """All inputs at once, then place after place."""
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
