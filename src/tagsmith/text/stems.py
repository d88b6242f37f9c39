"""Porter stems: what "running", "runs" and "run" share."""

from __future__ import annotations

import re
from functools import lru_cache

import snowballstemmer

_porter = snowballstemmer.stemmer("porter")
_WORD = re.compile(r"[^\W_]+")
_APOSTROPHES = str.maketrans("", "", "'’")


@lru_cache(maxsize=10_000)
def stem(word: str) -> str:
    """The Porter stem of one word, lower case."""
    return _porter.stemWord(word.lower())


def stems(phrase: str) -> tuple[str, ...]:
    """The stems of the phrase's words; hyphens split words, apostrophes do not ("women's" is "womens")."""
    return tuple(stem(word) for word in _WORD.findall(phrase.translate(_APOSTROPHES)))
