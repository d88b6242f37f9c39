"""A post to its tags.

text --reading, tokeniser--> ids --finder: writes tags, or ranks known ones--> candidates --cut, spell, place--> Tags
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from typing import Any, NamedTuple, Protocol

import torch

from tagsmith.pipelines.run import run, stream
from tagsmith.records import Document, Post, Segment, Tag, Tags
from tagsmith.text.alike import alike
from tagsmith.text.hashtags import hashtag_of, key
from tagsmith.text.normalise import lone_surrogate
from tagsmith.text.reading import aligned_reading, reading
from tagsmith.text.spans import SpanFinder

MOST_CHARACTERS = 200_000  # a paper of 20,000 words and more
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # of a forward pass that is not full
MANY_ROWS = (8, 16, 24, 32, 48, 64, 96, 128, 256)  # the same where there are more posts than fit one pass
GRAIN = 8  # tokens by which texts are padded
DIGITS = 4  # of scores; what lies beyond them is the noise of the arithmetic


class Ready(NamedTuple):
    """A post made ready for the model."""

    ids: list[int]
    text: str  # as given


class Candidate(NamedTuple):
    """A tag as it was found."""

    words: str
    score: float


class Read(NamedTuple):
    """A run of tokens that the model selected to read."""

    start: int
    end: int
    weight: float


@dataclass(frozen=True)
class Raw:
    """What was found for one post."""

    sequences: list[tuple[str, ...]]  # tags of each sequence that was written, best first
    candidates: list[Candidate]  # every distinct tag, best first
    read: list[Read] = field(default_factory=list)


class Tokenises(Protocol):
    """What a tagger asks of its tokeniser."""

    def ids(self, texts: Sequence[str]) -> list[list[int]]: ...
    def spans(self, text: str) -> list[tuple[int, int]]: ...


class Settings(Protocol):
    """What every kind of tagger lets one set; the settings are a frozen dataclass."""

    @property
    def language(self) -> str: ...
    @property
    def top(self) -> int: ...  # tags returned, at most
    @property
    def keep(self) -> float: ...  # tags scored below this share of the best one are not returned
    @property
    def least(self) -> float: ...  # nor are those scored below this, but for the best one
    @property
    def source(self) -> int: ...  # tokens read


class Finder(Protocol):
    """The model's part: token ids in, candidates out."""

    @property
    def device(self) -> torch.device: ...
    @property
    def batch(self) -> int: ...  # texts of a pass on a CPU
    def find(self, ids: Sequence[list[int]], settings: Any, *, evidence: bool, width: int = 0) -> list[Raw]: ...


class Tagger:
    """Texts or posts in, `Tags` out: same length, same order."""

    def __init__(
        self,
        finder: Finder,
        tokeniser: Tokenises,
        settings: Any,  # Settings; `dataclasses.replace` wants to be told nothing
        *,
        spellings: Mapping[str, str] | None = None,
    ) -> None:
        self.finder = finder
        self.tokeniser = tokeniser
        self.settings = settings
        self.spellings = spellings or {}

    @property
    def weight(self) -> float:
        """How much it counts beside other voices."""
        return getattr(self.finder, "weight", 1.0)

    def tag(
        self, posts: Sequence[str | Post | Document], *, top: int | None = None, evidence: bool = False
    ) -> list[Tags]:
        """Tags for each post; `top` is the most to return, `evidence` adds the segments the model selected."""
        return run(self.stages(top=top, evidence=evidence), [as_post(post) for post in posts])

    def stream(
        self, posts: Iterable[str | Post | Document], *, top: int | None = None, evidence: bool = False
    ) -> Iterator[tuple[Post, Tags]]:
        """The same for any number of posts, in bounded memory."""
        return stream(self.stages(top=top, evidence=evidence), map(as_post, posts))

    def stages(self, *, top: int | None = None, evidence: bool = False, grain: int = GRAIN) -> _TagRun:
        """The three stages of `tag`, for those who run them by themselves.

        Texts are padded to a multiple of `grain` tokens: a coarse one lets more of a few texts share a pass.
        """
        return _TagRun(self, self.asked(top), evidence, grain)

    def rank(self, posts: Sequence[Post], *, top: int = 10, evidence: bool = False) -> list[Raw]:
        """What the model found, before anything is cut or spelled: for measuring and merging."""
        return run(_RawRun(self, replace(self.settings, top=top, keep=0.0, least=0.0), evidence), posts)

    def asked(self, top: int | None) -> Any:
        if top is None or top == self.settings.top:
            return self.settings
        if top < self.settings.top:
            return replace(self.settings, top=top)
        # more than it believes in were asked for: give them
        return replace(self.settings, top=top, keep=0.0, least=0.0)

    def answer(self, post: Post, raw: Raw | None, settings: Settings, *, evidence: bool = False) -> Tags:
        """The tags worth returning, as they are usually written and where they stand in the post."""
        if raw is None:
            return Tags(id=post.id, error=problem(post.text) or "the text has nothing that can be read; give words")
        finder = SpanFinder(post.text)
        kept = believed(raw, settings.keep, top=settings.top, least=settings.least)
        tags = tuple(self._tag(one, finder) for one in kept)
        return Tags(tags, id=post.id, segments=self._segments(post, raw, settings) if evidence else None)

    def _tag(self, candidate: Candidate, finder: SpanFinder) -> Tag:
        spans = finder.find(candidate.words)
        text = self.spellings.get(key(candidate.words)) or hashtag_of(candidate.words)
        score = round(min(candidate.score, 1.0), DIGITS)
        return Tag(text, score, "present" if spans else "absent", spans)

    def _segments(self, post: Post, raw: Raw, settings: Settings) -> tuple[Segment, ...]:
        """What the model selected to read, as places in the given text."""
        if not raw.read:
            return ()
        text, origins = aligned_reading(post.text)
        spans = self.tokeniser.spans(text)[: settings.source]
        found = []
        for first, last, weight in raw.read:
            own = spans[first:last]
            start, end = own[0][0], own[-1][1]
            start += len(text[start:end]) - len(text[start:end].lstrip())  # a piece holds the blank before it
            # a word that was spelled out or named stands as a whole in the given text: all of it, not a part
            after = next((place for place in origins[end:] if place > origins[end - 1]), origins[-1])
            found.append(Segment(origins[start], after, round(weight, DIGITS)))
        return tuple(found)


