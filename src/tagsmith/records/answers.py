"""Answers as the rows of the contract."""

from __future__ import annotations

from typing import Any

from tagsmith.records.kinds import Answers, Labels, Replies, Segment, Tag, Tags, Vector


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


def _segment_row(piece: Segment) -> dict[str, Any]:
    return {"start": piece.start, "end": piece.end, "score": piece.score}


def vector_row(answer: Vector) -> dict[str, Any]:
    """The vector as the JSON object of the contract."""
    return {"id": answer.id, "vector": list(answer.vector), "error": answer.error}


def labels_row(answer: Labels) -> dict[str, Any]:
    """The labels as the JSON object of the contract."""
    found = [{"label": one.label, "score": one.score} for one in answer.labels]
    return {"id": answer.id, "labels": found, "error": answer.error}


def answers_row(answer: Answers) -> dict[str, Any]:
    """The answers as the JSON object of the contract."""
    found = [{"text": one.text, "score": one.score, "start": one.start, "end": one.end} for one in answer.answers]
    return {"id": answer.id, "answers": found, "error": answer.error}


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
