"""What a reader should find in a window: first and last word of an answer, or a BIO label for each word."""

from __future__ import annotations

from collections.abc import Sequence

from tagsmith.data.windows import Window
from tagsmith.records import Document, Mark, Question, Span
from tagsmith.text.spans import SpanFinder


def answer_span(question: Question) -> Span | None:
    """Where the first right answer stands in the passage; None if its words are not there."""
    text, start = question.answers[0]
    if start is None or question.context[start : start + len(text)] != text:
        start = question.context.find(text)
    return (start, start + len(text)) if text.strip() and start >= 0 else None


def answer_target(window: Window, span: Span | None) -> list[int]:
    """First and last word of the answer, counted from 1; 0, 0 where the window does not hold all of it."""
    if span is None:
        return [0, 0]
    held = [place for place, one in enumerate(window.places) if one.end > span[0] and one.start < span[1]]
    if not held or window.places[held[0]].start > span[0] or window.places[held[-1]].end < span[1]:
        return [0, 0]
    return [held[0] + 1, held[-1] + 1]


def bio_target(window: Window, marks: Sequence[Mark], kinds: Sequence[str]) -> list[int]:
    """A label for each word: 0 outside, 1 + 2 * kind where a keyphrase begins, 2 + 2 * kind inside it.

    With one kind only, all keyphrases are of it.
    """
    number = {kind: place for place, kind in enumerate(kinds)} if len(kinds) > 1 else {}
    inside = {
        (mark.title, letter): (mark.start, number.get(mark.kind, 0))
        for mark in marks
        for letter in range(mark.start, mark.end)
    }
    labels, before = [], None
    for place in window.places:
        found = inside.get((place.title, place.start))
        if found is None:
            labels.append(0)
        else:
            labels.append(1 + 2 * found[1] + (before == (place.title, found[0])))
        before = None if found is None else (place.title, found[0])
    return labels


def marks_of(document: Document) -> tuple[Mark, ...]:
    """Where the keyphrases stand, as was told or wherever their words do; of two that overlap the longer."""
    if document.marks is not None:
        return document.marks
    found = []
    for title, text in ((True, document.title), (False, document.text)):
        finder = SpanFinder(text)
        spans = {span for phrase in document.keyphrases for span in finder.find(phrase)}
        taken: set[int] = set()
        for start, end in sorted(spans, key=lambda span: (span[0] - span[1], span[0])):
            if taken.isdisjoint(range(start, end)):
                taken.update(range(start, end))
                found.append(Mark(start, end, title=title))
    return tuple(sorted(found, key=lambda mark: (not mark.title, mark.start)))
