"""Content words, keywords and topical words of short texts.

| | Chinese (`jieba`, the extra `zh`) | English |
|---|---|---|
| content words | jieba's words | words of letters |
| keywords | jieba's TF-IDF, at most five | TF-IDF over the training texts, at most five |
| topical words | jieba's keywords that are nouns, verbs or places | stems of all content words |

Stop words are never among them, nor are words of talk ("yeah", "okay") that are about nothing.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from tagsmith.errors import ConfigError
from tagsmith.text.stems import stem
from tagsmith.text.stopwords import STOP_WORDS

MOST = 5  # keywords of one text
MOST_WORDS = 1_000_000  # counted at once; beyond, the rarest are dropped
TOPICAL = ("n", "ns", "vn", "v", "f")  # parts of speech

_LETTERS = re.compile(r"(?<![^\W_])[^\W\d_]{2,}(?:'[^\W\d_]+)*")
_TALK = """
actually ah alright anyway aw awesome bye cool dont definitely exactly fine glad guess haha hahaha hear hello hey hi
hmm hope im isnt ive kind lol lot mean nah nice ok okay pretty probably right sorry sounds stuff sure talk thank
thanks thats think thought totally true u wow ya yea yeah yep yup
"""
TALK = frozenset(_TALK.split())


class Word(NamedTuple):
    """A content word, lower case, and where it stands."""

    text: str
    start: int
    end: int


class Keywords(Protocol):
    """What a language knows of its words."""

    def words(self, text: str) -> list[Word]: ...  # content words, in order
    def keywords(self, text: str) -> list[str]: ...  # the few that tell most, best first
    def topical(self, text: str) -> frozenset[str]: ...  # what a text is about, for measuring


def keywords_of(language: str, texts: Iterable[str] = ()) -> Keywords:
    """The keywords of a language; the English ones are weighed by how many of `texts` have them."""
    return ChineseKeywords() if language == "zh" else EnglishKeywords(*count_words(texts))


class EnglishKeywords:
    """Content words by TF-IDF; without counts all words weigh the same."""

    def __init__(self, frequency: Mapping[str, int] | None = None, texts: int = 0) -> None:
        self.frequency = frequency or {}
        self.texts = texts

    def words(self, text: str) -> list[Word]:
        """Words of letters that are no stop words."""
        found = _LETTERS.finditer(text.replace("’", "'"))
        return [Word(word, *one.span()) for one in found if _tells(word := one.group().lower())]

    def keywords(self, text: str) -> list[str]:
        """The five of most weight; of equals the alphabetical first."""
        times = Counter(word.text for word in self.words(text))
        weight = {word: many * self._rarity(word) for word, many in times.items()}
        return heapq.nsmallest(MOST, weight, key=lambda word: (-weight[word], word))

    def topical(self, text: str) -> frozenset[str]:
        """Stems of content words."""
        return frozenset(stem(word.text.removesuffix("'s")) for word in self.words(text))

    def _rarity(self, word: str) -> float:
        return math.log((1 + self.texts) / (1 + self.frequency.get(word, 0))) + 1.0


class ChineseKeywords:
    """jieba's words and keywords."""

    def __init__(self) -> None:
        self._jieba = _jieba()

    def words(self, text: str) -> list[Word]:
        """jieba's words that are no stop words."""
        found = self._jieba.tokenize(text.lower())
        return [Word(word, start, end) for word, start, end in found if _tells_chinese(word)]

    def keywords(self, text: str) -> list[str]:
        """jieba's five best by TF-IDF."""
        found = self._jieba.analyse.extract_tags(text.lower(), topK=MOST)
        return [word for word in found if _tells_chinese(word)]

    def topical(self, text: str) -> frozenset[str]:
        """jieba's keywords that are nouns, verbs or places."""
        found = self._jieba.analyse.extract_tags(text.lower(), topK=20, allowPOS=TOPICAL)
        return frozenset(word for word in found if _tells_chinese(word))


def count_words(texts: Iterable[str]) -> tuple[dict[str, int], int]:
    """In how many texts each English content word stands, and how many texts there are; in bounded memory."""
    split = EnglishKeywords().words
    times: Counter[str] = Counter()
    number = 0
    for text in texts:
        number += 1
        times.update({word.text for word in split(text)})
        if len(times) > MOST_WORDS:
            times = Counter({word: many for word, many in times.items() if many > 1})
    return dict(times), number


def has_jieba() -> bool:
    """Can Chinese words be told apart here?"""
    try:
        _jieba()
    except ConfigError:
        return False
    return True


@lru_cache(maxsize=1)
def _jieba() -> Any:
    """The library, quiet; it is an extra because only training and measuring need it."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its sources and its use of pkg_resources warn
            import jieba  # type: ignore[import-not-found,import-untyped,unused-ignore]
            import jieba.analyse  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise ConfigError(
            "Chinese keywords need jieba, which is not installed; install it with `pip install 'tagsmith[zh]'`"
        ) from None
    jieba.setLogLevel(60)
    return jieba


@lru_cache(maxsize=100_000)
def _tells(word: str) -> bool:
    plain = word.replace("'", "")
    return word not in STOP_WORDS and plain not in STOP_WORDS and plain not in TALK


def _tells_chinese(word: str) -> bool:
    return word[:1].isalpha() and word not in STOP_WORDS
