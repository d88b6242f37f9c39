"""A title and a text, or a question and a passage, as numbers for a reader, in windows where they are long.

    meta, body --pieces--> [S] meta [SEP] body [SEP] | [S] meta [SEP] rest of the body [SEP] | ...

Every word to be read keeps the place where it stands in the given text or title. Windows overlap; each owns the words
that lie deeper in it than in its neighbour.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tagsmith.config import check_positive
from tagsmith.data.reading import Example
from tagsmith.errors import ConfigError
from tagsmith.text.pieces import SEPARATOR, TEXT, Pieces
from tagsmith.text.tokenise import word_spans

_SENTENCE = re.compile(r"[.!?](?=\s)|[。！？]")


@dataclass(frozen=True)
class WindowSettings:
    """How much is read at once."""

    source: int = 384  # pieces of a window, all together
    meta: int = 64  # pieces of a title or question; what is longer is read with the body
    overlap: int = 96  # pieces that two windows share

    def __post_init__(self) -> None:
        check_positive(self, "source", "meta")
        if self.source - self.meta - 3 <= self.overlap:
            raise ConfigError(
                f"a window of {self.source} pieces leaves no room beside {self.meta} of the title and {self.overlap} "
                "shared with the next; make source larger, or meta or overlap smaller"
            )


class Place(NamedTuple):
    """Where a word stands: characters of the text, or of the title."""

    start: int
    end: int
    title: bool = False


class Part(NamedTuple):
    """A string to read, and where in the text or title it begins."""

    text: str
    first: int = 0
    title: bool = False


class Pair(NamedTuple):
    """What is read by the light of what."""

    meta: Part
    body: Part


class Window(NamedTuple):
    """One window, and the places of the words that are read in it."""

    example: Example
    places: list[Place]  # of each word in example.body
    own: tuple[int, int]  # the words that are its own


class _Piece(NamedTuple):
    id: int
    place: Place


def paired(title: str, text: str, *, lead: bool) -> Pair:
    """Title and text; without a title its first sentence (`lead`) or nothing is the meta-text."""
    if title.strip() and text.strip():
        return Pair(Part(title, title=True), Part(text))
    if title.strip():
        return Pair(Part("", title=True), Part(title, title=True))
    found = _SENTENCE.search(text) if lead else None
    if found is None or not text[found.end() :].strip():
        return Pair(Part(""), Part(text))
    return Pair(Part(text[: found.end()]), Part(text[found.end() :], found.end()))


def windows(
    pairs: Sequence[Pair], pieces: Pieces, settings: WindowSettings, *, words: bool, first_only: bool = False
) -> list[list[Window]]:
    """The windows of each pair; none where nothing can be read.

    With `words` the words of meta-text and body are read, each by its first piece; else all pieces of the body.
    """
    metas = _pieces_of([pair.meta for pair in pairs], pieces)
    bodies = _pieces_of([pair.body for pair in pairs], pieces)
    found = []
    for pair, meta, body in zip(pairs, metas, bodies, strict=True):
        body = [*meta[settings.meta :], *body] if words else body
        cut = meta[: settings.meta]
        own = _Words(pair) if words else None
        spare = settings.source - len(cut) - 3
        ranges = _ranges(len(body), spare, settings.overlap)
        made = [_window(cut, body, one, own) for one in (ranges[:1] if first_only else ranges)]
        found.append([one for one in made if one.places])
    return found


def _pieces_of(parts: Sequence[Part], pieces: Pieces) -> list[list[_Piece]]:
    return [
        [
            _Piece(number, Place(part.first + start, part.first + end, part.title))
            for number, (start, end) in zip(ids, spans, strict=True)
            if end > start  # else it is the piece of a blank
        ]
        for part, (ids, spans) in zip(parts, pieces.encoded([part.text for part in parts]), strict=True)
    ]


class _Range(NamedTuple):
    """Pieces of a body: those of a window, and those of them that are its own."""

    start: int
    end: int
    own_start: int
    own_end: int


def _ranges(length: int, room: int, overlap: int) -> list[_Range]:
    """Windows over so many pieces."""
    starts = [0]
    while starts[-1] + room < length:
        starts.append(starts[-1] + room - overlap)
    half = overlap // 2
    made = []
    for place, start in enumerate(starts):
        end = min(start + room, length)
        last = place + 1 == len(starts)
        made.append(_Range(start, end, start + half if place else 0, end if last else starts[place + 1] + half))
    return made


class _Words:
    """The words of meta-text and body, found by a character inside them."""

    def __init__(self, pair: Pair) -> None:
        self.places: dict[bool, list[Place]] = {True: [], False: []}
        for part in pair:
            self.places[part.title] += [
                Place(part.first + start, part.first + end, part.title) for _, start, end in word_spans(part.text)
            ]
        self.starts = {title: [place.start for place in places] for title, places in self.places.items()}

    def at(self, piece: Place) -> Place | None:
        """The word in which the piece begins."""
        number = bisect_right(self.starts[piece.title], piece.start) - 1
        word = self.places[piece.title][number] if number >= 0 else None
        return word if word is not None and word.end > piece.start else None


def _window(meta: list[_Piece], body: list[_Piece], some: _Range, words: _Words | None) -> Window:
    here = body[some.start : some.end]
    ids = [TEXT, *(one.id for one in meta), SEPARATOR, *(one.id for one in here), SEPARATOR]
    first = len(meta) + 2  # the body's first place
    if words is None:
        example = Example(ids, len(meta) + 1, list(range(first, first + len(here))))
        places = [one.place for one in here]
        return Window(example, places, (some.own_start - some.start, some.own_end - some.start))
    read: dict[Place, int] = {}
    shown = meta if some.start == 0 else []  # the words of the meta-text are the first window's
    for number, one in [*enumerate(shown, start=1), *enumerate(here, start=first)]:
        word = words.at(one.place)
        if word is not None:
            read.setdefault(word, number)
    at = list(read.values())
    mine = [place for place, number in enumerate(at) if _owned(number - first + some.start, some, number < first)]
    own = (mine[0], mine[-1] + 1) if mine else (0, 0)
    return Window(Example(ids, len(meta) + 1, at), list(read), own)


def _owned(piece: int, some: _Range, in_meta: bool) -> bool:
    return in_meta or some.own_start <= piece < some.own_end
