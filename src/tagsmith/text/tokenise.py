"""Posts as lists of characters or words, and back.

"Don't panic，世界 👍🏽" --words--> ["Don't", "panic", "，", "世", "界", "👍🏽"]
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tagsmith.text.scripts import EAST_ASIAN, MARKS, has_east_asian

_LETTER = f"[^\\W_{EAST_ASIAN}]"
LETTERS = f"{_LETTER}+(?:[{MARKS}]+{_LETTER}*)*"  # a run of letters and digits of scripts that put blanks between words
_PICTURE = (
    "[\u2190-\u21ff\u2300-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff][\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]*"
)
_FLAG = "[\U0001f1e6-\U0001f1ff]{2}"
_WORD = re.compile(f"{LETTERS}(?:['’]{LETTERS})*|[{EAST_ASIAN}]|{_FLAG}|{_PICTURE}(?:\u200d{_PICTURE})*|\\S")
_CLOSING = frozenset(".,!?;:)]}%…'\"”’。，！？；：、）】》")
_OPENING = frozenset("([{#@$“‘（【《")


def characters(text: str) -> list[str]:
    """One string for each code point."""
    return list(text)


def words(text: str) -> list[str]:
    """Words of alphabetic scripts whole, ideographs, emoji and punctuation marks one by one."""
    return _WORD.findall(text)


def word_spans(text: str) -> list[tuple[str, int, int]]:
    """The words and their offsets: word, start, end."""
    return [(found.group(), found.start(), found.end()) for found in _WORD.finditer(text)]


class CharacterTokeniser:
    """Text as code points; `join` is the exact inverse of `split`."""

    def split(self, text: str) -> list[str]:
        """The characters of the text."""
        return characters(text)

    def join(self, tokens: Sequence[str]) -> str:
        """The text of the characters."""
        return "".join(tokens)


class WordTokeniser:
    """Text as words; `join` writes them as one would, but forgets the blanks of the text."""

    def split(self, text: str) -> list[str]:
        """The words of the text."""
        return words(text)

    def join(self, tokens: Sequence[str]) -> str:
        """Blanks between words, none between ideographs, before closing marks and after opening ones."""
        pieces: list[str] = []
        for before, token in zip(["", *tokens], tokens, strict=False):
            pieces.append(f" {token}" if before and _apart(before, token) else token)
        return "".join(pieces)


def _apart(before: str, token: str) -> bool:
    if token in _CLOSING or before in _OPENING:
        return False
    return not (has_east_asian(before) or has_east_asian(token))
