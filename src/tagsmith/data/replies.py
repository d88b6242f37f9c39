"""Queries and their responses on disk and in batches, with what the two auxiliary losses need.

corpus:  queries and responses, as any corpus; of each response the informative places of its query; of each query
         the topic words of all its responses
batch:   one response of each query, drawn by chance, and a share of the topic words
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tagsmith.data.batches import Batches, BatchSettings, gather, prefetch
from tagsmith.data.corpus import Corpus, Ids, Ragged
from tagsmith.errors import TrainError
from tagsmith.text.pieces import PAD

MOST_TOPICS = 24  # topic words of a query in a batch: one width, so that few shapes occur
SHARE = 0.8  # of a query's topic words are drawn in each epoch
FILES = ("places", "topics")


class ReplyBatch(NamedTuple):
    """Queries, one response each, and what should be attended to and thought of."""

    source: Tensor  # (batch, source)
    source_lengths: Tensor  # (batch,)
    target: Tensor  # (batch, target), ended by [END]
    target_lengths: Tensor  # (batch,)
    informative: Tensor  # (batch, source) True: the token belongs to an informative word
    topics: Tensor  # (batch, MOST_TOPICS) padded with [PAD]

    def to(self, device: torch.device | str) -> ReplyBatch:
        """The same on another device, without waiting."""
        return ReplyBatch(*(part.to(device, non_blocking=True) for part in self))

    def pin(self) -> ReplyBatch:
        """The same in page-locked memory."""
        return ReplyBatch(*(part.pin_memory() for part in self))


class ReplyRow(NamedTuple):
    """A query, its responses, the informative places of the query for each of them, and the topic words of all."""

    query: list[int]
    responses: list[list[int]]
    places: list[list[int]]
    topics: list[int]


@dataclass(frozen=True)
class ReplyCorpus:
    """A corpus of pairs with its marks, memory-mapped."""

    pairs: Corpus
    places: Ragged  # of each response
    topics: Ragged  # of each query

    def __len__(self) -> int:
        return len(self.pairs)

    @classmethod
    def write(
        cls,
        rows: Iterable[ReplyRow],
        folder: Path,
        *,
        separator: int,
        on_progress: Callable[[int], None] = lambda done: None,
    ) -> ReplyCorpus:
        """Rows to files, one after the other; those without query or response are left out."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "corpus.json").unlink(missing_ok=True)  # until it is back, the folder is no corpus
        writers = {name: _RaggedWriter(folder, name) for name in FILES}

        def kept() -> Iterator[tuple[list[int], list[list[int]]]]:
            for row in rows:
                both = [pair for pair in zip(row.responses, row.places, strict=True) if pair[0]]
                if row.query and both:
                    for _, places in both:
                        writers["places"].add(places)
                    writers["topics"].add(row.topics)
                    yield row.query, [response for response, _ in both]

        try:
            Corpus.write(kept(), folder, separator=separator, on_progress=on_progress)
        finally:
            for writer in writers.values():
                writer.close()
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> ReplyCorpus:
        """What `write` left."""
        marks = []
        for name in FILES:
            try:
                flat = _mapped(folder / f"{name}.ids.bin", np.uint32)
                marks.append(Ragged(flat, _mapped(folder / f"{name}.ends.bin", np.int64)))
            except OSError:
                raise TrainError(f"{folder} holds no finished corpus of replies") from None
        return cls(Corpus.open(folder), *marks)


class _RaggedWriter:
    """Rows at the end of two files: the numbers, and where each row ends."""

    def __init__(self, folder: Path, name: str) -> None:
        self._flat = (folder / f"{name}.ids.bin").open("wb")
        self._ends = (folder / f"{name}.ends.bin").open("wb")
        self._count = 0

    def add(self, numbers: list[int]) -> None:
        self._count += len(numbers)
        self._flat.write(np.asarray(numbers, dtype=np.uint32).tobytes())
        self._ends.write(np.asarray([self._count], dtype=np.int64).tobytes())

    def close(self) -> None:
        self._flat.close()
        self._ends.close()


