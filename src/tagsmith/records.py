"""The records that go in and come out, and their JSON: one shape in Python, JSON lines, HTTP and Parquet.

row (a mapping) --post_of--> Post --pipeline--> Tags --to_row--> row
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tagsmith.errors import DataError

Row = Mapping[str, Any]
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


@dataclass(frozen=True, slots=True)
class Document:
    """A title and a text, either of which may be missing, and its author's keyphrases where they are known."""

    text: str
    title: str = ""
    id: str | int | None = None
    keyphrases: tuple[str, ...] = ()
    variants: tuple[tuple[str, ...], ...] = ()  # groups of keyphrases that say the same
    parts: tuple[str, ...] = ()  # the slices of a test set it belongs to


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


def post_of(row: Row) -> Post:
    """The post in a row `{"id"?, "text", "hashtags" | "tags"?, "hashtag_words"?, "part" | "domain"?, "seen"?}`."""
    text = row.get("text")
    if text is None:
        names = ", ".join(map(repr, row)) or "none"
        raise DataError(f"the row has no field 'text' (its fields: {names}); rename one with `--field text=NAME`")
    if not isinstance(text, str):
        raise DataError(f"the field 'text' must be a string, not {type(text).__name__}")
    tags = row.get("hashtags") if row.get("hashtags") is not None else row.get("tags")
    return Post(
        text=text,
        id=_id_of(row),
        tags=_names(tags, "hashtags"),
        tag_words=_names(row.get("hashtag_words"), "hashtag_words"),
        parts=tuple(str(row[name]) for name in ("part", "domain") if row.get(name)),
        seen=_flags(row.get("seen")),
    )


def document_of(row: Row) -> Document:
    """The document in a row `{"id"?, "title"?, "abstract" | "text", "keyphrases"?, "variants"?, "part"?}`."""
    given = {name: row.get(name) for name in ("title", "abstract", "text")}
    if all(value is None for value in given.values()):
        names = ", ".join(map(repr, row)) or "none"
        raise DataError(
            f"the row has no field 'abstract', 'text' or 'title' (its fields: {names}); "
            "rename one with `--field abstract=NAME`"
        )
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise DataError(f"the field {name!r} must be a string, not {type(value).__name__}")
    body = given["abstract"] if given["abstract"] is not None else given["text"]
    phrases = row.get("keyphrases")
    if isinstance(phrases, str) and ";" in phrases:
        phrases = phrases.split(";")
    variants = row.get("variants")
    return Document(
        text=body or "",
        title=given["title"] or "",
        id=_id_of(row),
        keyphrases=_names(phrases, "keyphrases"),
        variants=tuple(_names(group, "variants") for group in variants) if isinstance(variants, list) else (),
        parts=tuple(str(row[name]) for name in ("part", "domain") if row.get(name)),
    )


def pair_of(row: Row) -> Pair:
    """The pair in a row `{"id"?, "query", "responses" | "response"?, "part" | "domain"?}`."""
    query = row.get("query")
    if query is None:
        names = ", ".join(map(repr, row)) or "none"
        raise DataError(f"the row has no field 'query' (its fields: {names}); rename one with `--field query=NAME`")
    if not isinstance(query, str):
        raise DataError(f"the field 'query' must be a string, not {type(query).__name__}")
    given = row.get("responses") if row.get("responses") is not None else row.get("response")
    responses = [given] if isinstance(given, str) else given or []
    if not isinstance(responses, list | tuple) or not all(isinstance(one, str) for one in responses):
        raise DataError(f"the field 'responses' must be a list of strings or one string, not {given!r:.60}")
    parts = tuple(str(row[name]) for name in ("part", "domain") if row.get(name))
    return Pair(query, tuple(one for one in responses if one.strip()), _id_of(row), parts)


def reply_row(answer: Replies) -> dict[str, Any]:
    """The replies as the JSON object of the contract."""
    replies = []
    for one in answer.replies:
        shown: dict[str, Any] = {"text": one.text, "score": one.score}
        if one.attended is not None:
            shown["attended"] = [_segment_row(piece) for piece in one.attended]
        replies.append(shown)
    row: dict[str, Any] = {"id": answer.id, "replies": replies, "error": answer.error}
    return row if answer.topics is None else {**row, "topics": list(answer.topics)}


def _segment_row(piece: Segment) -> dict[str, Any]:
    return {"start": piece.start, "end": piece.end, "score": piece.score}


def to_row(answer: Tags) -> dict[str, Any]:
    """The answer as the JSON object of the contract."""
    row: dict[str, Any] = {
        "id": answer.id,
        "tags": [_tag_row(tag) for tag in answer.tags],
        "error": answer.error,
    }
    if answer.segments is not None:
        row["segments"] = [_segment_row(piece) for piece in answer.segments]
    return row


def _tag_row(tag: Tag) -> dict[str, Any]:
    row = {"text": tag.text, "score": tag.score, "kind": tag.kind, "spans": [list(span) for span in tag.spans]}
    return row if tag.title_spans is None else {**row, "title_spans": [list(span) for span in tag.title_spans]}


def vector_row(answer: Vector) -> dict[str, Any]:
    """The vector as the JSON object of the contract."""
    return {"id": answer.id, "vector": list(answer.vector), "error": answer.error}


def _id_of(row: Row) -> str | int | None:
    given = row.get("id")
    return given if given is None or isinstance(given, str | int) else str(given)


def _flags(given: Any) -> tuple[bool, ...]:
    """A list of truth values; anything else tells nothing."""
    return tuple(map(bool, given)) if isinstance(given, list | tuple) else ()


def _names(given: Any, field: str) -> tuple[str, ...]:
    """A list of strings; one string holds several, split at commas or blanks before '#'."""
    if given is None:
        return ()
    if isinstance(given, str):
        given = [piece.strip() for chunk in given.split(",") for piece in chunk.replace(" #", ",").split(",")]
    if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
        raise DataError(f"the field {field!r} must be a list of strings or one string, not {given!r:.60}")
    return tuple(name.lstrip("#＃").strip("#＃ ") for name in given if name.strip("#＃ "))
