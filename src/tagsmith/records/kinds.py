"""The records that go in and come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Span = tuple[int, int]  # character offsets into the given text: start, end


@dataclass(frozen=True, slots=True)
class Post:
    """A short text, and the tags its author gave it where they are known."""

    text: str
    id: str | int | None = None
    tags: tuple[str, ...] = ()
    tag_words: tuple[str, ...] = ()  # the same tags as words: "ClimateAction" is "climate action"
    parts: tuple[str, ...] = ()  # the slices of a test set it belongs to
    seen: tuple[bool, ...] = ()  # for each tag: does it occur in the training data


class Mark(NamedTuple):
    """Where a keyphrase of a known kind stands, in the text or in the title."""

    start: int
    end: int
    kind: str = "KEY"
    title: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """A title and a text, either of which may be missing, and its author's keyphrases where they are known."""

    text: str
    title: str = ""
    id: str | int | None = None
    keyphrases: tuple[str, ...] = ()
    variants: tuple[tuple[str, ...], ...] = ()  # groups of keyphrases that say the same
    parts: tuple[str, ...] = ()  # the slices of a test set it belongs to
    marks: tuple[Mark, ...] | None = None  # None: the keyphrases stand wherever their words do


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text to be filed under one label, with its title if it has one, and its label where it is known."""

    text: str
    title: str = ""
    id: str | int | None = None
    label: str | None = None
    parts: tuple[str, ...] = ()


class Gold(NamedTuple):
    """A right answer, and where it begins in the passage; None: wherever its words stand."""

    text: str
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the passage that may answer it, and its answers where they are known."""

    question: str
    context: str
    title: str = ""
    id: str | int | None = None
    answers: tuple[Gold, ...] = ()
    impossible: bool | None = None  # None: not known
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tag:
    """One suggestion: where it stands in the text if it does, and how much the model believes it."""

    text: str
    score: float  # 0..1
    kind: Literal["present", "absent"]
    spans: tuple[Span, ...] = ()
    title_spans: tuple[Span, ...] | None = None  # None: there is no title


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the text that the model selected to read when it wrote its tags."""

    start: int
    end: int
    score: float  # share of the selector's weight


@dataclass(frozen=True, slots=True)
class Tags:
    """The answer for one post: its tags, best first, or the reason why there are none."""

    tags: tuple[Tag, ...] = ()
    id: str | int | None = None
    error: str | None = None
    segments: tuple[Segment, ...] | None = None  # None: not asked for


@dataclass(frozen=True, slots=True)
class Pair:
    """Something said, and what people answered where that is known."""

    query: str
    responses: tuple[str, ...] = ()
    id: str | int | None = None
    parts: tuple[str, ...] = ()  # the slices of a test set it belongs to

    @property
    def text(self) -> str:
        """What is to be answered, under the name that every record has."""
        return self.query


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply, how much the model believes it, and what of the query it attended to most."""

    text: str
    score: float  # 0..1
    attended: tuple[Segment, ...] | None = None  # None: not asked for


@dataclass(frozen=True, slots=True)
class Replies:
    """The answer to one query: replies, best first, or the reason why there are none."""

    replies: tuple[Reply, ...] = ()
    id: str | int | None = None
    error: str | None = None
    topics: tuple[str, ...] | None = None  # words the model inferred from the query; None: not asked for


@dataclass(frozen=True, slots=True)
class Vector:
    """The answer of an embedder for one post: a vector of length 1, or the reason why there is none."""

    vector: tuple[float, ...] = ()
    id: str | int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """One label, and how often such a score is right."""

    label: str
    score: float  # 0..1


@dataclass(frozen=True, slots=True)
class Labels:
    """The answer of a classifier for one text: its labels, best first, or the reason why there are none."""

    labels: tuple[Label, ...] = ()
    id: str | int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A piece of the passage that answers the question."""

    text: str
    score: float  # 0..1
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Answers:
    """What was found for one question, best first; none and no error: the passage does not say."""

    answers: tuple[Answer, ...] = ()
    id: str | int | None = None
    error: str | None = None
