"""How good labels, answers and marked keyphrases are; all values are fractions of 1.

Answers are compared as SQuAD does: in lower case, without punctuation and articles; a Chinese character is a word.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from tagsmith.metrics.texts import f_measure
from tagsmith.text.scripts import EAST_ASIAN, has_east_asian
from tagsmith.text.stems import stems

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_IDEOGRAPH = re.compile(f"([{EAST_ASIAN}])")
_PUNCTUATION = str.maketrans("", "", string.punctuation)

Scored = TypeVar("Scored", "ScoredLabel", "ScoredAnswer", "ScoredMarks")


class ScoredLabel(NamedTuple):
    """The label a text got and the one it should have."""

    given: str  # "": none
    gold: str
    parts: tuple[str, ...] = ()


class ScoredAnswer(NamedTuple):
    """The answer to a question and those that are right; none: it cannot be answered."""

    given: str  # "": none
    gold: tuple[str, ...]
    parts: tuple[str, ...] = ()


Mark = tuple[bool, int, int, str]  # in the title, start, end, kind


class ScoredMarks(NamedTuple):
    """Where keyphrases were found and where they stand; and both as phrases."""

    given: frozenset[Mark]
    gold: frozenset[Mark]
    given_phrases: tuple[str, ...] = ()
    gold_phrases: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


def label_metrics(scored: Iterable[ScoredLabel]) -> dict[str, Any]:
    """`accuracy`, and `macro_f1`: the mean F1 of all labels that were given or should have been."""
    return _by_part(list(scored), _label_scores)


def answer_metrics(scored: Iterable[ScoredAnswer]) -> dict[str, Any]:
    """`em` and `f1`, the best over a question's right answers; also apart for questions with and without one."""
    return _by_part(list(scored), _answer_scores)


def mark_metrics(scored: Iterable[ScoredMarks]) -> dict[str, Any]:
    """`span_f1` of exact spans and `stem_f1` of distinct phrases by stems, both over all documents together.

    Where there are several kinds, `span_f1_typed` also asks for the right kind.
    """
    return _by_part(list(scored), _mark_scores)


def per_label(scored: Sequence[ScoredLabel]) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and number of texts of every label."""
    hits = Counter(one.gold for one in scored if one.given == one.gold)
    given, gold = Counter(one.given for one in scored if one.given), Counter(one.gold for one in scored)
    return {
        label: {
            "precision": hits[label] / max(given[label], 1),
            "recall": hits[label] / max(gold[label], 1),
            "f1": f_measure(hits[label], given[label], gold[label]),
            "n": gold[label],
        }
        for label in sorted({*given, *gold})
    }


def exact_match(given: str, gold: str) -> bool:
    """The same words."""
    return normal(given) == normal(gold)


def overlap_f1(given: str, gold: str) -> float:
    """F1 of the words they share; nothing equals nothing alone."""
    said, wanted = _tokens(given), _tokens(gold)
    if not said or not wanted:
        return float(said == wanted)
    return f_measure((Counter(said) & Counter(wanted)).total(), len(said), len(wanted))


def normal(text: str) -> str:
    """The text as answers are compared."""
    lower = text.lower().translate(_PUNCTUATION)
    if has_east_asian(lower):
        lower = "".join(letter for letter in lower if not unicodedata.category(letter).startswith("P"))
    return " ".join(_ARTICLES.sub(" ", lower).split())


def _tokens(text: str) -> list[str]:
    return _IDEOGRAPH.sub(r" \1 ", normal(text)).split()


def _label_scores(scored: Sequence[ScoredLabel]) -> dict[str, float]:
    every = per_label(scored)
    right = sum(one.given == one.gold for one in scored)
    return {
        "accuracy": right / max(len(scored), 1),
        "macro_f1": _mean([one["f1"] for one in every.values()]),
        "n": len(scored),
    }


def _answer_scores(scored: Sequence[ScoredAnswer]) -> dict[str, float]:
    exact = [max(float(exact_match(one.given, gold)) for gold in one.gold or ("",)) for one in scored]
    shared = [max(overlap_f1(one.given, gold) for gold in one.gold or ("",)) for one in scored]
    found = {"em": _mean(exact), "f1": _mean(shared)}
    answerable = [place for place, one in enumerate(scored) if one.gold]
    if 0 < len(answerable) < len(scored):
        found["em_answerable"] = _mean([exact[place] for place in answerable])
        found["f1_answerable"] = _mean([shared[place] for place in answerable])
        found["no_answer_accuracy"] = _mean([exact[place] for place, one in enumerate(scored) if not one.gold])
    return {**found, "n": len(scored)}


def _mark_scores(scored: Sequence[ScoredMarks]) -> dict[str, float]:
    untyped = [({one[:3] for one in row.given}, {one[:3] for one in row.gold}) for row in scored]
    hits, given, gold = _counts(untyped)
    phrases = [(_stem_set(row.given_phrases), _stem_set(row.gold_phrases)) for row in scored]
    found = {
        "span_f1": f_measure(hits, given, gold),
        "span_p": hits / max(given, 1),
        "span_r": hits / max(gold, 1),
        "stem_f1": f_measure(*_counts(phrases)),
    }
    if len({one[3] for row in scored for one in row.gold}) > 1:
        found["span_f1_typed"] = f_measure(*_counts([(set(row.given), set(row.gold)) for row in scored]))
    return {**found, "n": len(scored)}


def _counts(pairs: Sequence[tuple[set[Any], set[Any]]]) -> tuple[int, int, int]:
    """Hits, given, gold of all documents."""
    hits = sum(len(given & gold) for given, gold in pairs)
    return hits, sum(len(given) for given, _ in pairs), sum(len(gold) for _, gold in pairs)


def _stem_set(phrases: Sequence[str]) -> set[tuple[str, ...]]:
    return {stems(phrase) or (phrase.lower(),) for phrase in phrases}


def _by_part(scored: list[Scored], measure: Callable[[Sequence[Scored]], dict[str, float]]) -> dict[str, Any]:
    """The measures of all rows, and of each part where rows name some."""
    found: dict[str, Any] = measure(scored)
    parts = list(dict.fromkeys(part for one in scored for part in one.parts))
    if parts:
        found["parts"] = {part: measure([one for one in scored if part in one.parts]) for part in parts}
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
