"""Noun phrases, guessed: runs of words between stop words and marks, frequent and early ones first.

    text --runs--> candidates --mean count of the words, less the later it stands--> phrases

There is no tagger behind this: a verb that is no stop word makes a wrong phrase. It is the plainest baseline here.
"""

from __future__ import annotations

from collections import Counter

from tagsmith.text.candidates import Found, best_of, phrases_of, runs_of


class NounPhrases:
    """Ranks the phrases of one text; knows nothing of others."""

    def rank(self, text: str, *, top: int = 10) -> list[tuple[str, float]]:
        """The best phrases; a phrase scores how often its words occur on average, half as much at the text's end."""
        runs = runs_of(text)
        phrases = phrases_of(runs)
        counts = Counter(word for run in runs for word in run.words)
        end = 1 + max((place for place, _ in phrases), default=0)
        places = {words: place for place, words in reversed(phrases)}
        return best_of(
            (
                Found(words, place, sum(map(counts.__getitem__, words)) / len(words) * (1 - 0.5 * place / end))
                for words, place in places.items()
            ),
            top,
        )
