"""A user's own list of terms: a file, one term a line, to which suggestions can be held."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tagsmith.errors import DataError
from tagsmith.text.lines import read_list
from tagsmith.text.stems import stems

MOST_TERMS = 2_000_000
MOST_CHARACTERS = 200  # of one term


class TermList:
    """Terms in their own spelling; those of equal stems are one, the first."""

    def __init__(self, terms: Iterable[str]) -> None:
        self._spellings: dict[tuple[str, ...], str] = {}
        self.repeated = 0  # terms that say what an earlier one says
        self.too_long = 0
        for term in terms:
            name = " ".join(term.split())
            if not name:
                continue
            if len(name) > MOST_CHARACTERS:
                self.too_long += 1
                continue
            mark = mark_of(name)
            if mark in self._spellings:
                self.repeated += 1
            elif len(self._spellings) == MOST_TERMS:
                raise DataError(f"a list has at most {MOST_TERMS:,} terms; split it")
            else:
                self._spellings[mark] = name

    @property
    def terms(self) -> list[str]:
        return list(self._spellings.values())

    def spelling(self, phrase: str) -> str | None:
        """The list's own spelling of a phrase; None if it is not in the list."""
        return self._spellings.get(mark_of(phrase))

    def __len__(self) -> int:
        return len(self._spellings)

    def __contains__(self, phrase: object) -> bool:
        return isinstance(phrase, str) and mark_of(phrase) in self._spellings


def read_terms(path: str | Path) -> TermList:
    """One term a line, UTF-8; blank lines are skipped."""
    return read_list(path, TermList, wanted=f"one term of at most {MOST_CHARACTERS} characters")


def mark_of(phrase: str) -> tuple[str, ...]:
    """What equal terms share."""
    return stems(phrase) or (phrase.casefold(),)
