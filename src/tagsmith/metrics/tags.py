"""Ranked hashtags against the author's: F1@k, P@1, R@10, recall of unseen tags, and ROUGE of the best sequence.

Two tags match if their keys do (`tagsmith.text.hashtags.key`). Values are fractions of 1, means over the posts
that have tags; only `unseen_r@10` is a share of tags, all unseen ones of all posts together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tagsmith.errors import DataError
from tagsmith.metrics.texts import Rouge, f_measure, rouge
from tagsmith.text.hashtags import key


@dataclass(frozen=True, slots=True)
class Scored:
    """One post: what was predicted, best first, and what its author wrote."""

    predicted: Sequence[str]
    gold: Sequence[str]
    best: Sequence[str] = ()  # tokens of the best output sequence
    reference: Sequence[str] = ()  # tokens of the gold tags
    seen: Sequence[bool] = ()  # for each gold tag: is it in the training data; empty: not known
    parts: Sequence[str] = ()  # the slices of the test set it belongs to
    returned: Sequence[str] | None = None  # what a user gets, if that is less than all that was predicted
    rank: int | None = None  # the best place of a gold tag among all known ones, where all are ranked


@dataclass(frozen=True, slots=True)
class TagScores:
    """The measures of one post."""

    f1_at_1: float
    f1_at_5: float  # of what was returned
    f1_at_5_full: float  # of the first five, whatever was believed of them
    p_at_1: float
    r_at_10: float
    unseen_found: int  # unseen gold tags among the first ten
    unseen: int  # unseen gold tags


def score_tags(
    predicted: Sequence[str],
    gold: Sequence[str],
    *,
    seen: Sequence[bool] = (),
    returned: Sequence[str] | None = None,
) -> TagScores:
    """The measures of one post's ranked tags against its gold tags."""
    if seen and len(seen) != len(gold):
        raise DataError(
            f"'seen' says for each tag if it is known: {len(gold)} tags need as many values, not {len(seen)}"
        )
    ranked = list(dict.fromkeys(map(key, predicted)))
    wanted = set(map(key, gold))
    unseen = {key(tag) for tag, known in zip(gold, seen, strict=False) if not known}
    first = set(ranked[:10])
    return TagScores(
        f1_at_1=_f1(ranked[:1], wanted),
        f1_at_5=_f1(ranked[:5] if returned is None else list(dict.fromkeys(map(key, returned)))[:5], wanted),
        f1_at_5_full=_f1(ranked[:5], wanted),
        p_at_1=float(ranked[0] in wanted) if ranked else 0.0,
        r_at_10=len(first & wanted) / len(wanted) if wanted else 0.0,
        unseen_found=len(first & unseen),
        unseen=len(unseen),
    )


def summarise(scores: Sequence[TagScores], rouges: Sequence[Rouge] = (), ranks: Sequence[int] = ()) -> dict[str, float]:
    """The means over posts under the names of the contract; of sequences and ranks only where there are any."""
    unseen = sum(score.unseen for score in scores)
    summary: dict[str, float] = {}
    if rouges or not ranks:
        summary["rouge1"] = _mean([each.rouge1 for each in rouges])
        summary["rouge2"] = _mean([each.rouge2 for each in rouges])
        summary["rougeL"] = _mean([each.rougeL for each in rouges])
    summary |= {
        "f1@1": _mean([score.f1_at_1 for score in scores]),
        "f1@5": _mean([score.f1_at_5 for score in scores]),
        "f1@5_full": _mean([score.f1_at_5_full for score in scores]),
        "p@1": _mean([score.p_at_1 for score in scores]),
        "r@10": _mean([score.r_at_10 for score in scores]),
    }
    if ranks:
        summary["mean_rank"] = _mean(ranks)
    if unseen:
        summary["unseen_r@10"] = sum(score.unseen_found for score in scores) / unseen
    return {**summary, "n": len(scores)}


def hashtag_metrics(rows: Iterable[Scored]) -> dict[str, Any]:
    """All measures over the rows that have gold tags, and under "parts" the same for each part where rows name one."""
    every: list[_Measured] = []
    parts: dict[str, list[_Measured]] = {}
    for row in rows:
        if row.gold:
            scores = score_tags(row.predicted, row.gold, seen=row.seen, returned=row.returned)
            every.append(_Measured(scores, rouge(row.best, row.reference) if row.rank is None else None, row.rank))
            for part in row.parts:
                parts.setdefault(part, []).append(every[-1])
    metrics: dict[str, Any] = _summary(every)
    named = {part: _summary(pairs) for part, pairs in parts.items()}
    return {**metrics, "parts": named} if named else metrics


def rouge_tokens(words: Sequence[str], language: Literal["en", "zh"]) -> list[str]:
    """The tags, as words, in one line: its words for English, its characters for Chinese, lower case."""
    line = " ".join(words).lower()
    return line.split() if language == "en" else list("".join(line.split()))


class _Measured(NamedTuple):
    scores: TagScores
    rouge: Rouge | None
    rank: int | None


def _summary(rows: Sequence[_Measured]) -> dict[str, float]:
    return summarise(
        [row.scores for row in rows],
        [row.rouge for row in rows if row.rouge is not None],
        [row.rank for row in rows if row.rank is not None],
    )


def _f1(returned: Sequence[str], wanted: set[str]) -> float:
    return f_measure(len(wanted.intersection(returned)), len(returned), len(wanted))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
