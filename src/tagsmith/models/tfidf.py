"""Ext.TFIDF (the extraction baseline of Mao et al.): the rarest words of a post, in text order, as one tag.

text --split--> words --count * idf--> the best few --text order--> one tag; single words follow as further tags
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

from tagsmith.text.tokenise import words

Split = Callable[[str], list[str]]


class ExtTfidf:
    """Learns how rare words are from texts alone; tags are not looked at."""

    def __init__(self, texts: Iterable[str], *, size: int = 2, split: Split = words) -> None:
        self.size = size  # words of the tag: 2 for English, 3 for Chinese in the paper
        self.split = split
        counts: Counter[str] = Counter()
        total = 0
        for text in texts:
            counts.update(set(self._words(text)))
            total += 1
        self.rarity = {word: math.log((1 + total) / (1 + count)) + 1 for word, count in counts.items()}
        self.unknown = math.log(1 + total) + 1

    def rank(self, text: str, *, top: int = 10) -> list[tuple[str, float]]:
        """The tag, then single words; scores are shares of the text's whole weight."""
        order = self._words(text)
        weights = {word: count * self.rarity.get(word, self.unknown) for word, count in Counter(order).items()}
        ranked = sorted(weights, key=lambda word: -weights[word])
        if not ranked:
            return []
        chosen = sorted(ranked[: self.size], key=order.index)
        whole = sum(weights.values())
        first = (" ".join(chosen), sum(weights[word] for word in chosen) / whole)
        return [first, *((word, weights[word] / whole) for word in ranked[: top - 1])]

    def _words(self, text: str) -> list[str]:
        return [word for word in self.split(text.lower()) if any(map(str.isalnum, word))]
