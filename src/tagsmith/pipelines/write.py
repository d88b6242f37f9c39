"""Tags written token by token: the finder of models that generate.

ids --encoder, selection--> stepper --beam search--> sequences --split at [SEP], add up--> candidates
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tagsmith.config import check_positive
from tagsmith.data.batches import pad_ids
from tagsmith.decode import Ends, Found, beam, enough, greedy
from tagsmith.models.segtrm import SegTrm, SegTrmMemory, SegTrmStepper
from tagsmith.pipelines.tag import Candidate, Raw, Read
from tagsmith.text.hashtags import key
from tagsmith.text.pieces import END, SEPARATOR, Pieces

READ = 1024  # tokens that the encoder reads at once on a CPU
GRAIN = 8  # posts by which their number grows


@dataclass(frozen=True)
class TagSettings:
    """How a trained model writes; chosen on dev data, kept in its bundle."""

    language: Literal["en", "zh"] = "en"
    listing: Literal["all", "one"] = "all"  # a sequence lists all tags, or is one tag
    beam: int = 5
    steps: int = 24  # tokens of a sequence, at most
    top: int = 5  # tags returned, at most
    keep: float = 0.0  # tags scored below this share of the best one are not returned
    least: float = 0.0  # nor are those scored below this, but for the best one
    source: int = 128  # tokens read

    def __post_init__(self) -> None:
        check_positive(self, "beam", "steps", "top", "source")


class Writer:
    """Searches for the likeliest tags."""

    batch = 64

    def __init__(self, model: SegTrm, pieces: Pieces) -> None:
        self.model = model
        self.pieces = pieces

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def find(self, ids: Sequence[list[int]], settings: TagSettings, *, evidence: bool, width: int = 0) -> list[Raw]:
        """The tags of each post, and with `evidence` the segments that were read for them."""
        padded, lengths = pad_ids(ids, longest=settings.source, width=width)
        memory = self._read(padded.to(self.device), lengths.to(self.device))
        ends = Ends((END,)) if settings.listing == "all" else Ends((END, SEPARATOR), self.pieces.first_name)
        width = max(settings.beam, settings.top if settings.listing == "one" else 1)
        if width == 1:
            found = greedy(SegTrmStepper(self.model, memory, self.model.scores), ends=ends, steps=settings.steps)
        else:
            chooser = self.model.chooser(memory, keep=enough(width, ends))
            found = beam(chooser, width=width, ends=ends, steps=settings.steps, share=settings.keep)
        raws = read_found(found, self.pieces)
        if evidence:
            self._add_read(raws, memory)
        return raws

    def _read(self, ids: Tensor, lengths: Tensor) -> SegTrmMemory:
        """What the decoder reads of each post; on a CPU few posts at a time, whose states stay in its caches."""
        rows = len(ids) if ids.is_cuda else max(1, READ // (GRAIN * ids.shape[1])) * GRAIN
        parts = [self.model.encode(*some) for some in zip(ids.split(rows), lengths.split(rows), strict=True)]
        return SegTrmMemory(*map(torch.cat, zip(*parts, strict=True)))

    def _add_read(self, raws: list[Raw], memory: SegTrmMemory) -> None:
        size = self.model.config.segment_size
        for raw, weights, chosen in zip(raws, memory.weights.tolist(), memory.chosen.tolist(), strict=True):
            picked = (place for place, taken in enumerate(chosen) if taken)
            raw.read.extend(Read(place * size, (place + 1) * size, weights[place]) for place in picked)


def read_found(found: Found, pieces: Pieces) -> list[Raw]:
    """Sequences of ids as tags; a tag's score is the share of probability of the sequences that hold it."""
    rows = zip(found.tokens.tolist(), found.scores.tolist(), found.lengths.tolist(), strict=True)
    return [_raw(tokens, scores, lengths, pieces) for tokens, scores, lengths in rows]


def _raw(tokens: list[list[int]], scores: list[float], lengths: list[int], pieces: Pieces) -> Raw:
    sequences, totals, words = [], dict[str, float](), dict[str, str]()
    for ids, score, length in zip(tokens, scores, lengths, strict=True):
        if score == -math.inf:
            continue
        tags = tuple(dict.fromkeys(name for part in _split(ids[:length]) if (name := pieces.join(part))))
        sequences.append(tags)
        for name in tags:
            mark = key(name)
            words.setdefault(mark, name)
            totals[mark] = totals.get(mark, 0.0) + math.exp(score)
    ranked = sorted(totals, key=lambda mark: -totals[mark])
    return Raw(sequences, [Candidate(words[mark], totals[mark]) for mark in ranked])


def _split(ids: list[int]) -> Iterator[list[int]]:
    start = 0
    for place, token in enumerate([*ids, SEPARATOR]):
        if token == SEPARATOR:
            yield ids[start:place]
            start = place + 1
