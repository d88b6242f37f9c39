"""How good a reader is on rows whose answers are known, and its settings that are chosen by that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from tagsmith.data.targets import marks_of
from tagsmith.metrics.phrases import PhraseScores, ScoredDocument, measure, score_phrases
from tagsmith.metrics.reading import (
    ScoredAnswer,
    ScoredLabel,
    ScoredMarks,
    answer_metrics,
    label_metrics,
    mark_metrics,
    overlap_f1,
)
from tagsmith.pipelines.evaluate import TEMPERATURES
from tagsmith.pipelines.heads import Extractor, Found, Labeller, apart
from tagsmith.pipelines.read import Reader, ReadSettings
from tagsmith.pipelines.run import CHUNK
from tagsmith.pipelines.tag import whole
from tagsmith.records import Document, Labelled, Question

FIELDS = {
    "classify": "'body' (or 'text') and 'label'",
    "answer": "'question', 'context' and 'answers'",
    "extract": "'abstract' (or 'text') and 'keyphrases', or 'tokens' and 'tags'",
}
ALWAYS = -1e9  # a margin below which there is nothing
PHRASES = ("present_f1@5", "present_f1@10", "present_f1@M")  # of distinct keyphrases, best first
KEEPS = [0.02, 0.05, 0.1, 0.2, 0.3, 1.0]
SINGLES = [1.0, 0.7, 0.5, 0.35]


def evaluate_reader(reader: Reader, items: Iterable[Any], *, ranked: bool = True) -> dict[str, Any]:
    """The contract's metrics of the reader's task, over the rows whose answers are known.

    Keyphrases are measured by their places, and, where they are to be `ranked`, as distinct phrases, best first.
    """
    if reader.task == "classify":
        known = set(reader.head.labels) if isinstance(reader.head, Labeller) else set()
        scored = list(scored_labels(reader, items))
        unseen = sum(one.gold not in known for one in scored)
        return {**label_metrics(scored), **({"unseen_labels": unseen} if unseen else {})}
    if reader.task == "answer":
        return answer_metrics(_scored_answers(reader, items))
    phrases: list[PhraseScores] = []
    found = mark_metrics(_scored_marks(reader, items, phrases if ranked else None))
    return {**{name: measure(phrases, name) for name in PHRASES}, **found} if ranked else found


def is_known(item: Any) -> bool:
    """Whether the row tells what the right answer is."""
    if isinstance(item, Labelled):
        return item.label is not None
    if isinstance(item, Question):
        return bool(item.answers) or bool(item.impossible)
    return isinstance(item, Document) and (item.marks is not None or bool(item.keyphrases))


def choose_temperature(reader: Reader, items: Iterable[Labelled]) -> float:
    """The temperature under which the scores of labels say best how often they are right: least surprise."""
    head = reader.head
    assert isinstance(head, Labeller)
    place = {label: number for number, label in enumerate(head.labels)}
    rest = [item for item in items if item.label in place]
    raws = [(raw[0], place[item.label or ""]) for item, (_, raw) in zip(rest, reader.raw(rest), strict=True) if raw]
    if not raws:
        return 1.0
    scores, gold = torch.stack([row for row, _ in raws]).double(), torch.tensor([label for _, label in raws])
    surprise = [float(torch.nn.functional.cross_entropy(scores / one, gold)) for one in TEMPERATURES]
    return TEMPERATURES[surprise.index(min(surprise))]


def choose_margin(reader: Reader, items: Iterable[Question]) -> float:
    """How much better than nothing an answer must be, by F1; always one where every question has an answer.

    Only margins count that leave the share `spare` of the F1 of questions that have an answer.
    """
    rest = [item for item in items if is_known(item)]
    if not any(not item.answers for item in rest):
        return ALWAYS
    best: list[tuple[float, float, bool]] = []  # margin, F1 of the answer, whether there is one
    for item, (_, raws) in zip(rest, reader.raw(rest), strict=True):
        found: list[Found] = sorted((one for row in raws for one in row), key=lambda one: -one.score)
        if found:
            text = item.context[found[0].start : found[0].end]
            right = max((overlap_f1(text, one.text) for one in item.answers), default=0.0)
            best.append((found[0].margin, right, bool(item.answers)))
    found_all = left = sum(right for _, right, _ in best)
    chosen, most, none = ALWAYS, left, 0
    for margin, right, has in sorted(best):
        left, none = left - right, none + (not has)
        if left + none > most and left >= reader.settings.spare * found_all:
            chosen, most = margin, left + none
    return chosen


def choose_ranking(reader: Reader, items: Iterable[Document]) -> ReadSettings:
    """The settings under which F1@5 and F1@10 together are highest: how likely keyphrases must be that are not on the
    best path (`keep`), and how much less those of one word count (`single`).
    """
    rest = [item for item in items if is_known(item)]
    settings = reader.settings
    reader.settings = replace(settings, keep=0.0)
    found = reader.raw(rest)
    reader.settings = settings

    def worth(asked: ReadSettings) -> float:
        scores = [_phrase_scores(reader, item, *one, asked) for item, one in zip(rest, found, strict=True)]
        return sum(measure(scores, name) for name in PHRASES[:2])

    return max((replace(settings, keep=keep, single=single) for single in SINGLES for keep in KEEPS), key=worth)


def _phrase_scores(
    reader: Reader, item: Document, some: Sequence[Any], raws: Sequence[Any], settings: Any
) -> PhraseScores:
    tags = reader.finished(item, some, raws, settings).tags
    return score_phrases(ScoredDocument(whole(item), [tag.text for tag in tags], item.keyphrases))


def scored_labels(reader: Reader, items: Iterable[Labelled]) -> Iterator[ScoredLabel]:
    """What each text got and should have got."""
    for chunk in _chunks(items):
        for item, answer in zip(chunk, reader.classify(chunk, top=1), strict=True):
            yield ScoredLabel(answer.labels[0].label if answer.labels else "", item.label or "", item.parts)


def _scored_answers(reader: Reader, items: Iterable[Question]) -> Iterator[ScoredAnswer]:
    for chunk in _chunks(items):
        for item, answer in zip(chunk, reader.answer(chunk, top=1), strict=True):
            gold = () if item.impossible else tuple(one.text for one in item.answers)
            yield ScoredAnswer(answer.answers[0].text if answer.answers else "", gold, item.parts)


def _scored_marks(
    reader: Reader, items: Iterable[Document], phrases: list[PhraseScores] | None
) -> Iterator[ScoredMarks]:
    head = reader.head
    assert isinstance(head, Extractor)
    for chunk in _chunks(items):
        for item, (some, raws) in zip(chunk, reader.raw(chunk), strict=True):
            if phrases is not None:
                phrases.append(_phrase_scores(reader, item, some, raws, reader.settings))
            found = apart(raws)
            gold = marks_of(item)
            yield ScoredMarks(
                frozenset((one.title, one.start, one.end, head.kinds[one.kind]) for one in found),
                frozenset((one.title, one.start, one.end, one.kind) for one in gold),
                tuple((item.title if one.title else item.text)[one.start : one.end] for one in found),
                item.keyphrases,
                item.parts,
            )


def _chunks(items: Iterable[Any]) -> Iterator[Sequence[Any]]:
    rest = (item for item in items if is_known(item))
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
