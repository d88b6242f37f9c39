"""Losses over token scores."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear


def label_loss(scores: Tensor, labels: Tensor, *, smoothing: float) -> Tensor:
    """Cross-entropy with one label of each row.  (batch, labels), (batch,) -> the mean"""
    return cross_entropy(scores.float(), labels, label_smoothing=smoothing)


class TokenLoss(nn.Module):
    """Output layer and smoothed cross-entropy in one part, so that a compiler may fuse them; `pad` does not count."""

    def __init__(self, *, smoothing: float, pad: int) -> None:
        super().__init__()
        self.smoothing = smoothing
        self.pad = pad

    def forward(self, states: Tensor, table: Tensor, bias: Tensor, target: Tensor) -> Tensor:
        """states (batch, target, width), table (vocab, width), target (batch, target) -> the mean over tokens"""
        scores = linear(states, table, bias).flatten(0, 1).float()
        smoothing = self.smoothing if self.training else 0.0
        return cross_entropy(scores, target.flatten(), ignore_index=self.pad, label_smoothing=smoothing)
