"""Linear-chain conditional random field: scores of labels at each place, and of moves between neighbouring labels.

    scores (batch, length, labels) --forward algorithm--> log of the sum over all paths --> surprise at the right path
                                   --Viterbi--> best path          --forward and backward--> chance of any span

Rows are real in their first `lengths` places, at least one. Nothing here asks the device for a number but `best`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

NEVER = -1e4  # a move that is not made; finite, so that its gradient is a number


class CRF(nn.Module):
    """Learned moves between labels, into the first and out of the last."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.move = nn.Parameter(torch.empty(labels, labels))  # from, to
        self.begin = nn.Parameter(torch.empty(labels))
        self.end = nn.Parameter(torch.empty(labels))
        for part in (self.move, self.begin, self.end):
            nn.init.uniform_(part, -0.1, 0.1)

    def loss(self, scores: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
        """Mean surprise at the right paths.  (batch, length, labels), (batch, length), (batch,) -> ()"""
        return (self.log_partition(scores, lengths) - self.path_score(scores, labels, lengths)).mean()

    def log_partition(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """The log of the sum over all paths.  -> (batch,)

        The moves of all places are put together two by two, so that a few products take the place of many steps.
        """
        scores = _exact(scores)
        move, begin, end = (part.to(scores.dtype) for part in (self.move, self.begin, self.end))
        stay = torch.full_like(move, NEVER).fill_diagonal_(0.0)
        real = torch.arange(1, scores.shape[1], device=scores.device) < lengths[:, None]
        ways = torch.where(real[:, :, None, None], move + scores[:, 1:, None, :], stay)  # (batch, length - 1, from, to)
        while ways.shape[1] > 1:
            if ways.shape[1] % 2:
                ways = torch.cat([ways, stay.expand(len(ways), 1, -1, -1)], dim=1)
            one, two = ways[:, ::2], ways[:, 1::2]
            ways = (one[..., :, :, None] + two[..., None, :, :]).logsumexp(-2)
        ahead = (begin + scores[:, 0])[:, :, None]  # (batch, from, 1)
        if ways.shape[1]:
            ahead = (ahead + ways[:, 0]).logsumexp(1)[:, :, None]
        return (ahead[:, :, 0] + end).logsumexp(-1)

    def path_score(self, scores: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
        """The score of one path for each row.  -> (batch,)"""
        scores = _exact(scores)
        move, begin, end = (part.to(scores.dtype) for part in (self.move, self.begin, self.end))
        real = torch.arange(scores.shape[1], device=scores.device) < lengths[:, None]
        emitted = scores.gather(2, labels[:, :, None])[:, :, 0]
        pairs = labels[:, :-1] * len(begin) + labels[:, 1:]
        moved = move.flatten().gather(0, pairs.flatten()).view_as(pairs)
        last = labels.gather(1, lengths[:, None] - 1)[:, 0]
        inside = torch.where(real, emitted, 0.0).sum(1) + torch.where(real[:, 1:], moved, 0.0).sum(1)
        return inside + begin.gather(0, labels[:, 0]) + end.gather(0, last)

    def forward_logs(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """For each place and label, all ways to be there; behind a row's end its last ones stay.  -> as scores"""
        scores = _exact(scores)
        move = self.move.to(scores.dtype)
        ahead = self.begin.to(scores.dtype) + scores[:, 0]
        every = [ahead]
        for place in range(1, scores.shape[1]):
            stepped = (ahead[:, :, None] + move).logsumexp(1) + scores[:, place]
            ahead = torch.where((place < lengths)[:, None], stepped, ahead)
            every.append(ahead)
        return torch.stack(every, dim=1)

    def backward_logs(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """For each place and label, all ways to go on from there to the end.  -> as scores"""
        scores = _exact(scores)
        move, end = self.move.to(scores.dtype), self.end.to(scores.dtype)
        back = end.expand(len(scores), -1)
        every = [back]
        for place in range(scores.shape[1] - 1, 0, -1):
            stepped = (move + (scores[:, place] + back)[:, None, :]).logsumexp(-1)
            back = torch.where((place < lengths)[:, None], stepped, end)
            every.append(back)
        return torch.stack(every[::-1], dim=1)

    def best(self, scores: Tensor, lengths: Tensor, *, allowed: Tensor | None = None) -> list[list[int]]:
        """The best path of each row; `allowed` (labels + 1, labels): which moves may be, the last row from the start.

        The moves that are not allowed are known to Viterbi alone: the sum over all paths counts them.
        """
        scores = _exact(scores)
        move, begin = self.move.to(scores.dtype), self.begin.to(scores.dtype)
        if allowed is not None:
            move = move.masked_fill(~allowed[:-1], -math.inf)
            begin = begin.masked_fill(~allowed[-1], -math.inf)
        ahead = begin + scores[:, 0]
        came = []
        for place in range(1, scores.shape[1]):
            stepped, source = (ahead[:, :, None] + move).max(1)
            inside = (place < lengths)[:, None]
            ahead = torch.where(inside, stepped + scores[:, place], ahead)
            came.append(torch.where(inside, source, torch.arange(source.shape[1], device=source.device)))
        last = (ahead + self.end.to(scores.dtype)).argmax(-1)
        path = [last]
        for source in reversed(came):
            path.append(source.gather(1, path[-1][:, None])[:, 0])
        rows = torch.stack(path[::-1], dim=1).tolist()
        return [row[:length] for row, length in zip(rows, lengths.tolist(), strict=True)]


def bio_moves(kinds: int) -> Tensor:
    """Which moves between O, B-1, I-1, B-2, I-2, ... may be: I follows B or I of its kind.  (labels + 1, labels)"""
    labels = 1 + 2 * kinds
    allowed = torch.ones(labels + 1, labels, dtype=torch.bool)
    for inside in range(2, labels, 2):
        allowed[:, inside] = False
        allowed[[inside - 1, inside], inside] = True
    return allowed


def _exact(scores: Tensor) -> Tensor:
    return scores if scores.dtype == torch.float64 else scores.float()
