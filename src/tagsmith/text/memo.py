"""The ids of words met before.

A tokeniser that breaks texts at blanks gives a word the same ids wherever it stands, and most words of a text have been
met: looking them up is several times as fast as splitting them anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

Encode = Callable[[list[str]], list[list[int]]]

MOST = 50_000  # words remembered, about 10 MB
LONGEST = 24  # characters of a word worth remembering

# Texts to split whole: blanks that make a piece of their own or vanish before an ideograph, and the blank's own sign.
_WHOLE = re.compile(r"^$|^ | $|  |▁|[\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


class WordMemo:
    """`encode`, with a memory for words."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._known: dict[str, list[int]] = {}  # only ever grows, so that threads may share it

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        rows = [None if _WHOLE.search(text) else text.split(" ") for text in texts]
        known = self._known
        new = list({word for row in rows if row for word in row if word not in known})
        whole = [text for text, row in zip(texts, rows, strict=True) if row is None]
        encoded = self._encode([*new, *whole])
        fresh = dict(zip(new, encoded, strict=False))
        rest = iter(encoded[len(new) :])
        found = []
        for row in rows:
            if row is None:
                found.append(next(rest))
                continue
            ids: list[int] = []
            for word in row:
                ids += known.get(word) or fresh[word]
            found.append(ids)
        for word in new:
            if len(known) >= MOST:
                break
            if len(word) <= LONGEST and fresh[word]:
                known[word] = fresh[word]
        return found
