"""Multiplying by matrices that stay the same: laid out once, as the processor's bf16 multiplier takes them.

    weight --arranged in blocks, once--> packed matrix --every call--> states @ weight.T + bias, bit by bit the same

torch arranges a bf16 matrix anew at every call, which for the few rows of a decoding step costs more than multiplying.
Outside inference, in other precisions and on other devices the plain call is made.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


class Packing:
    """A matrix as it was last laid out; one that has changed since, or is another one, is laid out again."""

    def __init__(self, rows: int | None = None) -> None:
        self.rows = rows  # of the matrix, the first so many; None: all
        self._kept: tuple[Tensor, int, int, Tensor] | None = None  # matrix, where it lies, version, and packed

    def linear(self, states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`torch.nn.functional.linear`.  (..., inward), (outward, inward), (outward,) -> (..., outward)"""
        if torch.compiler.is_compiling() or not torch.is_inference_mode_enabled() or not _packable(states, weight):
            return linear(states, weight[: self.rows], bias)
        return torch.ops.mkldnn._linear_pointwise(states, self._packed(weight), bias, "none", [], "")

    def _packed(self, weight: Tensor) -> Tensor:
        kept = self._kept
        if kept is None or kept[0] is not weight or kept[1:3] != (weight.data_ptr(), weight._version):
            packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach()[: self.rows])
            kept = self._kept = (weight, weight.data_ptr(), weight._version, packed)
        return kept[3]

    def __deepcopy__(self, memo: dict[int, Any]) -> Packing:
        return Packing(self.rows)  # a copy of the model has matrices of its own

    def __reduce__(self) -> tuple[type[Packing], tuple[int | None]]:
        return Packing, (self.rows,)


class Linear(nn.Linear):
    """The linear layer of models that are trained once and then used often."""

    def __init__(self, inward: int, outward: int, bias: bool = True) -> None:
        super().__init__(inward, outward, bias=bias)
        self.packing = Packing()

    def forward(self, states: Tensor) -> Tensor:
        """(..., inward) -> (..., outward)"""
        return self.packing.linear(states, self.weight, self.bias)


def _packable(states: Tensor, weight: Tensor) -> bool:
    halves = states.dtype == weight.dtype == torch.bfloat16
    return halves and weight.device.type == "cpu" and states.numel() > 0 and not weight.is_inference() and can_pack()


@lru_cache(maxsize=1)
def can_pack() -> bool:
    """Does this processor multiply bf16, and does this torch take packed matrices?"""
    return (
        torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )
