"""SingleRank (Wan and Xiao, 2008): TextRank with counted links and a wide window; whole candidate phrases are scored.

    text --runs--> weighted word graph --PageRank--> word scores --sum over each candidate--> phrases

The paper's candidates are adjectives and nouns in a row, found by a tagger; here they are the words between stop words.
"""

from __future__ import annotations

from tagsmith.models.wordgraph import word_scores
from tagsmith.text.candidates import Found, best_of, phrases_of, runs_of

WINDOW = 10  # words


class SingleRank:
    """Ranks the phrases of one text; knows nothing of others."""

    def rank(self, text: str, *, top: int = 10) -> list[tuple[str, float]]:
        """The best phrases; a phrase scores the sum of its words."""
        runs = runs_of(text)
        scores = word_scores(runs, window=WINDOW, weighted=True)
        places = {words: place for place, words in reversed(phrases_of(runs))}
        return best_of(
            (Found(words, place, sum(map(scores.__getitem__, words))) for words, place in places.items()), top
        )
