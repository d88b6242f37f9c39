"""What the scores of a reader mean: labels of a text, an answer in a passage, keyphrases of a document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
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
from tagsmith.text.stopwords import STOP_WORDS


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


LONGEST = 8  # words of a keyphrase that is not on the best path
LEAST = 0.02  # what is less likely is not looked at
FILL = 10  # keyphrases that are not on the best path are added until there are so many


class Marked(NamedTuple):
    """A keyphrase where it stands."""

    start: int
    end: int
    title: bool
    kind: int
    score: float
    best: bool = True  # it is on the likeliest path of labels


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
        """The spans of each window that begin among its own words: on the best path, and others that are likely."""
        lengths = torch.tensor([len(one.places) for one in some])
        scores, crf = scores.cpu(), model.crf
        crf = crf if crf.move.device.type == "cpu" else _on_cpu(crf)
        paths = crf.best(scores, lengths, allowed=self.allowed)
        chances = SpanChances(crf, scores, lengths)
        others = chances.likely(LEAST) if settings.keep < 1 else [[] for _ in some]
        return [
            list(self._marked(window, path, chances, row, others[row]))
            for row, (window, path) in enumerate(zip(some, paths, strict=True))
        ]

    def _marked(
        self, window: Window, path: list[int], chances: SpanChances, row: int, others: Sequence[Spanned]
    ) -> Iterator[Marked]:
        places = window.places
        best = spans_of(path, [place.title for place in places])
        for spanned in best:
            if window.own[0] <= spanned[0] < window.own[1]:
                yield _placed(places, spanned, chances.of(row, *spanned))
        known = set(best)
        for spanned, score in others:
            start, end, _ = spanned
            inside = window.own[0] <= start < window.own[1] and places[start].title == places[end - 1].title
            if inside and spanned not in known:
                yield _placed(places, spanned, score)._replace(best=False)

    def finish(
        self, item: Document, some: Sequence[Window], raws: Sequence[list[Marked]], settings: ReadSettings
    ) -> Tags:
        likely = [one for row in raws for one in row if not one.best and one.score >= settings.keep]
        groups: dict[tuple[str, ...], list[Marked]] = {}
        for one in [*apart(raws), *likely]:
            text = (item.title if one.title else item.text)[one.start : one.end]
            if one.best or _phrase_like(text):
                groups.setdefault(stems(text) or (text.casefold(),), []).append(one)
        ranked = sorted(groups.items(), key=lambda one: _rank(one[0], one[1], settings.single), reverse=True)
        kept = filled([group for _, group in ranked])[: settings.top or MOST["extract"]]
        tags = [_tag(item, group) for group in kept]
        lowest = accumulate((tag.score for tag in tags), min)  # scores fall with the ranks, which are worth more
        return Tags(tuple(replace(tag, score=score) for tag, score in zip(tags, lowest, strict=True)), id=item.id)

    def failed(self, item: Document, why: str) -> Tags:
        return Tags(id=item.id, error=why)


def _phrase_like(text: str) -> bool:
    """It has a letter, and neither punctuation nor a stop word stands at either end."""
    words = text.lower().split()
    ends_well = text[0].isalnum() and text[-1].isalnum() and STOP_WORDS.isdisjoint((words[0], words[-1]))
    return ends_well and any(map(str.isalpha, text))


def apart(raws: Sequence[list[Marked]]) -> list[Marked]:
    """The spans of all windows' best paths, none inside another."""
    kept: list[Marked] = []
    for one in sorted((one for row in raws for one in row if one.best), key=lambda one: (not one.title, one.start)):
        if not kept or kept[-1].title != one.title or kept[-1].end <= one.start:
            kept.append(one)
    return kept


def filled(ranked: Sequence[list[Marked]]) -> list[list[Marked]]:
    """All keyphrases of the best paths, then others until there are enough, where none stands inside a better one."""
    kept: list[list[Marked]] = []
    for group in ranked:
        if not any(one.best for one in group):
            if len(kept) >= FILL:
                break
            group = [one for one in group if not any(_inside(one, other) for better in kept for other in better)]
        if group:
            kept.append(group)
    return kept


def _inside(one: Marked, other: Marked) -> bool:
    return one.title == other.title and other.start <= one.start and one.end <= other.end


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


Spanned = tuple[tuple[int, int, int], float]  # words from, to before, kind; its chance


