"""Ranked keyphrases against the author's: F1@k, F1@M, F1@O and recall, apart for phrases in the text and others.

predicted, gold --split, stem, drop duplicates--> phrases --is it in the text?--> present | absent --count--> P, R, F1

The rules are those of ExHiRD (Chen et al., 2020) and its relatives, so that numbers can be compared with theirs:

1. Phrases are split at ';', '/' and marks such as <p_start>; predictions with <unk> are dropped.
2. Words are lower case Porter stems; gold that is already stemmed is not stemmed again.
3. Predictions that are equal after stemming, or variants of one gold phrase, are one prediction, at the first place;
   gold likewise.
4. A phrase is present if its words, or those of one of its variants, stand in the text one after the other, whole
   words; marks between them do not matter. Predictions are sorted by the same test, whatever their model said.
5. P@k divides by k even if fewer were predicted, P@M by the number predicted, P@O by the number of gold phrases
   (padded as P@k is; the code of Yuan et al., 2020, who name this cut, gives it padded and not).
6. A document without gold phrases of a kind counts as zeros there and stays in the mean.
7. `f1` is the harmonic mean of mean P and mean R. The mean of the documents' own F1 stands beside it as `_docmean`.

A word is a run of letters and digits, or one East Asian letter. Hyphens and all other marks separate words
("co-occurrence" is "co occurrence", "2.0" is "2 0"), a possessive 's is dropped ("Fitts's law", "Fitts' law" and
"Fitts 's law" are one), other apostrophes leave no trace ("don't" is "dont"). Values are fractions of 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tagsmith.errors import ConfigError
from tagsmith.text.scripts import EAST_ASIAN
from tagsmith.text.stems import stem
from tagsmith.text.tokenise import LETTERS

Kind = Literal["present", "absent", "all"]
Cut = int | Literal["M", "O"]  # the first k; all that was predicted; as many as there are gold phrases
Floats = NDArray[np.float64]

KINDS: tuple[Kind, ...] = ("present", "absent", "all")
CUTS: tuple[Cut, ...] = (5, 10, "M", "O")
MEASURES = (
    *(f"{kind}_f1@{cut}{end}" for kind in KINDS for cut in CUTS for end in ("", "_docmean")),
    "absent_r@10",
    "absent_r@50",
)
MAIN = ("present_f1@5", "present_f1@10", "present_f1@M", "absent_f1@5", "absent_f1@M")

_BETWEEN = re.compile(r"</?(?:s|sep|eos|peos|eokp|pad|blank|[pa]_start|[pa]_end)>|[;/]")  # what splits phrases
_UNKNOWN = re.compile(r"<unk>|\[unk\]", re.IGNORECASE)
_POSSESSIVE = re.compile("['’]+s\\b(?!['’])")
_WORD = re.compile(f"{LETTERS}(?:['’]{LETTERS})*|[{EAST_ASIAN}]")
_APOSTROPHES = str.maketrans("", "", "'’")
_MEASURE = re.compile(r"(present|absent|all)_(?:(r)|f1)@([1-9]\d*|M|O)(_docmean)?")
_DRAWN_AT_ONCE = 1_000_000  # documents of all rounds together: bounds the memory of an interval


@dataclass(frozen=True, slots=True)
class ScoredDocument:
    """One document: its text, what was predicted, best first, and what its author or readers wrote."""

    text: str  # title and abstract
    predicted: Sequence[str]
    gold: Sequence[str]
    stemmed: bool = False  # gold and variants are stems already, as in the stemmed files of SemEval-2010
    variants: Sequence[Sequence[str]] = ()  # groups of equal spellings: all of a group are one phrase
    parts: Sequence[str] = ()  # the slices of the test set it belongs to


@dataclass(frozen=True, slots=True)
class Ranking:
    """The predictions of one kind for one document, best first: which are right, out of how many gold phrases."""

    right: tuple[bool, ...]
    gold: int


@dataclass(frozen=True, slots=True)
class PhraseScores:
    """What one document adds to every measure."""

    present: Ranking
    absent: Ranking
    all: Ranking
    given: int  # predictions before duplicates were dropped


class Counts(NamedTuple):
    """Right phrases among those looked at; what P divides by; what R divides by."""

    hits: int
    places: int
    gold: int


def score_phrases(document: ScoredDocument) -> PhraseScores:
    """The document's predictions, made comparable and sorted into kinds, each right or wrong."""
    text = f" {_stems(document.text)} "

    def present(phrase: str) -> bool:
        return f" {phrase} " in text  # blanks on both sides: whole words

    read = _words if document.stemmed else _stems
    spelling = _spellings(document.variants, read, present)
    given = [_stems(piece) for piece in _pieces(document.predicted) if not _UNKNOWN.search(piece)]
    given = [spelling.get(phrase, phrase) for phrase in given if phrase]
    wanted = {spelling.get(phrase, phrase) for phrase in map(read, _pieces(document.gold)) if phrase}
    ranked = list(dict.fromkeys(given))
    return PhraseScores(
        present=_rank(filter(present, ranked), set(filter(present, wanted))),
        absent=_rank((phrase for phrase in ranked if not present(phrase)), {w for w in wanted if not present(w)}),
        all=_rank(ranked, wanted),
        given=len(given),
    )


