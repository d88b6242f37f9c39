"""Texts with a meta-text as flat arrays, and batches of them.

    Example: ids [S] meta [SEP] body [SEP], where the body's words stand in them, what is asked of them
    examples --Reading.pack--> flat arrays --ReadBatches--> ReadBatch

The states of a reader that is not trained may be kept beside the ids, so that each text is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tagsmith.data.batches import ROUND, BatchSettings, cut_by_length, gather, prefetch, random_groups, share
from tagsmith.data.corpus import Ids, Ragged
from tagsmith.errors import TrainError

COARSE = 32  # lengths are rounded up to this where each shape is recorded once
COARSE_BODY = 64  # and those of bodies, which may have far fewer words than pieces, to this


class Example(NamedTuple):
    """One text, or a window of it, as numbers."""

    ids: list[int]
    meta: int  # how many of the ids are [S] and the meta-text
    body: list[int]  # places of the words to read
    target: Sequence[int] = ()  # classify: its label; answer: first and last word from 1 on, 0: none; extract: labels


class ReadBatch(NamedTuple):
    """Texts to read; states of width 0 are to be read from the ids."""

    ids: Tensor  # (batch, source)
    lengths: Tensor  # (batch,)
    meta_lengths: Tensor  # (batch,)
    meta: Tensor  # (batch, meta) places of the meta-text in ids
    body: Tensor  # (batch, body) places of the body's words in ids
    body_lengths: Tensor  # (batch,)
    target: Tensor  # (batch, 8) or (batch, body)
    states: Tensor  # (batch, source, width)
    which: Tensor = torch.zeros(
        0
    )  # (n,): the n-th of several models reads it; a shape is known without asking a device

    def to(self, device: torch.device | str) -> ReadBatch:
        """The same on another device, without waiting."""
        return ReadBatch(*(part.to(device, non_blocking=True) for part in self))

    def pin(self) -> ReadBatch:
        """The same in page-locked memory."""
        return ReadBatch(*(part.pin_memory() for part in self))


@dataclass(frozen=True)
class Reading:
    """Examples as flat arrays."""

    ids: Ragged
    meta: Ids  # (examples,)
    body: Ragged
    target: Ragged
    states: NDArray[np.float16] | None = None  # (all ids, width)

    def __len__(self) -> int:
        return len(self.meta)

    @classmethod
    def pack(cls, examples: Sequence[Example]) -> Reading:
        """From examples; at least one is needed."""
        if not examples:
            raise TrainError("no row to learn from was found in the training data; check its fields")
        return cls(
            _ragged([one.ids for one in examples]),
            np.array([one.meta for one in examples]),
            _ragged([one.body for one in examples]),
            _ragged([one.target or [0] for one in examples]),
        )

    def save(self, path: Path) -> None:
        """As one file of arrays, whole or not at all."""
        parts = {"ids": self.ids, "body": self.body, "target": self.target}
        arrays = {f"{name}_{kind}": getattr(part, kind) for name, part in parts.items() for kind in ("flat", "ends")}
        beside = path.with_suffix(".part.npz")
        np.savez(beside, meta=self.meta, **arrays)
        beside.replace(path)

    @classmethod
    def load(cls, path: Path) -> Reading:
        """What `save` left."""
        try:
            with np.load(path) as found:
                ids, body, target = (
                    Ragged(found[f"{name}_flat"], found[f"{name}_ends"]) for name in ("ids", "body", "target")
                )
                return cls(ids, found["meta"], body, target)
        except (OSError, ValueError, KeyError) as wrong:
            raise TrainError(f"{path} holds no examples: {wrong}; remove it, and it is made anew") from None

    def with_states(self, path: Path, width: int, *, fill: Callable[[Reading, NDArray[np.float16]], None]) -> Reading:
        """The same with states kept in a file, filled by a reader once."""
        shape = (len(self.ids.flat), width)
        if not path.exists() or path.stat().st_size != 2 * shape[0] * shape[1]:
            beside = path.with_suffix(".part")
            states: Any = np.memmap(beside, np.float16, "w+", shape=shape)
            fill(self, states)
            states.flush()
            beside.replace(path)
        return replace(self, states=np.memmap(path, np.float16, "r", shape=shape))

    def collate(self, rows: Ids, *, coarse: bool = False, meta: int = 0) -> ReadBatch:
        """Padded tensors; `coarse` makes few shapes of them, with a meta-text of `meta` places at most."""
        lengths, body_lengths = self.ids.lengths(rows), self.body.lengths(rows)
        arrays: dict[str, Any] = {
            "ids": gather(self.ids.flat, self.ids.starts(rows), lengths),
            "body": gather(self.body.flat, self.body.starts(rows), body_lengths),
            "target": gather(self.target.flat, self.target.starts(rows), self.target.lengths(rows)),
        }
        longest = -(-int(self.meta[rows].max()) // ROUND) * ROUND
        if coarse:
            width = -(-arrays["ids"].shape[1] // COARSE) * COARSE
            wide = min(width, -(-arrays["body"].shape[1] // COARSE_BODY) * COARSE_BODY)
            arrays = {name: _widened(array, width if name == "ids" else wide) for name, array in arrays.items()}
            longest = max(longest, -(-meta // ROUND) * ROUND)
        places = np.arange(longest)
        return ReadBatch(
            ids=torch.from_numpy(arrays["ids"]),
            lengths=torch.from_numpy(lengths),
            meta_lengths=torch.from_numpy(self.meta[rows]),
            meta=torch.from_numpy(np.where(places < self.meta[rows][:, None], places, 0)),
            body=torch.from_numpy(arrays["body"]),
            body_lengths=torch.from_numpy(body_lengths),
            target=torch.from_numpy(arrays["target"]),
            states=self._states(rows, lengths, arrays["ids"].shape[1]),
        )

    def _states(self, rows: Ids, lengths: Ids, width: int) -> Tensor:
        if self.states is None:
            return torch.zeros(len(rows), 0, 0)
        places = self.ids.starts(rows)[:, None] + np.minimum(np.arange(width), lengths[:, None] - 1)
        return torch.from_numpy(self.states[places])


class ReadBatches:
    """All steps of an epoch, in an order that depends on the seed and the epoch alone."""

    def __init__(self, reading: Reading, settings: BatchSettings, *, coarse: bool = False, meta: int = 0) -> None:
        self.reading, self.settings = reading, settings
        self.coarse, self.meta = coarse, meta
        self.rank, self.world = 0, 1

    def shard(self, rank: int, world: int) -> ReadBatches:
        """The share of one of several processes."""
        part = ReadBatches(self.reading, self.settings, coarse=self.coarse, meta=self.meta)
        part.rank, part.world = rank, world
        return part

    def steps(self, epoch: int) -> int:
        """How many steps an epoch has."""
        return len(self.plan(epoch))

    def plan(self, epoch: int) -> list[list[Ids]]:
        """The examples of each batch of each step: as for posts, a step is a fair sample of all."""
        rows = max(1, self.settings.tokens // self.settings.source)
        groups = random_groups(len(self.reading), rows, self.settings, epoch)
        own = share(groups, self.rank, self.world)
        return [cut_by_length(some, self.reading.ids.lengths(some), self.settings.parts) for some in own]

    def epoch(self, number: int, *, skip: int = 0) -> Iterator[list[ReadBatch]]:
        """The steps themselves, from the `skip`-th on, made ahead by a thread."""
        return prefetch(self._made(number, skip), pin=torch.cuda.is_available())

    def _made(self, number: int, skip: int) -> Iterator[list[ReadBatch]]:
        for parts in self.plan(number)[skip:]:
            yield self.collated(parts)

    def collated(self, parts: Sequence[Ids]) -> list[ReadBatch]:
        """The batches of one step."""
        return [self.reading.collate(rows, coarse=self.coarse, meta=self.meta) for rows in parts]


def collated(examples: Sequence[Example]) -> ReadBatch:
    """A batch of a few examples."""
    return Reading.pack(examples).collate(np.arange(len(examples)))


def _ragged(rows: Sequence[Sequence[int]]) -> Ragged:
    ends = np.cumsum([len(row) for row in rows])
    return Ragged(np.array([one for row in rows for one in row], np.int64), ends)


def _widened(array: Ids, width: int) -> Ids:
    return np.pad(array, ((0, 0), (0, max(0, width - array.shape[1]))))
