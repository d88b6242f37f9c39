"""Words that stand near each other as a graph, and PageRank on it: what TextRank and SingleRank share.

runs --pairs within a window, counted--> edges --power iteration--> a score for each word

Shapes: edges (2 * pairs,), scores (words,). Time and memory grow with the words times the window.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tagsmith.text.candidates import Run

DAMPING = 0.85  # paper: d
CHANGE = 1e-4  # of any score, below which the scores stand
ROUNDS = 100  # at most

Floats = NDArray[np.float64]


def word_scores(runs: Sequence[Run], *, window: int, weighted: bool) -> dict[str, float]:
    """PageRank of every word; two words are linked if both stand within `window` words, weighted by how often."""
    ids: dict[str, int] = {}
    near: deque[tuple[int, int]] = deque()  # places and words that the next one may still be linked with
    pairs: Counter[tuple[int, int]] = Counter()
    for run in runs:
        for place, word in enumerate(run.words, run.first):
            number = ids.setdefault(word, len(ids))
            while near and place - near[0][0] >= window:
                near.popleft()
            pairs.update((min(number, other), max(number, other)) for _, other in near if other != number)
            near.append((place, number))
    ends = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    weights = np.array(list(pairs.values()), dtype=np.float64) if weighted else np.ones(len(pairs))
    scores = page_rank(ends, weights, len(ids))
    return {word: float(scores[number]) for word, number in ids.items()}


def page_rank(ends: NDArray[np.int64], weights: Floats, words: int) -> Floats:
    """Scores of the words of an undirected graph, as TextRank writes it: they start at 1 and are near 1 on average."""
    source, target = np.concatenate([ends, ends[:, ::-1]]).T
    weights = np.concatenate([weights, weights])
    strength = np.bincount(source, weights, minlength=words)
    share = weights / strength[source]  # of its source's score that goes along an edge
    scores = np.ones(words)
    for _ in range(ROUNDS):
        before = scores
        gained = np.bincount(target, share * before[source], minlength=words)
        scores = np.asarray((1 - DAMPING) + DAMPING * gained, dtype=np.float64)
        if not words or np.abs(scores - before).max() < CHANGE:
            break
    return scores