class SpanChances:
    """How likely a span is, over all ways to label the rest of its window."""

    def __init__(self, crf: CRF, scores: Tensor, lengths: Tensor) -> None:
        self.scores, self.lengths = scores.double(), lengths
        self.move, self.end = crf.move.double(), crf.end.double()
        self.ahead = crf.forward_logs(self.scores, lengths)
        self.back = crf.backward_logs(self.scores, lengths)
        self.total = (self.ahead[:, -1] + self.end).logsumexp(-1)
        self.sums = self.scores[:, :, 2::2].cumsum(1)  # (batch, length, kinds) of going on, from the first place on
        self.known: dict[int, list[list[list[float]]]] = {}  # chances by the number of words
        kinds = range(self.sums.shape[2])
        self.closed_first = torch.stack([self._closed(1 + 2 * kind, 2 + 2 * kind) for kind in kinds], -1)
        self.closed_later = torch.stack([self._closed(2 + 2 * kind, 2 + 2 * kind) for kind in kinds], -1)

    def of(self, row: int, start: int, end: int, kind: int) -> float:
        """The chance that words `start` to before `end` are a span of this kind, and no longer one."""
        words = end - start
        if words not in self.known:
            self.known[words] = self._chances(words).tolist()
        return self.known[words][row][start][kind]

    def likely(self, least: float) -> list[list[Spanned]]:
        """All spans of each row that are at least so likely and not long."""
        found: list[list[Spanned]] = [[] for _ in self.lengths]
        for words in range(1, min(LONGEST, self.scores.shape[1]) + 1):
            chances = self._chances(words)
            places = chances >= least
            for (row, start, kind), chance in zip(places.nonzero().tolist(), chances[places].tolist(), strict=True):
                found[row].append(((start, start + words, kind), chance))
        return found

    def _closed(self, label: int, inside: int) -> Tensor:
        """All ways to go on behind a span's last word, which has this label.  -> (batch, length)"""
        onward = self.move[label] + self.scores[:, 1:] + self.back[:, 1:]  # (batch, length - 1, labels)
        onward[:, :, inside] = -math.inf
        open_end = torch.cat([onward.logsumexp(-1), onward.new_zeros(len(onward), 1)], dim=1)
        last = torch.arange(open_end.shape[1]) == self.lengths[:, None] - 1
        return torch.where(last, self.end[label], open_end)

    def _chances(self, words: int) -> Tensor:
        """Of the spans of so many words from each place on.  -> (batch, places, kinds)"""
        begin = self.ahead[:, : self.ahead.shape[1] - words + 1, 1::2]
        kinds = range(begin.shape[2])
        log = begin + (self.closed_later if words > 1 else self.closed_first)[:, words - 1 :]
        if words > 1:
            first = torch.stack([self.move[1 + 2 * kind, 2 + 2 * kind] for kind in kinds])
            again = torch.stack([self.move[2 + 2 * kind, 2 + 2 * kind] for kind in kinds])
            log = log + self.sums[:, words - 1 :] - self.sums[:, : begin.shape[1]] + first + (words - 2) * again
        inside = torch.arange(begin.shape[1]) + words <= self.lengths[:, None]
        return torch.where(inside[:, :, None], (log - self.total[:, None, None]).exp().clamp(max=1.0), 0.0)


def _placed(places: Sequence[Place], spanned: tuple[int, int, int], score: float) -> Marked:
    start, end, kind = spanned
    return Marked(places[start].start, places[end - 1].end, places[start].title, kind, score)


def _on_cpu(crf: CRF) -> CRF:
    same = CRF(len(crf.begin))
    same.load_state_dict({name: value.float().cpu() for name, value in crf.state_dict().items()})
    return same.eval()


def _rank(words: tuple[str, ...], group: Sequence[Marked], single: float) -> tuple[bool, float]:
    """Those on the best path first: their chances are too low, and those of the others too high."""
    chance = max(one.score for one in group)
    return any(one.best for one in group), chance * (single if len(words) == 1 else 1.0)


def _tag(document: Document, group: Sequence[Marked]) -> Tag:
    """One keyphrase of all its places, as believed as the best of them."""

    def placed(title: bool) -> tuple[Span, ...]:
        return tuple((one.start, one.end) for one in group if one.title == title)

    written = [(document.title if one.title else document.text)[one.start : one.end] for one in group]
    score = round(max(one.score for one in group), DIGITS)
    title_spans = placed(True) if document.title else None
    return Tag(plainest(written[0], written), score, "present", placed(False), title_spans)
