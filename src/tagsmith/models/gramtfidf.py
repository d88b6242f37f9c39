"""TF-IDF of n-grams: what a text says often and others seldom.

texts --n-grams--> in how many texts --log--> rarity;   text --n-grams, counted * rarity--> phrases
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from tagsmith.text.candidates import Found, Words, best_of, grams_of, inner_grams, runs_of

LONGEST = 3  # words of an n-gram
MOST_GRAMS = 1_000_000  # remembered; past that the rarest are forgotten


class GramTfidf:
    """Learns how rare n-grams are from texts alone; keyphrases are not looked at."""

    def __init__(self, texts: Iterable[str], *, most_grams: int = MOST_GRAMS) -> None:
        self.texts = 0
        self.counts: Counter[Words] = Counter()  # in how many texts each n-gram is
        self.forgotten = 1  # an n-gram that is not remembered is taken to be in so many
        for text in texts:
            self.texts += 1
            self.counts.update({words for run in runs_of(text) for _, words in grams_of(run, most=LONGEST)})
            while len(self.counts) > most_grams:
                self.counts = Counter({words: n for words, n in self.counts.items() if n > self.forgotten})
                self.forgotten += 1

    def rank(self, text: str, *, top: int = 10) -> list[tuple[str, float]]:
        """The best n-grams of a text: how often it has them, times their rarity."""
        grams = [gram for run in runs_of(text) for gram in grams_of(run, most=LONGEST)]
        counts = Counter(words for _, words in grams)
        inner = inner_grams(counts)
        places = {words: place for place, words in reversed(grams) if words not in inner}
        return best_of(
            (Found(words, place, counts[words] * self.rarity(words)) for words, place in places.items()), top
        )

    def rarity(self, words: Words) -> float:
        """How seldom an n-gram is: log((1 + texts) / (1 + texts that have it)) + 1."""
        return math.log((1 + self.texts) / (1 + self.counts.get(words, self.forgotten))) + 1
