"""Rows of a file as records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tagsmith.errors import DataError
from tagsmith.records.kinds import Document, Gold, Labelled, Mark, Pair, Post, Question

Row = Mapping[str, Any]
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"'}


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
        id=id_of(row),
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
        id=id_of(row),
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
    return Document(text, title, id_of(row), names, parts=_parts(row), marks=tuple(marks))


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
        id=id_of(row),
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
        id=id_of(row),
        answers=tuple(_gold(one) for one in answers or ()),
        impossible=bool(impossible) if isinstance(impossible, bool | int) else None if answers is None else not answers,
        parts=_parts(row),
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
    return Pair(query, tuple(one for one in responses if one.strip()), id_of(row), parts)


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


def id_of(row: Row) -> str | int | None:
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
