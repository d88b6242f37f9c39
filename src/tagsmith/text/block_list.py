"""Words and phrases that must not be said: a file, one a line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tagsmith.text.lines import read_list
from tagsmith.text.tokenise import words


class BlockList:
    """Phrases by their words, so that "ass" does not block "class"; ideographs are words of their own."""

    def __init__(self, phrases: Iterable[str]) -> None:
        known = dict.fromkeys(tuple(words(phrase.lower())) for phrase in phrases)
        self.phrases = [phrase for phrase in known if phrase]
        self._known = frozenset(self.phrases)
        self._sizes = sorted({len(phrase) for phrase in self.phrases})

    def __len__(self) -> int:
        return len(self.phrases)

    def blocks(self, text: str) -> bool:
        """Does the text say one of them?"""
        said = tuple(words(text.lower()))
        return any(
            said[start : start + size] in self._known for size in self._sizes for start in range(len(said) - size + 1)
        )


def read_block_list(path: str | Path) -> BlockList:
    """One word or phrase a line, UTF-8; blank lines are skipped."""
    return read_list(path, BlockList, wanted="one word or phrase")
