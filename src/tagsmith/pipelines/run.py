"""How every pipeline runs: lists in, lists out, same order, and no text's answer depends on its neighbours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Given = TypeVar("Given", contravariant=True)  # Item, as a Protocol must say it
Ready = TypeVar("Ready")
Raw = TypeVar("Raw")
Answer = TypeVar("Answer")

CHUNK = 2048  # texts prepared and sorted by length together


class Stages(Protocol[Given, Ready, Raw, Answer]):
    """A pipeline: text work, device work, text work."""

    def prepare(self, items: Sequence[Given]) -> list[Ready | None]: ...  # None: cannot be read, `finish` says why
    @property
    def batch(self) -> int: ...  # texts in one forward pass, at most
    def shape(self, ready: Ready) -> int: ...  # only texts of one shape share a forward pass
    def tokens(self, ready: Ready) -> int: ...  # that the model reads
    def forward(self, ready: Sequence[Ready]) -> list[Raw]: ...
    def finish(self, items: Sequence[Given], raws: Sequence[Raw | None]) -> list[Answer]: ...


def run(stages: Stages[Item, Ready, Raw, Answer], items: Sequence[Item]) -> list[Answer]:
    """One answer for each item.

    Texts are grouped by their padded shape rather than merely sorted: alone or among thousands, a text meets tensors
    of the same length. How many share a pass can still move the last bits of the arithmetic, and with them now and then
    the last digit of a score (in bf16 the last but one).
    """
    ready = stages.prepare(items)
    groups: dict[int, list[int]] = defaultdict(list)
    for place, one in enumerate(ready):
        if one is not None:
            groups[stages.shape(one)].append(place)
    raws: list[Raw | None] = [None] * len(items)
    for shape in sorted(groups, reverse=True):  # the longest first: what follows fits into the memory they leave
        places = groups[shape]
        for start in range(0, len(places), stages.batch):
            some = places[start : start + stages.batch]
            chunk = [one for place in some if (one := ready[place]) is not None]
            for place, raw in zip(some, stages.forward(chunk), strict=True):
                raws[place] = raw
    return stages.finish(items, raws)


def stream(stages: Stages[Item, Ready, Raw, Answer], items: Iterable[Item]) -> Iterator[tuple[Item, Answer]]:
    """Answers for any number of items in memory that does not grow with them."""
    rest = iter(items)
    while chunk := list(islice(rest, CHUNK)):
        yield from zip(chunk, run(stages, chunk), strict=True)
