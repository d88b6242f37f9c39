"""The likeliest of many: what search asks of a distribution over a large vocabulary, without sorting or writing it out.

scores (rows, vocab) --maxima of blocks--> the best ones --less the sum over all--> log-probabilities (rows, keep)
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

PART = 320_000  # scores compared at once on a CPU: in full precision, what a core's own cache holds


class Best(NamedTuple):
    """The likeliest next tokens of every hypothesis, best first."""

    logs: Tensor  # (batch, beam, n) log-probabilities
    ids: Tensor  # (batch, beam, n)


class Tops(NamedTuple):
    """The highest scores of every row, and the sum that makes probabilities of them."""

    values: Tensor  # (rows, keep), best first, less the highest
    ids: Tensor  # (rows, keep)
    most: Tensor  # (rows, 1) the highest
    total: Tensor  # (rows, 1) log of the summed exponentials of all scores, each less the highest


def best_of(scores: Tensor, keep: int) -> Best:
    """`log_softmax` and `topk`.  (batch, beam, vocab)"""
    tops = tops_of(scores.flatten(0, 1), keep)
    shape = (*scores.shape[:2], keep)
    return Best((tops.values - tops.total).view(shape), tops.ids.view(shape))


def tops_of(scores: Tensor, keep: int) -> Tops:
    """`topk` and `logsumexp`.  (rows, vocab)"""
    # on a CPU some rows at a time: a whole batch in full precision would leave the caches and fill the memory
    parts = scores.split(len(scores) if scores.is_cuda else max(1, PART // scores.shape[1]))
    return Tops(*map(torch.cat, zip(*(_tops(part, keep) for part in parts), strict=True)))


def _tops(scores: Tensor, keep: int) -> Tops:
    scores = scores.to(torch.float32, copy=True)
    values, ids = top_of(scores, keep)
    most = values[:, :1]
    return Tops(values - most, ids, most, scores.sub_(most).exp_().sum(-1, keepdim=True).log_())


def top_of(scores: Tensor, keep: int, *, block: int = 64) -> tuple[Tensor, Tensor]:
    """`topk` for long rows: the best `keep` lie in the `keep` blocks with the largest maxima.  (rows, vocab)"""
    _rows, vocab = scores.shape
    whole = vocab - vocab % block
    if whole // block <= keep or scores.is_cuda:
        return scores.topk(keep)
    blocks = scores[:, :whole].unflatten(1, (-1, block))
    places = blocks.amax(-1).topk(keep).indices  # (rows, keep)
    inside = blocks.gather(1, places[:, :, None].expand(-1, -1, block)).flatten(1)
    values, found = torch.cat([inside, scores[:, whole:]], dim=1).topk(keep)
    ids = places.gather(1, (found // block).clamp(max=keep - 1)) * block + found % block
    return values, torch.where(found < keep * block, ids, found - keep * block + whole)
