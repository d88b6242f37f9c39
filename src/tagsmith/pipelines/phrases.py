"""Keyphrases found by a model: written one after the other, or all at once by slots.

texts as ids --reader--> memory --search under rules--> ids of phrases --join, add up--> candidates
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from tagsmith.config import check_positive
from tagsmith.data.batches import pad_ids
from tagsmith.data.trie import Trie
from tagsmith.decode import Constraint, Ends, Found, beam, greedy
from tagsmith.models.slots import Slots, Written
from tagsmith.nn.copying import SourceWords
from tagsmith.nn.reading import Memory
from tagsmith.pipelines.tag import Candidate
from tagsmith.records import Span
from tagsmith.text.stems import stems
from tagsmith.text.terms import ABSENT, PRESENT, Coder, Text
from tagsmith.text.vocabulary import END, PAD, SEP, UNK

KINDS = (PRESENT, ABSENT)
ROWS = (
    1,
    2,
    3,
    4,
    6,
    8,
    10,
    12,
    14,
    16,
)  # documents of a pass, and by how many words they are padded: a new shape costs a CPU time
GRAIN = 32


@dataclass(frozen=True)
class KeyphraseSettings:
    """How a trained model writes; kept in its bundle."""

    language: Literal["en", "zh"] = "en"
    kinds: bool = True  # each phrase is headed by its kind
    beam: int = 1  # 1: the likeliest word each time; slots know no other way
    steps: int = 80  # words of all phrases together, at most
    words: int = 6  # of one phrase, at most
    exclude: int = 1  # paper: K of exclusive search; a phrase does not begin like so many before it
    top: int = 20  # phrases returned, at most
    keep: float = 0.0  # phrases scored below this share of the best one are not returned
    source: int = 400  # words read

    def __post_init__(self) -> None:
        check_positive(self, "beam", "steps", "words", "top", "source")


class Phrases(NamedTuple):
    """What was written for one document."""

    candidates: list[Candidate]  # distinct by stems, best first
    repeats: list[str]  # what was written again


class PhraseFinder(Protocol):
    """The model's part: texts as ids in, phrases out."""

    parallel: bool  # phrases are written side by side, without kinds

    @property
    def device(self) -> torch.device: ...
    def longest(self, settings: KeyphraseSettings) -> int: ...  # ids of a phrase, at most
    def find(
        self, texts: Sequence[Text], settings: KeyphraseSettings, rules: Sequence[Constraint] = ()
    ) -> list[Phrases]: ...


class Phrase(NamedTuple):
    """A phrase of one document as it was written."""

    ids: list[int]
    score: float  # 0..1


class _ModelFinder:
    """A model and how it reads and writes."""

    def __init__(self, model: Any, coder: Coder) -> None:
        self.model = model
        self.coder = coder

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device


class SequenceFinder(_ModelFinder):
    """Phrases written one after the other."""

    parallel = False

    def longest(self, settings: KeyphraseSettings) -> int:
        return settings.words

    def find(
        self, texts: Sequence[Text], settings: KeyphraseSettings, rules: Sequence[Constraint] = ()
    ) -> list[Phrases]:
        """A phrase's score is its own probability, or with a beam its share of it."""
        ids, lengths = pad_ids([text.ids for text in texts], longest=settings.source)
        stepper = self.model.stepper(ids.to(self.device), lengths.to(self.device))
        found = search(stepper, settings, rules)
        logs = word_logs(self.model, stepper.memory, found.tokens[:, 0]).tolist() if settings.beam == 1 else None
        return [
            gather(_split(found, place, None if logs is None else logs[place]), text, self.coder)
            for place, text in enumerate(texts)
        ]


