"""A post to its tags.

text --reading, sub-words--> ids --encoder, selection, beam search--> sequences --split, merge, spell--> Tags
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from tagsmith.bundle import Bundle, load_bundle
from tagsmith.config import check_positive, from_dict
from tagsmith.data.batches import pad_ids
from tagsmith.decode import Ends, Found, beam, greedy
from tagsmith.models.segtrm import SegTrm
from tagsmith.pipelines.run import run, stream
from tagsmith.records import Post, Segment, Tag, Tags
from tagsmith.text.alike import alike
from tagsmith.text.hashtags import hashtag_of, key
from tagsmith.text.normalise import lone_surrogate
from tagsmith.text.pieces import END, SEPARATOR, Pieces
from tagsmith.text.reading import aligned_reading, reading
from tagsmith.text.spans import SpanFinder

MOST_CHARACTERS = 100_000
DIGITS = 4  # of scores; what lies beyond them is the noise of the arithmetic


@dataclass(frozen=True)
class TagSettings:
    """How a trained tagger is used; chosen on dev data, kept in its bundle."""

    language: Literal["en", "zh"] = "en"
    listing: Literal["all", "one"] = "all"  # a sequence lists all tags, or is one tag
    beam: int = 5
    steps: int = 24  # tokens of a sequence, at most
    top: int = 5  # tags returned, at most
    keep: float = 0.0  # tags scored below this share of the best one are not returned
    source: int = 128  # tokens read

    def __post_init__(self) -> None:
        check_positive(self, "beam", "steps", "top", "source")


class Ready(NamedTuple):
    """A post made ready for the model."""

    ids: list[int]
    text: str  # as given


class Candidate(NamedTuple):
    """A tag as the model wrote it."""

    words: str
    score: float


@dataclass(frozen=True)
class Raw:
    """What search found for one post."""

    sequences: list[tuple[str, ...]]  # tags of each sequence, best first
    candidates: list[Candidate]  # every distinct tag, best first
    segments: list[tuple[int, float]] = field(default_factory=list)  # number and weight of the selected


class Tagger:
    """Texts or posts in, `Tags` out: same length, same order."""

    def __init__(
        self, model: SegTrm, pieces: Pieces, settings: TagSettings, *, spellings: Mapping[str, str] | None = None
    ) -> None:
        self.model = model
        self.pieces = pieces
        self.settings = settings
        self.spellings = spellings or {}

    @classmethod
    def load(cls, name: str | Path = "hashtag-en") -> Tagger:
        """A shipped model by name, or any bundle by its folder."""
        return cls.of(load_bundle(name))

    @classmethod
    def of(cls, bundle: Bundle) -> Tagger:
        """The pipeline of a loaded bundle."""
        settings = from_dict(TagSettings, bundle.pipeline)
        return cls(bundle.model, bundle.pieces, settings, spellings=bundle.spellings)  # type: ignore[arg-type]

    def tag(self, posts: Sequence[str | Post], *, top: int | None = None, evidence: bool = False) -> list[Tags]:
        """Tags for each post; `top` is the most to return, `evidence` adds the segments the model selected."""
        return run(_TagRun(self, self._asked(top), evidence), [_post(post) for post in posts])

    def stream(
        self, posts: Iterable[str | Post], *, top: int | None = None, evidence: bool = False
    ) -> Iterator[tuple[Post, Tags]]:
        """The same for any number of posts, in bounded memory."""
        return stream(_TagRun(self, self._asked(top), evidence), map(_post, posts))

    def rank(self, posts: Sequence[Post], *, top: int = 10) -> list[Raw]:
        """What the model wrote, before anything is cut or spelled: for measuring."""
        settings = replace(self.settings, top=top, keep=0.0)
        return run(_RankRun(self, settings, False), posts)

    def _asked(self, top: int | None) -> TagSettings:
        if top is None or top == self.settings.top:
            return self.settings
        # more than it believes in were asked for: give them
        return replace(self.settings, top=top, keep=self.settings.keep if top < self.settings.top else 0.0)


class _TagRun:
    """prepare, forward, finish for one call's settings."""

    def __init__(self, tagger: Tagger, settings: TagSettings, evidence: bool) -> None:
        self.tagger = tagger
        self.settings = settings
        self.evidence = evidence

    def prepare(self, posts: Sequence[Post]) -> list[Ready | None]:
        good = [place for place, post in enumerate(posts) if problem(post.text) is None]
        ids = self.tagger.pieces.ids([reading(posts[place].text) for place in good])
        ready: list[Ready | None] = [None] * len(posts)
        for place, row in zip(good, ids, strict=True):
            if row:
                ready[place] = Ready(row[: self.settings.source], posts[place].text)
        return ready

    @property
    def batch(self) -> int:
        return 64 if self.device.type == "cpu" else 512

    @property
    def device(self) -> torch.device:
        return next(self.tagger.model.parameters()).device

    def shape(self, ready: Ready) -> int:
        return -(-len(ready.ids) // 8)

    @torch.inference_mode()
    def forward(self, ready: Sequence[Ready]) -> list[Raw]:
        model, settings = self.tagger.model, self.settings
        # rows in powers of two: kernels are kept for every shape they meet, so there should be few
        spare = (1 << (len(ready) - 1).bit_length()) - len(ready)
        ids, lengths = pad_ids([one.ids for one in [*ready, *[ready[-1]] * spare]], longest=settings.source)
        stepper = model.stepper(ids.to(self.device), lengths.to(self.device))
        ends = Ends((END,)) if settings.listing == "all" else Ends((END, SEPARATOR), self.tagger.pieces.first_name)
        width = max(settings.beam, settings.top if settings.listing == "one" else 1)
        if width == 1:
            found = greedy(stepper, ends=ends, steps=settings.steps)
        else:
            found = beam(stepper, width=width, ends=ends, steps=settings.steps, share=settings.keep)
        raws = read_found(found, self.tagger.pieces)[: len(ready)]
        if self.evidence:
            weights, chosen = (part[: len(ready)].tolist() for part in (stepper.memory.weights, stepper.memory.chosen))
            for raw, weight, picked in zip(raws, weights, chosen, strict=True):
                raw.segments.extend((place, weight[place]) for place, taken in enumerate(picked) if taken)
        return raws

    def finish(self, posts: Sequence[Post], raws: Sequence[Raw | None]) -> list[Tags]:
        return [self._answer(post, raw) for post, raw in zip(posts, raws, strict=True)]

    def _answer(self, post: Post, raw: Raw | None) -> Tags:
        if raw is None:
            return Tags(id=post.id, error=problem(post.text) or "the text has nothing that can be read; give words")
        finder = SpanFinder(post.text)
        kept = believed(raw, self.settings.keep, top=self.settings.top)
        tags = tuple(self._tag(one, finder) for one in kept)
        return Tags(tags, id=post.id, segments=self._segments(post, raw) if self.evidence else None)

    def _tag(self, candidate: Candidate, finder: SpanFinder) -> Tag:
        spans = finder.find(candidate.words)
        text = self.tagger.spellings.get(key(candidate.words)) or hashtag_of(candidate.words)
        score = round(min(candidate.score, 1.0), DIGITS)
        return Tag(text, score, "present" if spans else "absent", spans)

    def _segments(self, post: Post, raw: Raw) -> tuple[Segment, ...]:
        """The selected segments as places in the given text."""
        text, origins = aligned_reading(post.text)
        spans = self.tagger.pieces.spans(text)[: self.settings.source]
        size = self.tagger.model.config.segment_size
        found = []
        for number, weight in raw.segments:
            own = spans[number * size : (number + 1) * size]
            start, end = own[0][0], own[-1][1]
            start += len(text[start:end]) - len(text[start:end].lstrip())  # a piece holds the blank before it
            # a word that was spelled out or named stands as a whole in the given text: all of it, not a part
            after = next((place for place in origins[end:] if place > origins[end - 1]), origins[-1])
            found.append(Segment(origins[start], after, round(weight, DIGITS)))
        return tuple(found)


class _RankRun(_TagRun):
    """The same, without the last stage."""

    def finish(self, posts: Sequence[Post], raws: Sequence[Raw | None]) -> list[Raw]:  # type: ignore[override]
        return [raw or Raw([], []) for raw in raws]


def problem(text: str) -> str | None:
    """Why a text cannot be tagged, or None."""
    if not text.strip():
        return "the text is empty; give at least one word"
    if len(text) > MOST_CHARACTERS:
        return f"the text has {len(text):,} characters, the most is {MOST_CHARACTERS:,}; tag it in parts"
    place = lone_surrogate(text)
    if place is not None:
        return f"the text has a lone surrogate (\\u{ord(text[place]):04x}) at {place}; decode it as UTF-16 pairs first"
    return None


def believed(raw: Raw, keep: float, *, top: int) -> list[Candidate]:
    """The tags to return: none far below the best, none that only says another one again."""
    kept: list[Candidate] = []
    for one in raw.candidates:
        if len(kept) == top or one.score < keep * raw.candidates[0].score:
            break
        if not any(alike(one.words, other.words) for other in kept):
            kept.append(one)
    return kept


def read_found(found: Found, pieces: Pieces) -> list[Raw]:
    """Sequences of ids as tags; a tag's score is the share of probability of the sequences that hold it."""
    rows = zip(found.tokens.tolist(), found.scores.tolist(), found.lengths.tolist(), strict=True)
    return [_raw(tokens, scores, lengths, pieces) for tokens, scores, lengths in rows]


def _raw(tokens: list[list[int]], scores: list[float], lengths: list[int], pieces: Pieces) -> Raw:
    sequences, totals, words = [], dict[str, float](), dict[str, str]()
    for ids, score, length in zip(tokens, scores, lengths, strict=True):
        if score == -math.inf:
            continue
        tags = tuple(dict.fromkeys(name for part in _split(ids[:length]) if (name := pieces.join(part))))
        sequences.append(tags)
        for name in tags:
            mark = key(name)
            words.setdefault(mark, name)
            totals[mark] = totals.get(mark, 0.0) + math.exp(score)
    ranked = sorted(totals, key=lambda mark: -totals[mark])
    return Raw(sequences, [Candidate(words[mark], totals[mark]) for mark in ranked])


def _split(ids: list[int]) -> Iterator[list[int]]:
    start = 0
    for place, token in enumerate([*ids, SEPARATOR]):
        if token == SEPARATOR:
            yield ids[start:place]
            start = place + 1


def _post(given: str | Post) -> Post:
    return given if isinstance(given, Post) else Post(given)
