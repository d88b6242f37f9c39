"""Steps of training: posts drawn at random, cut by length into batches within a budget of tokens.

corpus --plan(epoch): random groups, each sorted and cut in parts--> lists of post numbers --collate--> PairBatch

Batches are made ahead of time by a thread, and pinned where there is a GPU.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tagsmith.config import check_positive
from tagsmith.data.corpus import Corpus, Ids
from tagsmith.text.pieces import END, PAD

ROUND = 8  # sequence lengths are padded to a multiple of this, so that few shapes occur


class Pinned(Protocol):
    """What the thread that makes batches asks of one."""

    def pin(self) -> Self: ...


Batch = TypeVar("Batch", bound=Pinned)


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
    parts: int = 1  # batches to a step, whose gradients are summed
    source: int = 128  # longer texts are cut
    target: int = 32
    targets: Literal["all", "one", "closed"] = "all"  # every tag in order; one by chance; all, with [END] apart
    seed: int = 1

    def __post_init__(self) -> None:
        check_positive(self, "tokens", "parts", "source", "target")


class Batches:
    """All steps of an epoch, in an order that depends on the seed and the epoch alone."""

    def __init__(self, corpus: Corpus, settings: BatchSettings, *, rank: int = 0, world: int = 1) -> None:
        self.corpus = corpus
        self.settings = settings
        self.rank = rank
        self.world = world

    def shard(self, rank: int, world: int) -> Batches:
        """The share of one of several processes."""
        return Batches(self.corpus, self.settings, rank=rank, world=world)

    def steps(self, epoch: int) -> int:
        """How many steps an epoch has."""
        return len(self.plan(epoch))

    def plan(self, epoch: int) -> list[list[Ids]]:
        """The post numbers of each batch of each step of this process.

        The posts of a step are a fair sample of the corpus: steps of like-sized posts, or worse of like-sized targets,
        each teach a habit that the next has to unteach. Within a step the posts are sorted by length and cut into
        parts, so that little is padding. All steps are of one size, so that few shapes occur.
        """
        rows = max(1, self.settings.tokens // (self.settings.source + self.settings.target))
        groups = random_groups(len(self.corpus), rows, self.settings, epoch)
        own = share(groups, self.rank, self.world)
        return [cut_by_length(posts, self._lengths(posts), self.settings.parts) for posts in own]

    def _lengths(self, posts: Ids) -> Ids:
        """How long each post's source or target is, whichever is longer.

        Where one target is drawn, which is decided later, the first stands for all.
        """
        source = np.minimum(self.corpus.source.lengths(posts), self.settings.source)
        if self.settings.targets == "one":
            target = self.corpus.targets.lengths(self.corpus.first_targets(posts))
        else:
            _, target = self._all_targets(posts)
        return np.maximum(source, np.minimum(target, self.settings.target))

    def epoch(self, number: int, *, skip: int = 0) -> Iterator[list[PairBatch]]:
        """The steps themselves, from the `skip`-th on, made ahead by a thread."""
        return prefetch(self._made(number, skip), pin=torch.cuda.is_available())

    def _made(self, number: int, skip: int) -> Iterator[list[PairBatch]]:
        for place, parts in enumerate(self.plan(number)):
            if place >= skip:
                chance = np.random.default_rng((self.settings.seed, number, self.rank, place))
                yield [self.collate(posts, chance) for posts in parts]

    def collate(self, posts: Ids, chance: np.random.Generator, drawn: Ids | None = None) -> PairBatch:
        """Padded tensors of these posts; `drawn` are the numbers of the targets to take, where that is decided."""
        corpus, settings = self.corpus, self.settings
        source_lengths = np.minimum(corpus.source.lengths(posts), settings.source)
        source = gather(corpus.source.flat, corpus.source.starts(posts), source_lengths)
        if drawn is None:
            starts, lengths = self._targets(posts, chance)
        else:
            starts, lengths = corpus.targets.starts(drawn), corpus.targets.lengths(drawn)
        if settings.targets == "closed":
            lengths = lengths + 1  # [END] comes behind the last [SEP], elsewhere in its place
        lengths = np.minimum(lengths, settings.target)
        target = gather(corpus.targets.flat, starts, lengths)
        target[np.arange(len(posts)), lengths - 1] = END
        arrays = (source, source_lengths, target, lengths)
        return PairBatch(*(torch.from_numpy(array) for array in arrays))

    def _targets(self, posts: Ids, chance: np.random.Generator) -> tuple[Ids, Ids]:
        """Where the targets of these posts start, and how long they are."""
        targets = self.corpus.targets
        if self.settings.targets != "one":
            return self._all_targets(posts)
        drawn = (chance.random(len(posts)) * self.corpus.target_counts(posts)).astype(np.int64)
        one = self.corpus.first_targets(posts) + drawn
        return targets.starts(one), targets.lengths(one)

    def _all_targets(self, posts: Ids) -> tuple[Ids, Ids]:
        starts = self.corpus.targets.starts(self.corpus.first_targets(posts))
        return starts, self.corpus.targets.ends[self.corpus.groups[posts] - 1] - starts


def random_groups(count: int, rows: int, settings: BatchSettings, epoch: int) -> list[Ids]:
    """The numbers below `count` in an order of chance, cut into steps of so many rows in each part."""
    order = np.random.default_rng((settings.seed, epoch)).permutation(count)
    return np.array_split(order, -(-count // (rows * settings.parts)) or 1)


def share(groups: list[Ids], rank: int, world: int) -> list[Ids]:
    """The steps of one of several processes, each of which takes the same number."""
    usable = len(groups) - len(groups) % world or len(groups)
    return groups[rank:usable:world] or groups[:1]


def cut_by_length(rows: Ids, lengths: NDArray[Any], parts: int) -> list[Ids]:
    """The rows of a step sorted by length and cut into parts."""
    by_length = rows[np.argsort(lengths, kind="stable")]
    return [part for part in np.array_split(by_length, parts) if len(part)]


def gather(flat: NDArray[Any], starts: Ids, lengths: Ids) -> Ids:
    """Rows of a flat array, padded on the right to a round length.  -> (rows, longest)"""
    longest = int(_round_up(lengths.max(initial=1)))
    places = np.arange(longest)
    inside = places < lengths[:, None]
    rows = flat[np.where(inside, np.minimum(starts[:, None] + places, len(flat) - 1), 0)]
    return np.where(inside, rows, PAD).astype(np.int64)


def pad_ids(rows: Sequence[list[int]], *, longest: int, width: int = 0) -> tuple[Tensor, Tensor]:
    """Lists of ids as one padded tensor, at least `width` wide, and their lengths, cut at `longest`."""
    lengths = [min(len(row), longest) for row in rows]
    width = int(_round_up(max(*lengths, min(width, longest), 1)))
    ids = [row[:length] + [PAD] * (width - length) for row, length in zip(rows, lengths, strict=True)]
    return torch.from_numpy(np.array(ids, np.int64)), torch.tensor(lengths)


def prefetch(steps: Iterable[list[Any]], *, ahead: int = 4, pin: bool = False) -> Iterator[list[Any]]:
    """The same steps (lists of batches), made by a thread that stays a few ahead."""
    ready: queue.Queue[list[Any] | BaseException | None] = queue.Queue(ahead)
    stop = threading.Event()

    def put(item: list[Any] | BaseException | None) -> None:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def work() -> None:
        try:
            for step in steps:
                if stop.is_set():
                    return
                put([batch.pin() for batch in step] if pin else step)
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