def count(ranking: Ranking, cut: Cut) -> Counts:
    """How many of the first phrases are right: P is hits / places, R is hits / gold, F1 is 2 hits / (places + gold)."""
    if cut == "M":
        places = len(ranking.right)
    elif cut == "O":
        places = ranking.gold
    else:
        places = cut
    return Counts(sum(ranking.right[:places]), places, ranking.gold)


def measure(scores: Sequence[PhraseScores], metric: str) -> float:
    """One measure over the documents, by its name, such as "present_f1@5", "all_f1@M_docmean" or "absent_r@50"."""
    table, form = _table(scores, metric)
    return float(_value(table.mean(axis=0), form)) if scores else 0.0


def interval(
    scores: Sequence[PhraseScores], metric: str, *, rounds: int = 1000, seed: int = 0, level: float = 0.95
) -> tuple[float, float]:
    """Where the measure lies for `level` of as many documents drawn again at random, with replacement: low, high."""
    if rounds < 1 or not 0 < level < 1:
        raise ConfigError(f"an interval needs rounds >= 1 and a level between 0 and 1, not {rounds} and {level}")
    table, form = _table(scores, metric)
    if not scores:
        return 0.0, 0.0
    generator = np.random.default_rng(seed)
    block = max(1, _DRAWN_AT_ONCE // len(table))
    means = [
        table[generator.integers(len(table), size=(min(block, rounds - done), len(table)))].mean(axis=1)
        for done in range(0, rounds, block)
    ]  # each (rounds of the block, 3)
    low, high = np.quantile(_value(np.concatenate(means), form), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def keyphrase_metrics(documents: Iterable[ScoredDocument], *, intervals: bool = False) -> dict[str, Any]:
    """All measures, under "intervals" how sure the main ones are, under "parts" the same for each part named."""
    every: list[PhraseScores] = []
    parts: dict[str, list[PhraseScores]] = {}
    for document in documents:
        every.append(score_phrases(document))
        for part in document.parts:
            parts.setdefault(part, []).append(every[-1])
    metrics = summarise_phrases(every, intervals=intervals)
    named = {part: summarise_phrases(scores, intervals=intervals) for part, scores in parts.items()}
    return {**metrics, "parts": named} if named else metrics


def summarise_phrases(scores: Sequence[PhraseScores], *, intervals: bool = False) -> dict[str, Any]:
    """The measures of the documents; mean numbers of predicted, right and gold phrases; the share of duplicates."""
    given = sum(each.given for each in scores)
    summary: dict[str, Any] = {name: measure(scores, name) for name in MEASURES}
    summary["duplicates"] = 1 - sum(len(each.all.right) for each in scores) / given if given else 0.0
    for prefix, kind in (("", "all"), ("present_", "present"), ("absent_", "absent")):
        rankings: list[Ranking] = [getattr(each, kind) for each in scores]
        summary[f"{prefix}predicted"] = _mean([len(ranking.right) for ranking in rankings])
        summary[f"{prefix}correct"] = _mean([sum(ranking.right) for ranking in rankings])
        summary[f"{prefix}gold"] = _mean([ranking.gold for ranking in rankings])
    summary["n"] = len(scores)
    return {**summary, "intervals": {name: list(interval(scores, name)) for name in MAIN}} if intervals else summary


def _words(text: str) -> str:
    """The words of the text in one line, lower case."""
    plain = text.lower()
    if "'" in plain or "’" in plain:
        plain = _POSSESSIVE.sub(" ", plain)
    return " ".join(_WORD.findall(plain)).translate(_APOSTROPHES)


def _stems(text: str) -> str:
    """The stems of the text's words in one line."""
    # `stem` is Porter's algorithm as published; the papers use NLTK's default, which leaves words of one and two
    # letters alone (so do we), keeps y after a vowel ("key", not "kei"), turns -logi to -log, -bli to -ble, -fulli to
    # -ful and -ally all the way ("technology" = "technological"), and knows a dozen exceptions ("news" is not "new").
    return " ".join(word if len(word) <= 2 else stem(word) for word in _words(text).split())


def _pieces(phrases: Sequence[str]) -> Iterator[str]:
    """Every phrase, those that hold several split."""
    return (piece for phrase in phrases for piece in _BETWEEN.split(phrase))


def _spellings(
    groups: Sequence[Sequence[str]], read: Callable[[str], str], present: Callable[[str], bool]
) -> dict[str, str]:
    """For every spelling of a group the one that stands for it: the first in the text, or else the first."""
    chosen: dict[str, str] = {}
    for group in groups:
        phrases = [phrase for phrase in map(read, group) if phrase]
        best = next(filter(present, phrases), next(iter(phrases), ""))
        chosen.update(dict.fromkeys(phrases, best))
    return chosen


def _rank(ranked: Iterable[str], wanted: set[str]) -> Ranking:
    return Ranking(tuple(phrase in wanted for phrase in ranked), len(wanted))


def _table(scores: Sequence[PhraseScores], metric: str) -> tuple[Floats, str]:
    """P, R and F1 of every document for the kind and cut that the measure names, and its form.  (documents, 3)"""
    named = _MEASURE.fullmatch(metric)
    if named is None or (named[2] and named[4]):
        raise ConfigError(
            f"there is no measure {metric!r}; it is a kind, f1 or r, and a cut, as in 'present_f1@5', 'absent_r@50', "
            "'all_f1@M_docmean'; kinds: present, absent, all; cuts: a number, M, O"
        )
    cut: Cut = "M" if named[3] == "M" else "O" if named[3] == "O" else int(named[3])
    counts = np.array([count(getattr(each, named[1]), cut) for each in scores], dtype=np.float64).reshape(-1, 3)
    hits, places, gold = counts.T
    # Where nothing is divided by, nothing was hit: 0 / 1 is the zero that is wanted.
    columns = [hits / np.maximum(places, 1), hits / np.maximum(gold, 1), 2 * hits / np.maximum(places + gold, 1)]
    return np.stack(columns, axis=1), "recall" if named[2] else "docmean" if named[4] else "harmonic"


def _value(means: Floats, form: str) -> Floats:
    """The measure, from mean P, R and F1.  (..., 3) -> (...)"""
    precision, recall, f1 = np.moveaxis(means, -1, 0)
    if form == "harmonic":
        return 2 * precision * recall / np.maximum(precision + recall, np.finfo(np.float64).tiny)
    return f1 if form == "docmean" else recall


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
