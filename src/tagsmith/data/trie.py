"""Many sequences of ids as one tree in a few flat arrays: which ids may follow a beginning.

sequences --sort--> table --where a row differs from the one before--> nodes of each depth, their children side by side
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class Trie:
    """Asked for beginnings, answers with the ids that may come next."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        deepest = max(map(len, sequences), default=0)
        table = np.full((len(sequences), deepest), -1, dtype=np.int32)
        for row, sequence in enumerate(sequences):
            table[row, : len(sequence)] = sequence
        table = np.unique(table, axis=0) if len(table) else table
        self._tokens: list[NDArray[np.int32]] = []  # of the nodes of each depth
        self._first: list[Ids] = []  # where each node's children begin, and where the last one's end
        new = np.zeros(len(table), dtype=bool)
        parents = np.zeros(len(table), dtype=np.int64)
        count = 1
        for depth in range(deepest):
            column = table[:, depth]
            differs = np.ones(len(table), dtype=bool)
            differs[1:] = column[1:] != column[:-1]
            new |= differs
            starts = new & (column >= 0)
            self._tokens.append(column[starts])
            self._first.append(np.searchsorted(parents[starts], np.arange(count + 1)))
            count = int(starts.sum())
            parents = np.cumsum(starts) - 1
        self._first.append(np.zeros(count + 1, dtype=np.int64))
        self.children: Any = lru_cache(maxsize=50_000)(self._children)

    def _children(self, beginning: tuple[int, ...]) -> Ids:
        """The ids that may follow; none if nothing begins so."""
        node = 0
        for depth, token in enumerate(beginning):
            if depth >= len(self._tokens):
                return np.empty(0, dtype=np.int64)
            first, last = self._first[depth][node], self._first[depth][node + 1]
            place = first + int(np.searchsorted(self._tokens[depth][first:last], token))
            if place >= last or self._tokens[depth][place] != token:
                return np.empty(0, dtype=np.int64)
            node = int(place)
        if len(beginning) >= len(self._tokens):
            return np.empty(0, dtype=np.int64)
        first, last = self._first[len(beginning)][node], self._first[len(beginning)][node + 1]
        return self._tokens[len(beginning)][first:last].astype(np.int64)
