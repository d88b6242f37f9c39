"""A document to its keyphrases.

title, text --terms--> ids --writer: phrase after phrase--> phrases with scores --cut, spell, place--> Tags
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from tagsmith.config import check_positive
from tagsmith.data.batches import pad_ids
from tagsmith.decode import Constraint, Ends, Found, beam, greedy
from tagsmith.pipelines.run import run, stream
from tagsmith.pipelines.tag import DIGITS, Candidate, problem
from tagsmith.records import Document, Post, Span, Tag, Tags
from tagsmith.text.spans import SpanFinder
from tagsmith.text.stems import stems
from tagsmith.text.terms import ABSENT, PRESENT, Coder, Text
from tagsmith.text.vocabulary import END, PAD, SEP

KINDS = (PRESENT, ABSENT)


@dataclass(frozen=True)
class KeyphraseSettings:
    """How a trained model writes; kept in its bundle."""

    language: Literal["en", "zh"] = "en"
    kinds: bool = True  # each phrase is headed by its kind
    beam: int = 1  # 1: the likeliest word each time
    steps: int = 80  # words of all phrases together, at most
    words: int = 6  # of one phrase, at most
    exclude: int = 1  # paper: K of exclusive search; a phrase does not begin like so many before it
    top: int = 20  # phrases returned, at most
    keep: float = 0.0  # phrases scored below this share of the best one are not returned
    source: int = 400  # words read

    def __post_init__(self) -> None:
        check_positive(self, "beam", "steps", "words", "top", "source")


class Ready(NamedTuple):
    """A document made ready for the model."""

    text: Text


class Phrases(NamedTuple):
    """What was written for one document."""

    candidates: list[Candidate]  # distinct by stems, best first
    repeats: list[str]  # what was written again


class KeyphraseTagger:
    """Documents, posts or texts in, `Tags` out: same length, same order."""

    reads = "documents"

    def __init__(self, model: Any, coder: Coder, settings: KeyphraseSettings) -> None:
        self.model = model
        self.coder = coder
        self.settings = settings

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def tag(
        self, documents: Sequence[str | Post | Document], *, top: int | None = None, evidence: bool = False
    ) -> list[Tags]:
        """Keyphrases for each document, present and absent ones in one list, best first."""
        return run(_PhraseRun(self, self._asked(top)), [as_document(one) for one in documents])

    def stream(
        self, documents: Iterable[str | Post | Document], *, top: int | None = None, evidence: bool = False
    ) -> Iterator[tuple[Document, Tags]]:
        """The same for any number of documents, in bounded memory."""
        return stream(_PhraseRun(self, self._asked(top)), map(as_document, documents))

    def rank(self, documents: Sequence[Document]) -> list[Phrases]:
        """What the model wrote, as many as it believes in: for measuring."""
        return run(_RawRun(self, self.settings), documents)

    def _asked(self, top: int | None) -> KeyphraseSettings:
        if top is None or top == self.settings.top:
            return self.settings
        return replace(self.settings, top=top, keep=self.settings.keep if top < self.settings.top else 0.0)

    def answer(self, document: Document, found: Phrases | None, settings: KeyphraseSettings) -> Tags:
        """The phrases worth returning, as they are written in the document, and where they stand in it."""
        if found is None:
            wrong = problem(whole(document)) or "the document has nothing that can be read; give words"
            return Tags(id=document.id, error=wrong)
        in_title, in_text = SpanFinder(document.title), SpanFinder(document.text)
        tags = []
        for one in believed(found.candidates, settings.keep, top=settings.top):
            title_spans, spans = in_title.find(one.words), in_text.find(one.words)
            text = plainest(
                one.words,
                [document.text[start:end] for start, end in spans]
                or [document.title[start:end] for start, end in title_spans],
            )
            kind: Literal["present", "absent"] = "present" if spans or title_spans else "absent"
            score = round(min(one.score, 1.0), DIGITS)
            tags.append(Tag(text, score, kind, spans, title_spans if document.title else None))
        return Tags(tuple(tags), id=document.id)


class _PhraseRun:
    """prepare, forward, finish for one call's settings."""

    def __init__(self, tagger: KeyphraseTagger, settings: KeyphraseSettings) -> None:
        self.tagger = tagger
        self.settings = settings

    def prepare(self, documents: Sequence[Document]) -> list[Ready | None]:
        good = [place for place, one in enumerate(documents) if problem(whole(one)) is None]
        texts = self.tagger.coder.read([whole(documents[place]) for place in good])
        ready: list[Ready | None] = [None] * len(documents)
        for place, text in zip(good, texts, strict=True):
            if text.ids:
                ready[place] = Ready(text._replace(ids=text.ids[: self.settings.source]))
        return ready

    @property
    def batch(self) -> int:
        return 16 if self.tagger.device.type == "cpu" else 256

    def shape(self, ready: Ready) -> int:
        return -(-len(ready.text.ids) // 32)

    @torch.inference_mode()
    def forward(self, ready: Sequence[Ready]) -> list[Phrases]:
        device, model = self.tagger.device, self.tagger.model
        ids, lengths = pad_ids([one.text.ids for one in ready], longest=self.settings.source)
        stepper = model.stepper(ids.to(device), lengths.to(device))
        found = search(stepper, self.settings)
        logs = word_logs(model, stepper.memory, found.tokens[:, 0]) if self.settings.beam == 1 else None
        return [
            self._phrases(one.text, found, place, None if logs is None else logs[place].tolist())
            for place, one in enumerate(ready)
        ]

    def finish(self, documents: Sequence[Document], found: Sequence[Phrases | None]) -> list[Tags]:
        pairs = zip(documents, found, strict=True)
        return [self.tagger.answer(document, one, self.settings) for document, one in pairs]

    def _phrases(self, text: Text, found: Found, place: int, logs: list[float] | None) -> Phrases:
        """The phrases of a document's sequences; a phrase's score is its own probability, or its share of the beam."""
        totals: dict[tuple[str, ...], float] = {}
        names: dict[tuple[str, ...], str] = {}
        repeats = []
        rows = zip(found.tokens[place].tolist(), found.scores[place].tolist(), found.lengths[place].tolist())
        for tokens, score, length in rows:
            if score == -math.inf:
                continue
            for start, end in phrases_in(tokens[:length]):
                name = self.tagger.coder.join(tokens[start:end], text)
                mark = stems(name) or (name,)
                if not name:
                    continue
                if mark in names:
                    repeats.append(name)
                worth = math.exp(score if logs is None else sum(logs[start : end + 1]))
                totals[mark] = totals.get(mark, 0.0) + worth if logs is None else max(totals.get(mark, 0.0), worth)
                names.setdefault(mark, name)
        ranked = sorted(totals, key=lambda mark: -totals[mark])
        return Phrases([Candidate(names[mark], totals[mark]) for mark in ranked], repeats)


class _RawRun(_PhraseRun):
    """The same, cut but without the last stage."""

    def finish(self, documents: Sequence[Document], found: Sequence[Phrases | None]) -> list[Phrases]:  # type: ignore[override]
        settings = self.settings
        return [
            Phrases(believed(one.candidates, settings.keep, top=settings.top), one.repeats) if one else Phrases([], [])
            for one in found
        ]


def search(stepper: Any, settings: KeyphraseSettings) -> Found:
    """Write phrases until the model ends."""
    rules: list[Constraint] = [grammar(settings)] if settings.kinds else []
    if settings.exclude:
        rules.append(exclusive(settings.exclude, kinds=settings.kinds))
    if settings.beam == 1:
        return greedy(stepper, ends=Ends((END,)), steps=settings.steps, constraints=rules)
    return beam(stepper, width=settings.beam, ends=Ends((END,)), steps=settings.steps, constraints=rules)


def grammar(settings: KeyphraseSettings) -> Constraint:
    """A phrase is a kind, one to so many words, [SEP]; the end comes between phrases."""

    def constraint(written: Tensor, scores: Tensor) -> Tensor:
        length = written.shape[2]
        last = written[:, :, -1] if length else written.new_full(written.shape[:2], SEP)
        between, after_kind = last == SEP, is_kind(last)
        inside = written.new_zeros(written.shape[:2])  # words of the phrase so far
        for place in range(max(0, length - settings.words), length):
            word = written[:, :, place]
            stops = (word == SEP) | is_kind(word)
            inside = torch.where(stops, 0, inside + 1)
        scores = scores.clone()
        opening = torch.full_like(scores, -math.inf)
        opening[..., [*KINDS, END]] = scores[..., [*KINDS, END]]
        if not length:
            opening[..., END] = -math.inf  # at least one phrase
        closing = torch.full_like(scores, -math.inf)
        closing[..., SEP] = 0.0
        scores[..., [PAD, END, *KINDS]] = -math.inf
        scores[..., SEP] = scores[..., SEP].masked_fill(after_kind, -math.inf)
        full = (inside >= settings.words)[:, :, None]
        return torch.where(between[:, :, None], opening, torch.where(full, closing, scores))

    return constraint


def exclusive(count: int, *, kinds: bool) -> Constraint:
    """Exclusive search (Chen et al., 2020): a phrase does not begin with the first word of the `count` before it."""

    def constraint(written: Tensor, scores: Tensor) -> Tensor:
        begun = pad(written, (1, 0), value=SEP)[:, :, :-1] if not kinds else pad(written, (1, 0))[:, :, :-1]
        opens = is_kind(begun) if kinds else begun == SEP  # places of first words
        last = written[:, :, -1] if written.shape[2] else written.new_full(written.shape[:2], SEP)
        here = is_kind(last) if kinds else last == SEP
        recent = opens & (opens.flip(2).cumsum(2).flip(2) <= count)
        barred = torch.where(recent & here[:, :, None], written, PAD)
        return scores.scatter(2, barred, -math.inf)

    return constraint


def word_logs(model: Any, memory: Any, tokens: Tensor) -> Tensor:
    """The log-probability of each word that was written.  (batch, length) -> the same"""
    states, weights = model.writer(model.inputs(tokens), memory)
    scores = model.writer.scores(states)
    return model.pointer.pick(scores, states, weights, memory.ids, tokens[:, :, None])[:, :, 0]


def phrases_in(tokens: Sequence[int]) -> Iterator[Span]:
    """Where the words of each phrase stand."""
    start = 0
    for place, token in enumerate([*tokens, SEP]):
        if token in KINDS:
            start = place + 1
        elif token == SEP:
            if place > start:
                yield start, place
            start = place + 1


def is_kind(tokens: Tensor) -> Tensor:
    return (tokens == PRESENT) | (tokens == ABSENT)


def believed(found: Sequence[Candidate], keep: float, *, top: int) -> list[Candidate]:
    """The phrases to return: none far below the best."""
    return [one for one in found[:top] if one.score >= keep * found[0].score]


def plainest(words: str, written: Sequence[str]) -> str:
    """A phrase as the document has it: of its spellings there the one with the fewest capitals."""
    return min(written, key=lambda one: sum(letter.isupper() for letter in one), default=words)


def whole(document: Document) -> str:
    """Title and text as one."""
    return f"{document.title}\n{document.text}" if document.title else document.text


def as_document(given: str | Post | Document) -> Document:
    """A text on its own is a document without a title."""
    if isinstance(given, Document):
        return given
    if isinstance(given, Post):
        return Document(given.text, id=given.id, keyphrases=given.tag_words or given.tags, parts=given.parts)
    return Document(given)
