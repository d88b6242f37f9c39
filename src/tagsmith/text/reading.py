"""The text a tagger reads: normalised, and every "#ClimateAction" spelled out as its words, as its training data is."""

from __future__ import annotations

import re

from tagsmith.text.hashtags import words_of
from tagsmith.text.normalise import Edit, align, apply_edits, carry_origins, normalise

_HASHTAG = re.compile(r"[#＃](\w+)[#＃]?")


def reading(text: str) -> str:
    """The text as the model reads it."""
    text = normalise(text)
    edits = _spelled(text)
    return apply_edits(text, edits) if edits else text


def aligned_reading(text: str) -> tuple[str, list[int]]:
    """The same, and for each of its characters and its end the offset in the given text."""
    text, origins = align(text)
    edits = _spelled(text)
    if not edits:
        return text, origins
    return apply_edits(text, edits), carry_origins(origins, edits)


def _spelled(text: str) -> list[Edit]:
    if "#" not in text and "＃" not in text:
        return []
    found = ((match.span(), " ".join(words_of(match[1]))) for match in _HASHTAG.finditer(text))
    return [Edit(start, end, words) for (start, end), words in found if words]