class _TagRun:
    """prepare, forward, finish for one call's settings."""

    def __init__(self, tagger: Tagger, settings: Any, evidence: bool, grain: int = GRAIN) -> None:
        self.tagger = tagger
        self.settings = settings
        self.evidence = evidence
        self.grain = grain
        self.rows: tuple[int, ...] = ROWS

    def prepare(self, posts: Sequence[Post]) -> list[Ready | None]:
        self.rows = ROWS if len(posts) <= self.batch else MANY_ROWS
        return ready_posts(posts, self.tagger.tokeniser, self.settings.source)

    @property
    def batch(self) -> int:
        finder = self.tagger.finder
        return finder.batch if finder.device.type == "cpu" else 512

    def shape(self, ready: Ready) -> int:
        return -(-len(ready.ids) // self.grain)

    def tokens(self, ready: Ready) -> int:
        return len(ready.ids)

    @torch.inference_mode()
    def forward(self, ready: Sequence[Ready]) -> list[Raw]:
        # few numbers of rows: kernels are kept for every shape they meet, most of a megabyte each
        rows = next((size for size in self.rows if size >= len(ready)), self.batch)
        ids = [one.ids for one in islice(cycle(ready), rows)]  # filled up with all texts, so that some end early
        width = self.grain * self.shape(ready[0])  # that of the text, not of those beside it
        return self.tagger.finder.find(ids, self.settings, evidence=self.evidence, width=width)[: len(ready)]

    def finish(self, posts: Sequence[Post], raws: Sequence[Raw | None]) -> list[Tags]:
        return [
            self.tagger.answer(post, raw, self.settings, evidence=self.evidence)
            for post, raw in zip(posts, raws, strict=True)
        ]


class _RawRun(_TagRun):
    """The same, without the last stage."""

    def finish(self, posts: Sequence[Post], raws: Sequence[Raw | None]) -> list[Raw]:  # type: ignore[override]
        return [raw or Raw([], []) for raw in raws]


def ready_posts(posts: Sequence[Post], tokeniser: Tokenises, source: int) -> list[Ready | None]:
    """The posts' first `source` tokens; None for a post that cannot be read."""
    good = [place for place, post in enumerate(posts) if problem(post.text) is None]
    ids = tokeniser.ids([reading(posts[place].text) for place in good])
    ready: list[Ready | None] = [None] * len(posts)
    for place, row in zip(good, ids, strict=True):
        if row:
            ready[place] = Ready(row[:source], posts[place].text)
    return ready


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


def believed(raw: Raw, keep: float, *, top: int, least: float = 0.0) -> list[Candidate]:
    """The best tag and others worth returning: none far below it or hardly likely, none that only says it again."""
    kept: list[Candidate] = []
    for one in raw.candidates:
        if len(kept) == top or one.score < keep * raw.candidates[0].score or (kept and one.score < least):
            break
        if not any(alike(one.words, other.words) for other in kept):
            kept.append(one)
    return kept


def as_post(given: str | Post | Document) -> Post:
    """A text on its own is a post without anything else; a document is its title and its text, a line each."""
    if isinstance(given, Document):
        return Post(whole(given), id=given.id, tags=given.keyphrases, parts=given.parts)
    return given if isinstance(given, Post) else Post(given)


def whole(document: Document) -> str:
    """Title and text as one."""
    return f"{document.title}\n{document.text}" if document.title else document.text
