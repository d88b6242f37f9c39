"""A user's own list of terms: a file, one term a line, to which suggestions can be held."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tagsmith.errors import DataError
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
    try:
        with Path(path).open(encoding="utf-8-sig") as lines:
            terms = TermList(lines)
    except UnicodeDecodeError as wrong:
        raise DataError(
            f"{path} is no text in UTF-8 ({wrong.reason} at byte {wrong.start}); give one term a line"
        ) from None
    except OSError as wrong:
        raise DataError(f"{path} cannot be read: {wrong.strerror or wrong}") from None
    if not len(terms):
        raise DataError(f"{path} has no terms; give one a line, at most {MOST_CHARACTERS} characters each")
    return terms


def mark_of(phrase: str) -> tuple[str, ...]:
    """What equal terms share."""
    return stems(phrase) or (phrase.casefold(),)
