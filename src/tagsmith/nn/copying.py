"""Pointing: write a token of the source instead of one of the vocabulary."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tagsmith.nn.best import Best, tops_of


class SourceWords(NamedTuple):
    """Which tokens of a source are the same; `best` takes it where many steps look at one source."""

    same: Tensor  # (batch, source, source) 1.0 or 0.0
    again: Tensor  # (batch, 1, source) stands earlier in the source

    @classmethod
    def of(cls, ids: Tensor) -> SourceWords:
        """(batch, source)"""
        same = ids[:, :, None] == ids[:, None, :]
        return cls(same.float(), same.tril(-1).any(-1)[:, None])


class Pointer(nn.Module):
    """Mix the vocabulary's distribution with one over the source's tokens, by a learned gate.

    log p(token) = log( g * softmax(scores)[token] + (1 - g) * sum of weights where the source holds the token )
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 1)

    def forward(self, scores: Tensor, states: Tensor, weights: Tensor, source_ids: Tensor, *, extra: int = 0) -> Tensor:
        """Log-probabilities over the vocabulary and `extra` words that only this batch's sources hold.

        scores (batch, target, vocab), states (batch, target, width), weights (batch, target, source),
        source_ids (batch, source) -> (batch, target, vocab + extra)
        """
        wide = torch.promote_types(scores.dtype, torch.float32)  # half precision is too coarse for log
        write = self.gate(states).to(wide).sigmoid()  # paper: p_gen
        known = scores.to(wide).softmax(-1) * write
        if extra:
            known = nn.functional.pad(known, (0, extra))
        places = source_ids[:, None, :].expand(-1, scores.shape[1], -1)
        both = known.scatter_add(2, places, weights.to(wide) * (1 - write))
        return torch.log(both + 1e-10)

    def pick(self, scores: Tensor, states: Tensor, weights: Tensor, source_ids: Tensor, wanted: Tensor) -> Tensor:
        """`forward` for some tokens only, without writing out the mixture.

        wanted (batch, target, n), ids past the vocabulary among them -> log-probabilities (batch, target, n)
        """
        wide = torch.promote_types(scores.dtype, torch.float32)
        write = self.gate(states).to(wide).sigmoid()
        scores = scores.to(wide)
        known = wanted < scores.shape[-1]
        logs = scores.gather(2, torch.where(known, wanted, 0)) - scores.logsumexp(-1, keepdim=True)
        same = wanted[:, :, :, None] == source_ids[:, None, None, :]  # (batch, target, n, source)
        copied = (same * weights.to(wide)[:, :, None, :]).sum(-1)
        return torch.log(torch.where(known, logs.exp(), 0.0) * write + copied * (1 - write) + 1e-10)

    def best(
        self,
        scores: Tensor,
        states: Tensor,
        weights: Tensor,
        source_ids: Tensor,
        *,
        keep: int,
        words: SourceWords | None = None,
    ) -> Best:
        """The likeliest tokens of `forward`, without writing out the mixture.  -> (batch, target, keep)

        Copying only adds to a token's probability, so they are among the best of the vocabulary and the source's own;
        ids of the source past the vocabulary can only be copied.
        """
        tops = tops_of(scores.flatten(0, 1), keep)
        values, ids, most, total = (part.view(*scores.shape[:2], -1) for part in tops)
        write = self.gate(states).float().sigmoid()
        same, again = words or SourceWords.of(source_ids)
        copied = (weights.float() @ same) * (1 - write)
        beyond = (source_ids >= scores.shape[2])[:, None]
        known_ids = source_ids.clamp(max=scores.shape[2] - 1)[:, None, :].expand(-1, scores.shape[1], -1)
        own = scores.gather(2, known_ids).float().masked_fill(beyond, -math.inf)
        read = torch.log((own - most - total).exp() * write + copied + 1e-10)
        read = read.masked_fill(again, -math.inf)
        known = (ids[:, :, :, None] == source_ids[:, None, None, :]).any(-1)
        written = torch.log((values - total).exp() * write + 1e-10).masked_fill(known, -math.inf)
        logs, places = torch.cat([written, read], dim=-1).topk(keep)
        every = torch.cat([ids, source_ids[:, None, :].expand(-1, scores.shape[1], -1)], dim=-1)
        return Best(logs, every.gather(2, places))
