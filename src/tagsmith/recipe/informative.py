"""Which words of a query matter for a response, and what a query's responses are about: learned by counting.

    pass 1: how many texts have a word (English) --> keywords of a response
    pass 2: query words x response keywords --> how often they meet
    asked:  the query words that meet the response's keywords most, for how often both occur (the order of PMI)

Memory is bounded: words beyond a million and, when there are too many, pairs of words met once are left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tagsmith.records import Pair
from tagsmith.text.keywords import Keywords
from tagsmith.text.stopwords import STOP_WORDS

MOST_WORDS = 1_000_000  # on each side
MOST_PAIRS = 20_000_000  # of words
BUFFER = 4_000_000  # meetings counted at once
MOST = 5  # informative words of a query
UNSEEN = -999.0

Numbers = NDArray[np.int64]


class Relations:
    """How often query words and response keywords occur and meet, by pairs of texts."""

    def __init__(self) -> None:
        self._queries: dict[str, int] = {}
        self._keywords: dict[str, int] = {}
        self._query_times, self._keyword_times = array("q"), array("q")
        self._buffer = array("q")
        self._codes: Numbers = np.zeros(0, dtype=np.int64)
        self._times: Numbers = np.zeros(0, dtype=np.int64)

    @classmethod
    def count(cls, pairs: Iterable[Pair], keywords: Keywords) -> Relations:
        """Over all pairs of a query and one of its responses."""
        found = cls()
        for pair in pairs:
            asked = sorted({word.text for word in keywords.words(pair.query)})
            for response in pair.responses:
                found.add(asked, sorted(set(keywords.keywords(response))))
        found.settle()
        return found

    def add(self, asked: Sequence[str], answered: Sequence[str]) -> None:
        """One pair: the query's words and the response's keywords, each once."""
        queries = _seen(asked, self._queries, self._query_times)
        answers = _seen(answered, self._keywords, self._keyword_times)
        self._buffer.extend(query << 32 | answer for query in queries for answer in answers)
        if len(self._buffer) >= BUFFER:
            self.settle()

    def settle(self) -> None:
        """Count what is in the buffer; called once more at the end."""
        codes, times = np.unique(np.frombuffer(self._buffer, dtype=np.int64), return_counts=True)
        every = np.concatenate([self._codes, codes])
        self._codes, places = np.unique(every, return_inverse=True)
        both = np.concatenate([self._times, times])
        self._times = np.bincount(places, weights=both, minlength=len(self._codes)).astype(np.int64)
        if len(self._codes) > MOST_PAIRS:
            often = self._times > 1
            self._codes, self._times = self._codes[often], self._times[often]
        self._buffer = array("q")

    def relation(self, word: str, keywords: Sequence[str]) -> float:
        """How much a query word has to do with the best of the keywords."""
        query = self._queries.get(word)
        answers = [self._keywords[one] for one in keywords if one in self._keywords]
        if query is None or not answers or not len(self._codes):
            return UNSEEN
        codes = np.asarray([query << 32 | one for one in answers], dtype=np.int64)
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        met = np.where(self._codes[places] == codes, self._times[places], 0)
        often = self._query_times[query] * np.asarray([self._keyword_times[one] for one in answers], dtype=np.float64)
        best = float((met / often).max())
        return best if best > 0 else UNSEEN

    def informative(self, words: Sequence[str], answered: Sequence[str]) -> set[str]:
        """The words of a query that matter for a response, given by its keywords; of equals the first."""
        own = dict.fromkeys(words)
        if len(own) <= MOST:
            return set(own)
        worth = {word: self.relation(word, answered) for word in own}
        return set(sorted(worth, key=lambda word: -worth[word])[:MOST])


def topics_of(answers: Iterable[Sequence[str]], *, language: str) -> list[str]:
    """The keywords of all responses, each once; Chinese ones with a stop character are left out, as in the paper."""
    found = dict.fromkeys(word for answered in answers for word in answered)
    if language != "zh":
        return list(found)
    return [word for word in found if not any(letter in STOP_WORDS for letter in word)]


def chunks(pairs: Iterable[Pair], size: int) -> Iterator[list[Pair]]:
    """Some pairs at a time."""
    rest = iter(pairs)
    while some := list(islice(rest, size)):
        yield some


def _seen(words: Sequence[str], numbers: dict[str, int], times: Any) -> list[int]:
    """The numbers of words, counted once more; new ones get the next number while there is room."""
    found = []
    for word in words:
        number = numbers.get(word)
        if number is None:
            if len(numbers) >= MOST_WORDS:
                continue
            number = numbers[word] = len(numbers)
            times.append(0)
        times[number] += 1
        found.append(number)
    return found
