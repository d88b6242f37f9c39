"""What the scores of a reader mean: labels of a text, an answer in a passage, keyphrases of a document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from tagsmith.data.windows import Pair, Part, Place, Window, paired
from tagsmith.models.hypernet import Hypernet
from tagsmith.nn.crf import CRF, bio_moves
from tagsmith.pipelines.keyphrase import as_document, plainest
from tagsmith.pipelines.read import MOST, ReadSettings
from tagsmith.pipelines.tag import DIGITS, problem, whole
from tagsmith.records import Answer, Answers, Document, Label, Labelled, Labels, Post, Question, Span, Tag, Tags
from tagsmith.text.stems import stems


class Labeller:
    """One label for each text."""

    reads, words, first_only = "labelled", False, True

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)

    def item(self, given: str | Labelled | Document | Post) -> Labelled:
        if isinstance(given, Document):
            return Labelled(given.text, given.title, given.id, parts=given.parts)
        if isinstance(given, Post):
            return Labelled(given.text, id=given.id, parts=given.parts)
        return given if isinstance(given, Labelled) else Labelled(given)

    def problem(self, item: Labelled) -> str | None:
        return problem(f"{item.title}\n{item.text}")

    def pair(self, item: Labelled, settings: ReadSettings) -> Pair:
        return paired(item.title, item.text, lead=settings.lead)

    def raws(self, model: Hypernet, scores: Tensor, some: Sequence[Window], settings: ReadSettings) -> list[Tensor]:
        """The scores of each text's labels."""
        return list(scores.cpu())

    def finish(self, item: Labelled, some: Sequence[Window], raws: Sequence[Tensor], settings: ReadSettings) -> Labels:
        chances = (raws[0] / settings.temperature).softmax(-1)
        values, places = chances.topk(min(settings.top or MOST["classify"], len(self.labels)))
        pairs = zip(places.tolist(), values.tolist(), strict=True)
        return Labels(tuple(Label(self.labels[place], round(value, DIGITS)) for place, value in pairs), id=item.id)

    def failed(self, item: Labelled, why: str) -> Labels:
        return Labels(id=item.id, error=why)


class Found(NamedTuple):
    """An answer in one window."""

    score: float  # its chance
    margin: float  # how much better it is than no answer
    start: int  # characters
    end: int


class Answerer:
    """A piece of the passage for each question."""

    reads, words, first_only = "questions", False, False

    def item(self, given: Question | Post | str) -> Question:
        if isinstance(given, Question):
            return given
        return Question("", given.text if isinstance(given, Post) else given)  # an error in its place

    def problem(self, item: Question) -> str | None:
        wrong = [(name, problem(text)) for name, text in (("question", item.question), ("passage", item.context))]
        return next((why.replace("the text", f"the {name}") for name, why in wrong if why), None)

    def pair(self, item: Question, settings: ReadSettings) -> Pair:
        return Pair(Part(item.question, title=True), Part(item.context))

    def raws(
        self, model: Hypernet, scores: Tensor, some: Sequence[Window], settings: ReadSettings
    ) -> list[list[Found]]:
        """The best pieces of each window."""
        return [
            list(_spans(row, window.places, settings.longest)) for row, window in zip(scores.cpu(), some, strict=True)
        ]

    def finish(
        self, item: Question, some: Sequence[Window], raws: Sequence[list[Found]], settings: ReadSettings
    ) -> Answers:
        kept: list[Found] = []
        for one in sorted((one for row in raws for one in row), key=lambda one: -one.score):
            apart = all(one.end <= other.start or other.end <= one.start for other in kept)
            if one.margin > settings.margin and apart:
                kept.append(one)
        answers = [
            Answer(item.context[one.start : one.end], round(one.score, DIGITS), one.start, one.end)
            for one in kept[: settings.top or MOST["answer"]]
        ]
        return Answers(tuple(answers), id=item.id)

    def failed(self, item: Question, why: str) -> Answers:
        return Answers(id=item.id, error=why)


def _spans(scores: Tensor, places: Sequence[Place], longest: int, *, best: int = 10) -> Iterator[Found]:
    """The likeliest spans of a window that are no longer than allowed.  scores (1 + body, 2)"""
    logs = scores.log_softmax(0)
    first, last = logs[1 : 1 + len(places)].unbind(-1)
    count = len(places)
    grid = first[:, None] + last[None, :]  # (start, end)
    at = torch.arange(count)
    ahead = at[None, :] - at[:, None]
    grid = grid.masked_fill((ahead < 0) | (ahead >= longest), -math.inf)
    values, flat = grid.flatten().topk(min(best, count * count))
    none = float(logs[0].sum())
    for value, number in zip(values.tolist(), flat.tolist(), strict=True):
        if value > -math.inf:
            start, end = divmod(number, count)
            yield Found(math.exp(value), value - none, places[start].start, places[end].end)


class Marked(NamedTuple):
    """A keyphrase where it stands."""

    start: int
    end: int
    title: bool
    kind: int
    score: float


