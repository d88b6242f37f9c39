"""Batches of like-sized pairs: a budget of tokens each, made ahead of time by a thread, pinned where there is a GPU.

corpus --plan(epoch): buckets of one shape--> lists of post numbers --collate--> PairBatch
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tagsmith.config import check_positive
from tagsmith.data.corpus import Corpus, Ids
from tagsmith.text.pieces import END, PAD

ROUND = 8  # sequence lengths are padded to a multiple of this, so that few shapes occur


class PairBatch(NamedTuple):
    """Sources and what to write for them."""

    source: Tensor  # (batch, source)
    source_lengths: Tensor  # (batch,)
    target: Tensor  # (batch, target), ended by [END]
    target_lengths: Tensor  # (batch,)

    def to(self, device: torch.device | str) -> PairBatch:
        """The same on another device, without waiting."""
        return PairBatch(*(part.to(device, non_blocking=True) for part in self))

    def pin(self) -> PairBatch:
        """The same in page-locked memory."""
        return PairBatch(*(part.pin_memory() for part in self))


@dataclass(frozen=True)
class BatchSettings:
    """How posts become batches."""

    tokens: int = 16_384  # padded source and target tokens in a batch, at most
    source: int = 128  # longer texts are cut
    target: int = 32
    targets: Literal["all", "one"] = "all"  # every tag in the given order, or one of them by chance
    seed: int = 1

    def __post_init__(self) -> None:
        check_positive(self, "tokens", "source", "target")


class Batches:
    """All batches of an epoch, in an order that depends on the seed and the epoch alone."""

    def __init__(self, corpus: Corpus, settings: BatchSettings, *, rank: int = 0, world: int = 1) -> None:
        self.corpus = corpus
        self.settings = settings
        self.rank = rank
        self.world = world

    def shard(self, rank: int, world: int) -> Batches:
        """The share of one of several processes."""
        return Batches(self.corpus, self.settings, rank=rank, world=world)

    def steps(self, epoch: int) -> int:
        """How many batches an epoch has."""
        return len(self.plan(epoch))

    def plan(self, epoch: int) -> list[Ids]:
        """The post numbers of each batch of this process.

        Posts fall in random order into buckets of one padded shape; a bucket that is full is a batch. All its batches
        have the same number of rows, but for what is left at the end of an epoch: few shapes, little padding, and
        targets of different lengths side by side (batches in which all end at one place would teach that place).
        """
        order = np.random.default_rng((self.settings.seed, epoch)).permutation(len(self.corpus))
        source = _round_up(np.minimum(self.corpus.source.lengths(order), self.settings.source))
        target = _round_up(self._target_sizes(order))
        shapes, bucket = np.unique(source * (1 << 20) + target, return_inverse=True)
        full: list[tuple[int, Ids]] = []  # the place in the order at which the batch is full, and its posts
        for number, shape in enumerate(shapes.tolist()):
            places = np.flatnonzero(bucket == number)
            rows = max(1, self.settings.tokens // (shape // (1 << 20) + shape % (1 << 20)))
            full.extend((int(some[-1]), order[some]) for some in np.split(places, range(rows, len(places), rows)))
        plan = [posts for _, posts in sorted(full, key=lambda batch: batch[0])]
        usable = len(plan) - len(plan) % self.world or len(plan)  # every process takes the same number of steps
        return plan[self.rank : usable : self.world] or plan[:1]

    def epoch(self, number: int, *, skip: int = 0) -> Iterator[PairBatch]:
        """The batches themselves, from the `skip`-th on, made ahead by a thread."""
        return prefetch(self._made(number, skip), pin=torch.cuda.is_available())

    def _made(self, number: int, skip: int) -> Iterator[PairBatch]:
        for place, posts in enumerate(self.plan(number)):
            if place >= skip:
                yield self.collate(posts, np.random.default_rng((self.settings.seed, number, self.rank, place)))

    def collate(self, posts: Ids, chance: np.random.Generator) -> PairBatch:
        """Padded tensors of these posts."""
        corpus, settings = self.corpus, self.settings
        source_lengths = np.minimum(corpus.source.lengths(posts), settings.source)
        source = gather(corpus.source.flat, corpus.source.starts(posts), source_lengths)
        starts, lengths = self._targets(posts, chance)
        lengths = np.minimum(lengths, settings.target)
        target = gather(corpus.targets.flat, starts, lengths)
        target[np.arange(len(posts)), lengths - 1] = END  # the [SEP] behind the last tag
        arrays = (source, source_lengths, target, lengths)
        return PairBatch(*(torch.from_numpy(array) for array in arrays))

    def _targets(self, posts: Ids, chance: np.random.Generator) -> tuple[Ids, Ids]:
        """Where the targets of these posts start, and how long they are."""
        targets = self.corpus.targets
        first = self.corpus.first_targets(posts)
        if self.settings.targets == "one":
            one = first + (chance.random(len(posts)) * self.corpus.target_counts(posts)).astype(np.int64)
            return targets.starts(one), targets.lengths(one)
        starts = targets.starts(first)
        return starts, targets.ends[self.corpus.groups[posts] - 1] - starts

    def _target_sizes(self, posts: Ids) -> Ids:
        """Target tokens to reckon with: of all tags, or of the longest where one is drawn."""
        targets, counts = self.corpus.targets, self.corpus.target_counts(posts)
        first = self.corpus.first_targets(posts)
        if self.settings.targets == "one":
            begins = np.cumsum(counts) - counts
            every = np.repeat(first - begins, counts) + np.arange(counts.sum())
            lengths = np.maximum.reduceat(targets.lengths(every), begins)
        else:
            lengths = targets.ends[first + counts - 1] - targets.starts(first)
        return np.minimum(lengths, self.settings.target)


def gather(flat: NDArray[Any], starts: Ids, lengths: Ids) -> Ids:
    """Rows of a flat array, padded on the right to a round length.  -> (rows, longest)"""
    longest = int(_round_up(lengths.max(initial=1)))
    places = np.arange(longest)
    inside = places < lengths[:, None]
    rows = flat[np.where(inside, starts[:, None] + places, 0)]
    return np.where(inside, rows, PAD).astype(np.int64)


def pad_ids(rows: list[list[int]], *, longest: int) -> tuple[Tensor, Tensor]:
    """Lists of ids as one padded tensor and their lengths, cut at `longest`."""
    lengths = torch.tensor([min(len(row), longest) for row in rows])
    width = int(_round_up(max(int(lengths.max()), 1)))
    ids = torch.full((len(rows), width), PAD)
    for place, row in enumerate(rows):
        ids[place, : lengths[place]] = torch.tensor(row[:longest])
    return ids, lengths


def prefetch(batches: Iterable[PairBatch], *, ahead: int = 4, pin: bool = False) -> Iterator[PairBatch]:
    """The same batches, made by a thread that stays a few ahead."""
    ready: queue.Queue[PairBatch | BaseException | None] = queue.Queue(ahead)
    stop = threading.Event()

    def put(item: PairBatch | BaseException | None) -> None:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def work() -> None:
        try:
            for batch in batches:
                if stop.is_set():
                    return
                put(batch.pin() if pin else batch)
            put(None)
        except BaseException as problem:  # handed over, raised where the batches are used
            put(problem)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()


def _round_up(lengths: Any) -> Any:
    return -(-lengths // ROUND) * ROUND
