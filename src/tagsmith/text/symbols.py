"""Characters or words as a closed, lower-cased alphabet: the tokenisers of models that read no sub-words.

"Hi 👍" --characters--> ["h", "i", " ", "👍"] --vocabulary--> ids
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from tagsmith.errors import BundleError, ConfigError
from tagsmith.text.pieces import Pieces
from tagsmith.text.terms import Terms
from tagsmith.text.tokenise import characters, word_spans, words
from tagsmith.text.vocabulary import Vocabulary

Kind = Literal["characters", "words"]
_MARK = '{"kind"'  # how the file of symbols begins
_SPLIT = {"characters": characters, "words": words}


class Symbols:
    """Text to ids: the most frequent characters or words, everything else unknown."""

    def __init__(self, kind: Kind, vocabulary: Vocabulary) -> None:
        self.kind = kind
        self.vocabulary = vocabulary
        self._split = _SPLIT[kind]

    @classmethod
    def count(cls, kind: Kind, texts: Iterable[str], size: int) -> Symbols:
        """The `size` most frequent symbols of the texts."""
        return cls(kind, Vocabulary.count((_SPLIT[kind](text.lower()) for text in texts), size))

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        return [self.vocabulary.ids(self._split(text.lower())) for text in texts]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each symbol stands."""
        if self.kind == "characters":
            return [(place, place + 1) for place in range(len(text))]
        return [(start, end) for _, start, end in word_spans(text)]

    def unknown(self, text: str) -> int:
        """How many of the text's symbols the vocabulary lacks."""
        return sum(symbol not in self.vocabulary for symbol in self._split(text.lower()))

    def save(self, path: Path) -> None:
        """Write kind and symbols as JSON."""
        tokens = self.vocabulary.tokens(range(self.size))
        path.write_text(json.dumps({"kind": self.kind, "symbols": tokens}, ensure_ascii=False), encoding="utf-8")


Tokeniser = Pieces | Symbols | Terms


def load_tokeniser(path: Path) -> Tokeniser:
    """Whichever kind was saved there."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as wrong:
        raise BundleError(f"{path} cannot be read: {wrong}; take a fresh copy of the model") from None
    if not text.startswith(_MARK):
        return Pieces.load(path)
    try:
        values: Any = json.loads(text)
        if values["kind"] == "terms":
            return Terms(Vocabulary(values["symbols"]), int(values["extra"]))
        if values["kind"] not in _SPLIT:
            raise ConfigError(f"symbols are {' or '.join(_SPLIT)} or terms, not {values['kind']!r}")
        return Symbols(values["kind"], Vocabulary(values["symbols"]))
    except (KeyError, TypeError, ValueError, ConfigError) as wrong:
        raise BundleError(f"{path} is no list of symbols: {wrong}; take a fresh copy of the model") from None


def train_tokeniser(
    kind: Literal["pieces", "characters", "words", "terms"],
    texts: Iterable[str],
    size: int,
    *,
    alphabet: int,
    most: int,
    extra: int = 0,
) -> Tokeniser:
    """Learn a tokeniser of that kind from at most so many texts."""
    some = islice(texts, most)
    if kind == "terms":
        return Terms.count(some, size, extra=extra)
    if kind == "pieces":
        return Pieces.train(some, size, alphabet=alphabet)
    return Symbols.count(kind, some, size)
