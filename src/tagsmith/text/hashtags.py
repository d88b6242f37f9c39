"""Hashtags as words and words as hashtags.

"ClimateAction" --words_of--> ["climate", "action"] --hashtag_of--> "ClimateAction"
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from tagsmith.text.scripts import has_east_asian

_PIECE = re.compile(
    r"[0-9]+(?:st|nd|rd|th)(?![a-z])"  # 75th
    r"|[A-Z]{2,}s(?![a-z])"  # GRAMMYs
    r"|[A-Z]+(?![a-z])"  # MAGA
    r"|[A-Z]+(?=[A-Z][a-z])"  # MAGA of MAGAWorld, A of MakeAWish
    r"|[A-Z]?[a-z]+"
    r"|[0-9]+"
)
# Letters with a short number are a name ("PS4", "UFC195", "5G", "B2B"); longer ones are split ("COVID19").
_NAME = re.compile("[A-Za-z]{1,3}[0-9]{1,3}|[0-9]{1,2}[A-Za-z]{1,2}|[A-Za-z]{1,2}[0-9][A-Za-z]{1,2}")
_LINKED = re.compile(r"(?P<word>[A-Z][a-z]{2,}?)(?P<link>of|for|with|from)(?P<the>the)?(?=[A-Z0-9])")  # HouseofCards
_NOT_LINKED = ("proof", "roof", "hoof")
_GAPS = re.compile(r"[\s_\-#＃]+")
_APOSTROPHES = str.maketrans("", "", "'’")


def words_of(tag: str) -> list[str]:
    """The words of a tag, lower case, split where its spelling shows it; a Chinese tag is one word."""
    tag = unicodedata.normalize("NFC", tag).translate(_APOSTROPHES)
    return [word for chunk in _GAPS.split(tag) if chunk for word in _split(chunk)]


def hashtag_of(words: str | Sequence[str]) -> str:
    """The words as one tag in camel case; Chinese is joined plainly, a single word keeps its spelling."""
    parts = words.split() if isinstance(words, str) else [part for word in words for part in word.split()]
    if len(parts) < 2 or any(map(has_east_asian, parts)):
        return "".join(parts)
    return "".join(part[0].upper() + part[1:] for part in parts)


def key(tag: str) -> str:
    """What all spellings of one tag share: lower case, no blanks, underscores or leading '#', composed."""
    bare = "".join(tag.split()).replace("_", "").lstrip("#＃").lower()
    return bare if bare.isascii() else unicodedata.normalize("NFC", bare)  # last: letters may have come together


def _split(chunk: str) -> list[str]:
    if has_east_asian(chunk):
        return [chunk.lower()]
    shape = chunk if chunk.isascii() else "".join(map(_shape, chunk))
    if _NAME.fullmatch(shape):
        return [chunk.lower()]
    words = []
    for found in _PIECE.finditer(shape):
        cuts = _cuts(shape, found)
        words += [chunk[start:end].lower() for start, end in pairwise(cuts)]
    return words or [chunk.lower()]


def _cuts(shape: str, piece: re.Match[str]) -> list[int]:
    """Where to cut a piece: at its ends, and around a small word that hangs on it ("Houseof", "Bowlofthe")."""
    linked = _LINKED.match(shape, piece.start())
    if linked is None or linked.end() != piece.end() or linked.group().endswith(_NOT_LINKED):
        return [piece.start(), piece.end()]
    return [piece.start(), linked.start("link"), *([linked.end("link")] if linked["the"] else []), piece.end()]


def _shape(letter: str) -> str:
    """An ASCII letter of the same kind, so that one pattern reads all alphabets."""
    if letter.isascii():
        return letter
    if letter.isupper() or letter.istitle():
        return "A"
    if letter.isdigit():
        return "0"
    return "a" if letter.isalpha() or unicodedata.combining(letter) else "_"
