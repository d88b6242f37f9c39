"""ROUGE: how much of a reference sequence a candidate sequence says again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rouge:
    """F measures, 0..1: single tokens, pairs of tokens, the longest common subsequence."""

    rouge1: float
    rouge2: float
    rougeL: float  # noqa: N815 - the metric's name


def rouge(candidate: Sequence[str], reference: Sequence[str]) -> Rouge:
    """The three measures of one candidate against one reference."""
    common = _longest_common(candidate, reference)
    return Rouge(
        rouge1=_overlap(candidate, reference, size=1),
        rouge2=_overlap(candidate, reference, size=2),
        rougeL=f_measure(common, len(candidate), len(reference)),
    )


def f_measure(hits: float, given: int, wanted: int) -> float:
    """The harmonic mean of hits / given and hits / wanted; 0 without a hit."""
    return 2 * hits / (given + wanted) if hits else 0.0


def _overlap(candidate: Sequence[str], reference: Sequence[str], *, size: int) -> float:
    said, wanted = _grams(candidate, size), _grams(reference, size)
    return f_measure((said & wanted).total(), said.total(), wanted.total())


def _grams(tokens: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1))


def _longest_common(left: Sequence[str], right: Sequence[str]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(right) + 1)
    for token in left:
        corner = 0  # the length without this token and without the right one
        for place, other in enumerate(right, start=1):
            above = row[place]
            row[place] = corner + 1 if token == other else max(above, row[place - 1])
            corner = above
    return row[-1]