class Extractor:
    """The keyphrases that stand in each document."""

    reads, words, first_only = "documents", True, False

    def __init__(self, kinds: Sequence[str]) -> None:
        self.kinds = tuple(kinds)
        self.allowed = bio_moves(len(self.kinds))

    def item(self, given: str | Post | Document) -> Document:
        return as_document(given)

    def problem(self, item: Document) -> str | None:
        return problem(whole(item))

    def pair(self, item: Document, settings: ReadSettings) -> Pair:
        return paired(item.title, item.text, lead=settings.lead)

    def raws(
        self, model: Hypernet, scores: Tensor, some: Sequence[Window], settings: ReadSettings
    ) -> list[list[Marked]]:
        """The spans of each window that begin among its own words."""
        lengths = torch.tensor([len(one.places) for one in some])
        scores, crf = scores.cpu(), model.crf
        crf = crf if crf.move.device.type == "cpu" else _on_cpu(crf)
        paths = crf.best(scores, lengths, allowed=self.allowed)
        chances = SpanChances(crf, scores, lengths)
        return [
            list(self._marked(window, path, chances, row))
            for row, (window, path) in enumerate(zip(some, paths, strict=True))
        ]

    def _marked(self, window: Window, path: list[int], chances: SpanChances, row: int) -> Iterator[Marked]:
        places = window.places
        for start, end, kind in spans_of(path, [place.title for place in places]):
            if window.own[0] <= start < window.own[1]:
                score = chances.of(row, start, end, kind)
                yield Marked(places[start].start, places[end - 1].end, places[start].title, kind, score)

    def finish(
        self, item: Document, some: Sequence[Window], raws: Sequence[list[Marked]], settings: ReadSettings
    ) -> Tags:
        groups: dict[tuple[str, ...], list[Marked]] = {}
        for one in apart(raws):
            text = (item.title if one.title else item.text)[one.start : one.end]
            groups.setdefault(stems(text) or (text.casefold(),), []).append(one)
        tags = sorted((_tag(item, group) for group in groups.values()), key=lambda tag: -tag.score)
        return Tags(tuple(tags[: settings.top or MOST["extract"]]), id=item.id)

    def failed(self, item: Document, why: str) -> Tags:
        return Tags(id=item.id, error=why)


def apart(raws: Sequence[list[Marked]]) -> list[Marked]:
    """The spans of all windows, none inside another."""
    kept: list[Marked] = []
    for one in sorted((one for row in raws for one in row), key=lambda one: (not one.title, one.start)):
        if not kept or kept[-1].title != one.title or kept[-1].end <= one.start:
            kept.append(one)
    return kept


def spans_of(path: Sequence[int], titles: Sequence[bool]) -> list[tuple[int, int, int]]:
    """BIO labels (O, B-1, I-1, B-2, ...) as words from, to before, and kind; title and text never share a span."""
    found: list[tuple[int, int, int]] = []
    inside = False
    for place, label in enumerate(path):
        if label == 0:
            inside = False
            continue
        kind = (label - 1) // 2
        goes_on = inside and label % 2 == 0 and found[-1][2] == kind and titles[place] == titles[place - 1]
        if goes_on:
            found[-1] = (found[-1][0], place + 1, kind)
        else:
            found.append((place, place + 1, kind))
        inside = True
    return found


class SpanChances:
    """How likely a span is, over all ways to label the rest of its window."""

    def __init__(self, crf: CRF, scores: Tensor, lengths: Tensor) -> None:
        self.scores, self.lengths = scores.float(), lengths
        self.move, self.end = crf.move.float(), crf.end.float()
        self.ahead, self.back = crf.forward_logs(scores, lengths), crf.backward_logs(scores, lengths)
        self.total = crf.log_partition(scores, lengths)

    def of(self, row: int, start: int, end: int, kind: int) -> float:
        """The chance that words `start` to before `end` are a span of this kind, and no longer one."""
        begin, inside = 1 + 2 * kind, 2 + 2 * kind
        scores = self.scores[row]
        log = self.ahead[row, start, begin]
        label = begin
        for place in range(start + 1, end):
            log = log + self.move[label, inside] + scores[place, inside]
            label = inside
        if end == int(self.lengths[row]):
            log = log + self.end[label]
        else:
            onward = self.move[label] + scores[end] + self.back[row, end]
            onward[inside] = -math.inf
            log = log + onward.logsumexp(0)
        return min(1.0, math.exp(float(log - self.total[row])))


def _on_cpu(crf: CRF) -> CRF:
    same = CRF(len(crf.begin))
    same.load_state_dict({name: value.float().cpu() for name, value in crf.state_dict().items()})
    return same.eval()


def _tag(document: Document, group: Sequence[Marked]) -> Tag:
    """One keyphrase of all its places, as believed as the best of them."""

    def placed(title: bool) -> tuple[Span, ...]:
        return tuple((one.start, one.end) for one in group if one.title == title)

    written = [(document.title if one.title else document.text)[one.start : one.end] for one in group]
    score = round(max(one.score for one in group), DIGITS)
    title_spans = placed(True) if document.title else None
    return Tag(plainest(written[0], written), score, "present", placed(False), title_spans)
