"""Where a tag stands in the given text, in whatever spelling.

text --split once--> words, stems --every tag--> spans (character offsets into the given text)
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from tagsmith.records import Span
from tagsmith.text.hashtags import words_of
from tagsmith.text.normalise import WIDE
from tagsmith.text.scripts import has_east_asian
from tagsmith.text.stems import stem
from tagsmith.text.tokenise import LETTERS

_WORD = re.compile(f"{LETTERS}(?:['’]{LETTERS})*")
_BETWEEN = " \t\r\n\u00a0\u3000-_'’#＃"  # what may stand between the words of one tag
_APOSTROPHES = str.maketrans("", "", "'’")


class _Wanted(NamedTuple):
    """A tag made ready: how it begins, its stems, the stem of all of it glued, or the plain letters to find."""

    hint: str  # letters that a text must have to hold the tag
    first: str  # letter
    stems: tuple[str, ...]
    glued: str
    last: str  # the last word as written
    plain: str  # looked for as it is, where not empty


class SpanFinder:
    """One text, in which many tags are looked for; it is split once, for the first tag that may stand in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._split = False
        self._letters = _letters(text) if text.isascii() else None
        self._spans: list[Span] = []
        self._stems: list[str | None] = []  # made when asked for
        self._places: dict[str, list[int]] = {}  # of words by their first letter, which stems keep
        self._folded: tuple[str, list[int] | None] | None = None

    def find(self, tag: str) -> tuple[Span, ...]:
        """Every place of the tag, left to right, none inside another."""
        wanted = _prepare(tag)
        if wanted.plain:
            return self._find_plain(wanted.plain)
        if self._letters is not None and wanted.hint not in self._letters:
            return ()
        if not self._split:
            self._split_words()
        spans: list[Span] = []
        free = 0  # the first word that no span has taken
        for place in self._places.get(wanted.first, ()):
            count = self._match(place, wanted)
            if count and place >= free:
                free = place + count
                spans.append((self._spans[place][0], self._end(free - 1, wanted.last)))
        return tuple(spans)

    def _split_words(self) -> None:
        self._split = True
        text, places = self._text, self._places
        self._spans = [found.span() for found in _WORD.finditer(text)]
        self._stems = [None] * len(self._spans)
        firsts = text.lower() if text.isascii() else None  # which keeps every letter in its place
        for place, (start, end) in enumerate(self._spans):
            first = firsts[start] if firsts else _first(text[start:end])
            places.setdefault(first, []).append(place)

    def _match(self, place: int, wanted: _Wanted) -> int:
        """How many words of the text, from this place, are the tag; 0 if they are not."""
        if self._stem(place) == wanted.glued:
            return 1
        count = len(wanted.stems)
        if place + count > len(self._spans) or any(
            self._stem(place + one) != wanted.stems[one] for one in range(count)
        ):
            return 0
        for before in range(place, place + count - 1):
            if self._text[self._spans[before][1] : self._spans[before + 1][0]].strip(_BETWEEN):
                return 0
        return count

    def _stem(self, place: int) -> str:
        stem = self._stems[place]
        if stem is None:
            start, end = self._spans[place]
            stem = self._stems[place] = _root(self._text[start:end])
        return stem

    def _end(self, place: int, last: str) -> int:
        """The end of a word, without a possessive "'s" that the tag does not have."""
        start, end = self._spans[place]
        if self._text[end - 2 : end] in ("'s", "’s") and end - start > 2 and not last.endswith("s"):
            return end - 2
        return end

    def _find_plain(self, plain: str) -> tuple[Span, ...]:
        if self._folded is None:
            self._folded = _fold(self._text)
        folded, origins = self._folded
        spans: list[Span] = []
        start = folded.find(plain)
        while start >= 0:
            end = start + len(plain)
            if origins is None:
                spans.append((start, end))
            elif origins[start] != origins[start - 1] and origins[end] != origins[end - 1]:
                spans.append((origins[start], origins[end]))
            else:
                end = start + 1  # begins or ends inside a letter that folding made longer
            start = folded.find(plain, end)
        return tuple(spans)


def find_spans(tag: str, text: str) -> tuple[Span, ...]:
    """Every place in the text where the words of the tag stand in a row, or glued; by stems, in any case."""
    return SpanFinder(text).find(tag)


@lru_cache(maxsize=20_000)
def _prepare(tag: str) -> _Wanted:
    bare = tag.translate(WIDE).strip("# ")
    if has_east_asian(bare) or not any(letter.isalnum() for letter in bare):
        return _Wanted("", "", (), "", "", bare.casefold())
    words = words_of(tag)
    glued = "".join(words)
    stems = tuple(map(_root, words))
    return _Wanted(_hint(stems[0]), _first(glued), stems, _root(glued), words[-1], "")


def _hint(root: str) -> str:
    """Letters with which every word of this stem begins, as `_letters` has them; stems of three may hide one more."""
    return _letters(root)[: 3 if len(root) > 3 else 2] if root.isascii() else ""


def _letters(text: str) -> str:
    """The text without case and apostrophes, and with y as i, which is how stems have it."""
    return text.lower().replace("'", "").replace("y", "i")


def _first(word: str) -> str:
    """The letter a word begins with, which its stem keeps."""
    return word[0].lower() if word.isascii() else _root(word)[:1]


@lru_cache(maxsize=50_000)
def _root(word: str) -> str:
    """The stem of a word in its plainest spelling."""
    return stem(unicodedata.normalize("NFKC", word.translate(_APOSTROPHES)))


def _fold(text: str) -> tuple[str, list[int] | None]:
    """The text without case, and for each of its characters and its end the offset in the text; None: the same."""
    text = text.translate(WIDE)
    folded = text.casefold()
    if len(folded) == len(text):  # folding never shortens, so nothing has moved
        return folded, None
    origins = [place for place, letter in enumerate(text) for _ in letter.casefold()]
    return folded, [*origins, len(text)]