class SlotsFinder(_ModelFinder):
    """Phrases written all at once; a slot that would rather stay empty is asked what it would write, and scored low."""

    parallel = True

    def longest(self, settings: KeyphraseSettings) -> int:
        return self.model.config.words - 1

    def find(
        self, texts: Sequence[Text], settings: KeyphraseSettings, rules: Sequence[Constraint] = ()
    ) -> list[Phrases]:
        """A phrase's score is its probability; slots that agree on one add up as chances do."""
        rows = [text.ids for text in texts]
        rows += rows[:1] * (next((size for size in ROWS if size >= len(rows)), len(rows)) - len(rows))
        width = -(-max(map(len, rows)) // GRAIN) * GRAIN
        ids, lengths = pad_ids(rows, longest=settings.source, width=width)
        memory = self.model.encode(ids.to(self.device), lengths.to(self.device))
        written, logs = write_slots(self.model, memory, rules=rules, keep=max(settings.top + 2, 6))
        found = []
        for own, totals, text in zip(written.tolist(), logs.exp().tolist(), texts, strict=False):
            phrases = [Phrase(row[: row.index(SEP)], score) for row, score in zip(own, totals, strict=True)]
            found.append(gather(phrases, text, self.coder))
        return found


def finder_of(model: Any, coder: Coder) -> SequenceFinder | SlotsFinder:
    """The way in which this model finds phrases."""
    return SlotsFinder(model, coder) if isinstance(model, Slots) else SequenceFinder(model, coder)


def gather(phrases: Sequence[Phrase], text: Text, coder: Coder) -> Phrases:
    """Phrases of equal stems are one, by the chance that any of them is right."""
    missed: dict[tuple[str, ...], float] = {}
    names: dict[tuple[str, ...], str] = {}
    repeats = []
    for ids, score in sorted(phrases, key=lambda one: -one.score):
        name = coder.join(ids, text)
        mark = stems(name) or (name,)
        if not any(letter.isalnum() for letter in name):
            continue
        if mark in names:
            repeats.append(name)
        missed[mark] = missed.get(mark, 1.0) * (1.0 - min(score, 1.0))
        names.setdefault(mark, name)
    ranked = sorted(missed, key=lambda mark: missed[mark])
    return Phrases([Candidate(names[mark], 1.0 - missed[mark]) for mark in ranked], repeats)


def write_slots(
    model: Slots, memory: Memory, *, rules: Sequence[Constraint] = (), keep: int = 0
) -> tuple[Tensor, Tensor]:
    """The likeliest phrases, ended by [SEP] (batch, phrases, words), and their log-probabilities (batch, phrases).

    Each slot begins phrases in its two likeliest ways; the `keep` likeliest beginnings of all slots go on (0: all).
    """
    now, state = model.start(memory)
    words = model.config.words
    nothing = memory.ids.new_zeros((*now.states.shape[:2], 0))
    logs, tokens = _next_words(model, now, memory, state.words, nothing, rules, count=2)
    begun = logs.shape[1] * logs.shape[2]
    total, best = logs.flatten(1).topk(min(keep or begun, begun), dim=1)
    tokens, state = tokens.flatten(1).gather(1, best), state.narrow(best // logs.shape[2])
    written = torch.full((*tokens.shape, words), SEP, device=tokens.device)
    written[:, :, 0] = tokens
    rows = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)  # of `written` that go on
    done = torch.zeros_like(tokens, dtype=torch.bool)
    for place in range(1, words):
        now, state = model.step(tokens, state, memory)
        before = written.gather(1, rows[:, :, None].expand(-1, -1, words))[:, :, :place]
        next_words = _next_words(model, now, memory, state.words, before, rules, count=1)
        logs, tokens = (part[:, :, 0] for part in next_words)
        total = total.scatter_add(1, rows, logs.masked_fill(done, 0.0))
        if place + 1 == words:  # a phrase that does not end by itself is cut
            break
        tokens = tokens.masked_fill(done, SEP)
        written[:, :, place].scatter_(1, rows, tokens)
        done = done | (tokens == SEP)
        left = int((~done).sum(1).max())
        if not left:
            break
        if left <= done.shape[1] // 2:  # halving, so that few shapes occur
            left = done.shape[1] // 2
            first = done.int().argsort(dim=1, stable=True)[:, :left]
            rows, tokens, done = (part.gather(1, first) for part in (rows, tokens, done))
            state = state.narrow(first)
    return written, total


def _next_words(
    model: Slots,
    now: Written,
    memory: Memory,
    words: SourceWords,
    before: Tensor,
    rules: Sequence[Constraint],
    *,
    count: int,
) -> tuple[Tensor, Tensor]:
    """The likeliest next words of each slot: log-probabilities and ids, each (batch, slots, count)."""
    never = [PAD, UNK, END, *KINDS, *([] if before.shape[2] else [SEP])]
    if not rules:
        best = model.best_words(now, memory, keep=count, never=never, words=words)
        return best.logs, best.ids
    scores = model.scores(now.states, now.weights, memory)
    scores[..., never] = -math.inf
    for rule in rules:
        scores = rule(before, scores)
    logs, tokens = scores.topk(count)
    return logs, tokens


def search(stepper: Any, settings: KeyphraseSettings, more: Sequence[Constraint] = ()) -> Found:
    """Write phrases until the model ends."""
    rules: list[Constraint] = [grammar(settings)] if settings.kinds else []
    if settings.exclude and not more:  # a list may have nothing else to begin with
        rules.append(exclusive(settings.exclude, kinds=settings.kinds))
    rules += more
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


def within(trie: Trie, size: int, *, kinds: bool) -> Constraint:
    """Only phrases of a list, whose ids end in [SEP]; what stands between phrases is free."""
    beginnings = torch.zeros(size, dtype=torch.bool)
    beginnings[trie.children(())] = True

    def constraint(written: Tensor, scores: Tensor) -> Tensor:
        begin = beginnings.to(scores.device)
        begin = pad(begin, (0, scores.shape[-1] - len(begin)))
        limited = torch.full_like(scores, -math.inf)
        for row, beams in enumerate(written.tolist()):
            for place, tokens in enumerate(beams):
                own = _phrase_so_far(tokens)
                if kinds and own is None:
                    limited[row, place] = scores[row, place]
                elif not own:
                    limited[row, place] = scores[row, place].masked_fill(~begin, -math.inf)
                else:
                    next_ids = torch.from_numpy(trie.children(tuple(own))).to(scores.device)
                    limited[row, place, next_ids] = scores[row, place, next_ids]
        if not kinds:
            limited[..., END] = scores[..., END]
        return limited

    return constraint


def _phrase_so_far(tokens: list[int]) -> list[int] | None:
    """The words of the phrase being written; None between phrases, where its kind is due."""
    for place in range(len(tokens) - 1, -1, -1):
        if tokens[place] in KINDS:
            return tokens[place + 1 :]
        if tokens[place] == SEP:
            return tokens[place + 1 :] or None
    return tokens or None


def word_logs(model: Any, memory: Any, tokens: Tensor) -> Tensor:
    """The log-probability of each word that was written.  (batch, length) -> the same"""
    states, weights = model.writer(model.inputs(tokens), memory)
    scores = model.writer.scores(states)
    return model.pointer.pick(scores, states, weights, memory.ids, tokens[:, :, None])[:, :, 0]


def _split(found: Found, place: int, logs: list[float] | None) -> list[Phrase]:
    """The phrases of a document's sequences, scored by their own words or as their sequence is."""
    phrases = []
    rows = zip(found.tokens[place].tolist(), found.scores[place].tolist(), found.lengths[place].tolist(), strict=True)
    for tokens, score, length in rows:
        if score == -math.inf:
            continue
        for start, end in phrases_in(tokens[:length]):
            worth = score if logs is None else sum(logs[start : end + 1])
            phrases.append(Phrase(tokens[start:end], math.exp(worth)))
    return phrases


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
