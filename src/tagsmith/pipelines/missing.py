"""What a user's list of terms lacks: suggestions that would have been made without it, counted over documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tagsmith.pipelines.run import CHUNK
from tagsmith.records import Tags
from tagsmith.text.term_list import TermList, mark_of

HELD = 200_000  # suggestions counted at once; the rarest are dropped beyond


class Missing:
    """Counts the documents for which each missing phrase was suggested."""

    def __init__(self, terms: TermList) -> None:
        self.terms = terms
        self._documents: Counter[tuple[str, ...]] = Counter()
        self._names: dict[tuple[str, ...], str] = {}

    def add(self, answer: Tags) -> None:
        """One document's free suggestions."""
        for tag in answer.tags:
            mark = mark_of(tag.text)
            if tag.text not in self.terms:
                self._documents[mark] += 1
                self._names.setdefault(mark, tag.text)
        if len(self._documents) > HELD:
            self._documents = Counter(dict(self._documents.most_common(HELD // 2)))
            self._names = {mark: self._names[mark] for mark in self._documents}

    def frequent(self, *, least: int = 2, most: int = 1000) -> list[tuple[str, int]]:
        """Phrases that at least so many documents would have got, and how many; the most frequent first."""
        return [(self._names[mark], count) for mark, count in self._documents.most_common(most) if count >= least]


def stream_beside(bound: Any, free: Any, documents: Iterable[Any], missing: Missing, **asked: Any) -> Iterator[Any]:
    """The answers of the tagger that keeps to the list; what the free one says is counted."""
    rest = iter(documents)
    while chunk := list(islice(rest, CHUNK)):
        for answer in free.tag(chunk, **asked):
            missing.add(answer)
        yield from zip(chunk, bound.tag(chunk, **asked), strict=True)