class ReplyBatches:
    """All steps of an epoch: those of `Batches`, with the marks of the response that was drawn."""

    def __init__(self, corpus: ReplyCorpus, settings: BatchSettings, *, rank: int = 0, world: int = 1) -> None:
        self.corpus = corpus
        self.plain = Batches(corpus.pairs, settings, rank=rank, world=world)

    def shard(self, rank: int, world: int) -> ReplyBatches:
        """The share of one of several processes."""
        return ReplyBatches(self.corpus, self.plain.settings, rank=rank, world=world)

    def steps(self, epoch: int) -> int:
        """How many steps an epoch has."""
        return self.plain.steps(epoch)

    def epoch(self, number: int, *, skip: int = 0) -> Iterator[list[Any]]:
        """The steps themselves, from the `skip`-th on, made ahead by a thread."""
        return prefetch(self._made(number, skip), pin=torch.cuda.is_available())

    def _made(self, number: int, skip: int) -> Iterator[list[Any]]:
        seed = self.plain.settings.seed
        for place, parts in enumerate(self.plain.plan(number)):
            if place >= skip:
                chance = np.random.default_rng((seed, number, self.plain.rank, place))
                yield [self.collate(queries, chance) for queries in parts]

    def collate(self, queries: Ids, chance: np.random.Generator) -> ReplyBatch:
        """Padded tensors of these queries, with one response each."""
        pairs, settings = self.corpus.pairs, self.plain.settings
        drawn = (chance.random(len(queries)) * pairs.target_counts(queries)).astype(np.int64)
        batch = self.plain.collate(queries, chance, pairs.first_targets(queries) + drawn)
        informative = self._informative(pairs.first_targets(queries) + drawn, batch.source.shape[1])
        informative &= np.arange(batch.source.shape[1]) < np.minimum(
            pairs.source.lengths(queries), settings.source
        ).reshape(-1, 1)
        topics = torch.from_numpy(self._topics(queries, chance))
        return ReplyBatch(*batch, informative=torch.from_numpy(informative), topics=topics)

    def _informative(self, responses: Ids, wide: int) -> NDArray[np.bool_]:
        """(batch, source) True at the informative places."""
        marked = np.zeros((len(responses), wide), dtype=bool)
        own, inside = _rows_of(self.corpus.places, responses)
        inside &= own < wide
        rows = np.broadcast_to(np.arange(len(responses))[:, None], own.shape)
        marked[rows[inside], own[inside]] = True
        return marked

    def _topics(self, queries: Ids, chance: np.random.Generator) -> Ids:
        """(batch, MOST_TOPICS) a share of each query's topic words, drawn by chance."""
        own, inside = _rows_of(self.corpus.topics, queries)
        order = np.where(inside, chance.random(own.shape), 2.0).argsort(axis=1)
        mixed = np.take_along_axis(own, order, axis=1)[:, :MOST_TOPICS]
        counts = np.ceil(SHARE * inside.sum(1, keepdims=True))
        drawn = np.full((len(queries), MOST_TOPICS), PAD, dtype=np.int64)
        drawn[:, : mixed.shape[1]] = np.where(np.arange(mixed.shape[1]) < counts, mixed, PAD)
        return drawn


def _rows_of(ragged: Ragged, rows: Ids) -> tuple[Ids, NDArray[np.bool_]]:
    """Rows side by side, and where they hold something.  -> (rows, longest) twice"""
    lengths = ragged.lengths(rows)
    if not lengths.any():
        return np.zeros((len(rows), 1), dtype=np.int64), np.zeros((len(rows), 1), dtype=bool)
    own = gather(ragged.flat, ragged.starts(rows), lengths)
    return own, np.arange(own.shape[1]) < lengths[:, None]


def _mapped(path: Path, kind: type[Any]) -> NDArray[Any]:
    """A file of numbers, memory-mapped; an empty one cannot be."""
    return np.memmap(path, dtype=kind, mode="r") if path.stat().st_size else np.zeros(0, dtype=kind)
