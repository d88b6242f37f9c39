"""Documents and keyphrases as words (Meng et al., 2017), with room for the words of one text that no vocabulary has.

"Co-occurrence of 3.5 GHz" --terms--> ["co", "occurrence", "of", "<digit>", "ghz"] --read--> ids, unknown words

    keyphrases --targets_of--> present ones by first occurrence, then absent ones, equal stems once
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tagsmith.errors import ConfigError
from tagsmith.text.pieces import SPECIALS as PIECE_SPECIALS
from tagsmith.text.pieces import Pieces
from tagsmith.text.stems import stem
from tagsmith.text.tokenise import word_spans
from tagsmith.text.vocabulary import SPECIALS, UNK, Vocabulary

PRESENT, ABSENT = (
    len(SPECIALS),
    len(SPECIALS) + 1,
)  # what a phrase begins with; in sub-words the same ids, [S] and [SEG]
KINDS = ("<present>", "<absent>")
DIGIT = "<digit>"
LONGEST = 6  # words of a keyphrase that is learned
_ASIDE = re.compile(r"\[[^\[\]]*\]|\{[^{}]*\}")
_BRACKETS = re.compile(r"\([^()]*\)")
_KEPT = frozenset(",().")
_JOINTS = re.compile(r" ?([-/'’]) ?")

assert len(PIECE_SPECIALS) == len(SPECIALS) + len(KINDS)


class Text(NamedTuple):
    """A document as ids; `unknown` are its words that the vocabulary lacks, with ids from the vocabulary's end on."""

    ids: list[int]
    unknown: tuple[str, ...] = ()


class Target(NamedTuple):
    """A keyphrase to be written."""

    kind: int  # PRESENT or ABSENT
    words: tuple[str, ...]
    text: str  # as given, lower case


def terms(text: str) -> list[str]:
    """Lower-case words; [...] and {...} left out, hyphens split, runs of numbers are one <digit>."""
    return [term for term, _, _ in term_spans(text)]


def term_spans(text: str) -> list[tuple[str, int, int]]:
    """The terms and their offsets: term, start, end."""
    found: list[tuple[str, int, int]] = []
    for word, start, end in word_spans(_ASIDE.sub(lambda aside: " " * len(aside[0]), text.lower())):
        if word[0].isdigit():
            if found and found[-1][0] == DIGIT:
                found[-1] = (DIGIT, found[-1][1], end)
            else:
                found.append((DIGIT, start, end))
        elif word in _KEPT or word[0].isalnum():
            found.append((word, start, end))
    return found


def phrase_terms(phrase: str) -> tuple[str, ...]:
    """The words of a keyphrase; (...) and marks left out."""
    return tuple(word for word in terms(_BRACKETS.sub(" ", phrase)) if word not in _KEPT)


def targets_of(document: str, phrases: Sequence[str], *, longest: int = LONGEST) -> list[Target]:
    """The keyphrases in the order in which they are learned, none longer than `longest` words."""
    source = [stem(word) for word in terms(document)]
    places = _places(source)
    present: dict[tuple[str, ...], tuple[int, Target]] = {}
    absent: dict[tuple[str, ...], Target] = {}
    for phrase in phrases:
        own = phrase_terms(phrase)
        text = " ".join(_BRACKETS.sub(" ", phrase).lower().split())
        roots = tuple(map(stem, own))
        if not own or len(own) > longest or roots in present or roots in absent:
            continue
        place = next((at for at in places.get(roots[0], ()) if tuple(source[at : at + len(roots)]) == roots), None)
        if place is None:
            absent[roots] = Target(ABSENT, own, text)
        else:
            present[roots] = (place, Target(PRESENT, own, text))
    return [*(target for _, target in sorted(present.values(), key=lambda one: one[0])), *absent.values()]


class Terms:
    """Texts and keyphrases to ids and back."""

    def __init__(self, vocabulary: Vocabulary, extra: int) -> None:
        if tuple(vocabulary.tokens(range(len(SPECIALS), len(SPECIALS) + len(KINDS)))) != KINDS:
            raise ConfigError(f"a vocabulary of terms has {' and '.join(KINDS)} behind its special tokens")
        self.vocabulary = vocabulary
        self.extra = extra  # unknown words of one text that can be told apart

    @classmethod
    def count(cls, texts: Iterable[str], size: int, *, extra: int) -> Terms:
        """The `size` most frequent words of the texts."""
        counted = Vocabulary.count(map(terms, texts), size - len(KINDS))
        known = counted.tokens(range(len(counted)))
        return cls(Vocabulary((*known[: len(SPECIALS)], *KINDS, *known[len(SPECIALS) :])), extra)

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, unknown words as one."""
        return [self.vocabulary.ids(terms(text)) for text in texts]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each word stands."""
        return [(start, end) for _, start, end in term_spans(text)]

    def read(self, texts: Sequence[str]) -> list[Text]:
        """The texts' words; of their unknown ones the first `extra` keep their names."""
        found = []
        for text in texts:
            ids, unknown = self.vocabulary.extended_ids(terms(text))
            if len(unknown) > self.extra:
                ids = [one if one < self.size + self.extra else UNK for one in ids]
            found.append(Text(ids, tuple(unknown[: self.extra])))
        return found

    def write(self, text: Text, targets: Sequence[Target]) -> list[list[int]]:
        """Each keyphrase headed by its kind; absent ones that only unknown words make up are left out."""
        rows = []
        for kind, own, _ in targets:
            ids = self.vocabulary.target_ids(own, text.unknown)
            if any(one != UNK for one in ids):
                rows.append([kind, *ids])
        return rows

    def join(self, ids: Sequence[int], text: Text) -> str:
        """The phrase of ids, or nothing where it holds what cannot be named."""
        names = self.vocabulary.tokens(ids, text.unknown)
        bad = {*SPECIALS, *KINDS, DIGIT, *_KEPT}
        return "" if bad.intersection(names) else " ".join(names)

    def save(self, path: Path) -> None:
        """Write as JSON."""
        tokens = self.vocabulary.tokens(range(self.size))
        whole = {"kind": "terms", "extra": self.extra, "symbols": tokens}
        path.write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")


class PieceTerms:
    """The same with sub-words, which leave nothing unknown."""

    extra = 0

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces

    @property
    def size(self) -> int:
        return self.pieces.size

    def read(self, texts: Sequence[str]) -> list[Text]:
        """The texts' pieces."""
        return [Text(ids) for ids in self.pieces.ids(texts)]

    def write(self, text: Text, targets: Sequence[Target]) -> list[list[int]]:
        """Each keyphrase headed by its kind."""
        spelled = self.pieces.ids([target.text for target in targets])
        return [[target.kind, *ids] for target, ids in zip(targets, spelled, strict=True) if ids]

    def join(self, ids: Sequence[int], text: Text) -> str:
        """The phrase of ids, its hyphens closed up."""
        return _JOINTS.sub(r"\1", self.pieces.join(ids))

    def save(self, path: Path) -> None:
        """Write as JSON."""
        self.pieces.save(path)


Coder = Terms | PieceTerms


def coder_of(tokeniser: object) -> Coder:
    """How a model of documents reads and writes with this tokeniser."""
    if isinstance(tokeniser, Terms):
        return tokeniser
    if isinstance(tokeniser, Pieces):
        return PieceTerms(tokeniser)
    raise ConfigError(f"keyphrases are written with terms or pieces, not with {type(tokeniser).__name__}")


def _places(stems: Sequence[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, root in enumerate(stems):
        places.setdefault(root, []).append(place)
    return places
