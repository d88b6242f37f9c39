"""When two tags say the same thing twice."""

from __future__ import annotations

from functools import lru_cache

from tagsmith.text.hashtags import words_of
from tagsmith.text.stems import stem

LONG = 6  # characters from which Chinese tags are compared by their pairs of characters
SAME = 0.6  # share of pairs that two long tags may have in common before one is left out


def alike(one: str, other: str) -> bool:
    """Tags, given as words, of the same stems; or long Chinese tags with most of their characters in common."""
    first, second = _form(one), _form(other)
    if first.stems == second.stems:
        return True
    if not (first.pairs and second.pairs):
        return False
    common = len(first.pairs & second.pairs)
    return 2 * common >= SAME * (len(first.pairs) + len(second.pairs))


class _Form:
    """A tag as it is compared."""

    __slots__ = ("pairs", "stems")

    def __init__(self, tag: str) -> None:
        self.stems = tuple(stem(word) for part in tag.split() for word in words_of(part))
        long = len(tag) >= LONG and not tag.isascii()
        self.pairs = frozenset(tag[place : place + 2] for place in range(len(tag) - 1)) if long else frozenset()


@lru_cache(maxsize=20_000)
def _form(tag: str) -> _Form:
    return _Form(tag)
