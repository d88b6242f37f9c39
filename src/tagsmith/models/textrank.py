"""TextRank (Mihalcea and Tarau, 2004): the words that the text's other words lead to, joined where they stand together.

    text --runs--> word graph --PageRank--> the best third of the words --side by side in the text--> phrases

The paper keeps nouns and adjectives, found by a tagger; here every word counts that is no stop word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from tagsmith.models.wordgraph import word_scores
from tagsmith.text.candidates import Found, Run, Words, best_of, pieces_of, runs_of

WINDOW = 2  # words: neighbours only, the paper's best
SHARE = 3  # paper: T is a third of the words


class TextRank:
    """Ranks the phrases of one text; knows nothing of others."""

    def rank(self, text: str, *, top: int = 10) -> list[tuple[str, float]]:
        """The best phrases; a phrase scores the sum of its words."""
        runs = runs_of(text)
        scores = word_scores(runs, window=WINDOW, weighted=False)
        order = sorted(scores, key=lambda word: -scores[word])  # of equals the first in the text
        chosen = set(order[: -(-len(order) // SHARE)])
        found = {words: (place, sum(map(scores.__getitem__, words))) for place, words in _joined(runs, chosen)}
        return best_of((Found(words, place, score) for words, (place, score) in found.items()), top)


def _joined(runs: Sequence[Run], chosen: set[str]) -> Iterator[tuple[int, Words]]:
    """Chosen words that stand side by side, as one phrase, last first so that its first place is kept."""
    for run in reversed(runs):
        place = run.first
        kept: list[tuple[int, Words]] = []
        for good, group in groupby(run.words, chosen.__contains__):
            words = tuple(group)
            kept += pieces_of(Run(place, words, run.letters)) if good else ()
            place += len(words)
        yield from reversed(kept)
