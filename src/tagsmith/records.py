"""The records that go in and come out, and their JSON: one shape in Python, JSON lines, HTTP and Parquet.

row (a mapping) --post_of--> Post --pipeline--> Tags --to_row--> row
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tagsmith.errors import DataError

Row = Mapping[str, Any]
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"'}
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
        parts=_parts(row),
        seen=_flags(row.get("seen")),
    )


def document_of(row: Row) -> Document:
    """The document in a row `{"id"?, "title"?, "abstract" | "text", "keyphrases"?, "variants"?, "part"?}`.

    Or in one of words with their labels `{"id"?, "tokens", "tags"?, "title_tokens"?, "part"?}`.
    """
    if row.get("tokens") is not None:
        return _marked_document(row)
    given = _texts(row, "abstract", "text", "title")
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
        parts=_parts(row),
    )


def _marked_document(row: Row) -> Document:
    """Words with BIO labels as a document; the first `title_tokens`, or those before ABSTRACT, are its title."""
    words, labels = row["tokens"], row.get("tags")
    labels = ["O"] * len(words) if labels is None and isinstance(words, list) else labels
    if not (isinstance(words, list) and isinstance(labels, list) and len(words) == len(labels)):
        raise DataError("the fields 'tokens' and 'tags' must be lists of one length")
    if not all(isinstance(one, str) for one in [*words, *labels]):
        raise DataError("the fields 'tokens' and 'tags' must hold strings")
    words = [BRACKETS.get(word, word) for word in words]
    head = row.get("title_tokens")
    skip = 0
    if not isinstance(head, int):
        head = words.index("ABSTRACT") if "ABSTRACT" in words[:60] else 0
        skip = 1 if head else 0
    marks: list[Mark] = []
    for in_title, some in ((True, slice(0, head)), (False, slice(head + skip, None))):
        marks += _marks(words[some], labels[some], title=in_title)
    title, text = " ".join(words[:head]), " ".join(words[head + skip :])
    phrases = [(title if one.title else text)[one.start : one.end] for one in marks]
    names = tuple(dict.fromkeys(phrase.lower() for phrase in phrases))
    return Document(text, title, _id_of(row), names, parts=_parts(row), marks=tuple(marks))


def _marks(words: list[str], labels: list[str], *, title: bool) -> list[Mark]:
    """BIO labels as places in the words joined by blanks; an I that follows nothing begins a span."""
    found: list[Mark] = []
    start, open_kind = 0, None
    for word, label in zip(words, labels, strict=True):
        _, _, kind = label.partition("-")
        if label == "O":
            open_kind = None
        elif label.startswith("I-") and open_kind == kind:
            found[-1] = found[-1]._replace(end=start + len(word))
        else:
            found.append(Mark(start, start + len(word), kind or "KEY", title))
            open_kind = kind
        start += len(word) + 1
    return found


def labelled_of(row: Row) -> Labelled:
    """The text in a row `{"id"?, "title"?, "body" | "text", "label"?, "part"?}`."""
    given = _texts(row, "title", "body", "text")
    body = given["body"] if given["body"] is not None else given["text"]
    label = row.get("label")
    if label is not None and not isinstance(label, str | int):
        raise DataError(f"the field 'label' must be a string or a whole number, not {label!r:.60}")
    return Labelled(
        text=body or "",
        title=given["title"] or "",
        id=_id_of(row),
        label=None if label is None or not str(label).strip() else str(label).strip(),
        parts=_parts(row),
    )


def question_of(row: Row) -> Question:
    """The question in a row `{"id"?, "title"?, "question", "context", "answers"?, "is_impossible"?, "part"?}`."""
    given = _texts(row, "question", "context", "title")
    for name in ("question", "context"):
        if given[name] is None:
            names = ", ".join(map(repr, row)) or "none"
            raise DataError(f"the row has no field {name!r} (its fields: {names}); rename one: `--field {name}=NAME`")
    answers, impossible = row.get("answers"), row.get("is_impossible")
    if isinstance(answers, str):  # of a table
        answers = [answers]
    if answers is not None and not isinstance(answers, list | tuple):
        raise DataError(f"the field 'answers' must be a list of {{'text', 'start'}}, not {answers!r:.60}")
    return Question(
        question=given["question"] or "",
        context=given["context"] or "",
        title=given["title"] or "",
        id=_id_of(row),
        answers=tuple(_gold(one) for one in answers or ()),
        impossible=bool(impossible) if isinstance(impossible, bool | int) else None if answers is None else not answers,
        parts=_parts(row),
    )


def labels_row(answer: Labels) -> dict[str, Any]:
    """The labels as the JSON object of the contract."""
    found = [{"label": one.label, "score": one.score} for one in answer.labels]
    return {"id": answer.id, "labels": found, "error": answer.error}


def answers_row(answer: Answers) -> dict[str, Any]:
    """The answers as the JSON object of the contract."""
    found = [{"text": one.text, "score": one.score, "start": one.start, "end": one.end} for one in answer.answers]
    return {"id": answer.id, "answers": found, "error": answer.error}


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


def _texts(row: Row, *names: str) -> dict[str, str | None]:
    """Fields that hold a string or nothing, at least one of them a string."""
    given = {name: row.get(name) for name in names}
    if all(value is None for value in given.values()):
        found = ", ".join(map(repr, row)) or "none"
        wanted = f"{', '.join(map(repr, names[:-1]))} or {names[-1]!r}"
        raise DataError(
            f"the row has no field {wanted} (its fields: {found}); rename one with `--field {names[0]}=NAME`"
        )
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise DataError(f"the field {name!r} must be a string, not {type(value).__name__}")
    return given


def _gold(given: Any) -> Gold:
    if isinstance(given, str):
        return Gold(given)
    start = given.get("start", given.get("answer_start")) if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(given.get("text"), str) or not isinstance(start, int | None):
        raise DataError(f"an answer must be a string or {{'text', 'start'}}, not {given!r:.60}")
    return Gold(given["text"], start)


def _parts(row: Row) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("part", "domain") if row.get(name))


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
