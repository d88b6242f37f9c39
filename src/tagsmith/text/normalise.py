"""The social normaliser: one spelling for what posts write in many ways, and the way back to the given text.

    text --wide forms--> --invisible characters--> --entities--> --links, addresses, handles, blanks--> clean text

Every step but the first, which keeps the length, is a list of edits. `normalise` applies them; `align` also
carries the offsets along. `normalise(normalise(text)) == normalise(text)`: each step leaves nothing that it, or
a step before it, would change again.
"""

from __future__ import annotations

import html
import re
import string
from collections.abc import Callable, Iterator
from functools import lru_cache
from html.entities import html5
from typing import NamedTuple

from tagsmith.text.scripts import EAST_ASIAN

LINK, ADDRESS, HANDLE = "httpurl", "emailaddr", "@user"

WIDE = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_CONTROL = dict.fromkeys((*range(0x20), *range(0x7F, 0xA1)), " ")
_BLANKS = dict.fromkeys((0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000), " ")
_ONE_TO_ONE = {**WIDE, **_CONTROL, **_BLANKS}
_ANY_OF_THEM = re.compile(f"[{re.escape(''.join(map(chr, _ONE_TO_ONE)))}]")
_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]+")

_ENTITY_RUN = re.compile("&[A-Za-z0-9#&;]*+")  # a maximal run: what happens inside cannot reach beyond it
_ENTITY = re.compile("&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][A-Za-z0-9]*);")
_LONGEST_ENTITY = 33

_LINK_BODY = r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]*[A-Za-z0-9/_~=&%#@$*+\-]"  # ends before closing marks
_NAME = f"[{EAST_ASIAN}][{EAST_ASIAN}A-Za-z0-9_]*+"
# A knot: the longest run of address characters and Chinese names around an '@', decided as a whole. Nothing follows it
# in a pattern, so it need not be possessive; Python before 3.11.5 cuts such groups a letter short.
_KNOT = rf"[A-Za-z0-9_.%+\-]*+@(?:[A-Za-z0-9_.%+\-@]++|(?<=@){_NAME})*"
_MARKS = re.compile(
    r" {2,}+|\A | \Z"
    rf"|(?P<link>(?:[hH][tT][tT][pP][sS]?://|(?<![A-Za-z0-9_])[wW]{{3}}\.){_LINK_BODY})"
    rf"|(?<![A-Za-z0-9_.%+\-@]){_KNOT}"
)
_KNOT_ALONE = re.compile(_KNOT)
_ADDRESS_LETTERS = string.ascii_letters + string.digits + "_.%+-"
_INSIDE_KNOTS = frozenset(_ADDRESS_LETTERS + "@")
_MAIL = re.compile(r"[A-Za-z0-9_][^@]*(?<=[A-Za-z0-9_])@(?:[A-Za-z0-9\-]+\.)+[A-Za-z]{2,}")
_HANDLE = re.compile(f"(?<![A-Za-z0-9_])@(?:[A-Za-z0-9_]+|{_NAME})")
_SURROGATE = re.compile("[\ud800-\udfff]")


_Letter = tuple[int, int, str]  # where it comes from in the run: start, end; and the letter


class Edit(NamedTuple):
    """Put `new` where `start` to `end` of the text stands."""

    start: int
    end: int
    new: str


def normalise(text: str) -> str:
    """The text with links, addresses and handles named, entities read, wide forms and blanks made plain."""
    if _ANY_OF_THEM.search(text):
        text = text.translate(_ONE_TO_ONE)
    for step in _STEPS:
        if edits := step(text):
            text = apply_edits(text, edits)
    return text


def align(text: str) -> tuple[str, list[int]]:
    """The normalised text and, for each of its characters and its end, the offset in the given text."""
    origins = list(range(len(text) + 1))
    text = text.translate(_ONE_TO_ONE)
    for step in _STEPS:
        if edits := step(text):
            origins = carry_origins(origins, edits)
            text = apply_edits(text, edits)
    return text, origins


def lone_surrogate(text: str) -> int | None:
    """The place of the first lone surrogate, which no file or model can take, or None."""
    if text.isascii():
        return None
    found = _SURROGATE.search(text)
    return found.start() if found else None


def apply_edits(text: str, edits: list[Edit]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end, new in edits:
        pieces += (text[done:start], new)
        done = end
    pieces.append(text[done:])
    return "".join(pieces)


def carry_origins(origins: list[int], edits: list[Edit]) -> list[int]:
    """The offsets after the edits; all of `new` comes from where the edit starts."""
    made: list[int] = []
    done, last = 0, len(origins) - 1
    for start, end, new in edits:
        made += origins[done:start]
        made += [origins[start]] * len(new)
        done = end
    made += origins[done:]
    if edits[-1].end == last and not edits[-1].new:
        made[-1] = origins[edits[-1].start]  # what is cut off at the end is not part of the last character
    return made


def _invisible(text: str) -> list[Edit]:
    if text.isascii():
        return []
    return [Edit(*found.span(), "") for found in _INVISIBLE.finditer(text)]


def _entities(text: str) -> list[Edit]:
    """Read entities, also those that appear only when others have been read (`&amp;lt;`)."""
    if "&" not in text or ";" not in text:
        return []
    return [edit for found in _ENTITY_RUN.finditer(text) for edit in _read_run(found.group(), found.start())]


def _read_run(run: str, offset: int) -> Iterator[Edit]:
    """The edits inside one run."""
    if ";" not in run:
        return
    done = 0
    for start, end, new in _fold_run(run):
        if start > done:
            yield Edit(offset + done, offset + start, "")
        if new != run[start:end]:
            yield Edit(offset + start, offset + end, new)
        done = end
    if done < len(run):
        yield Edit(offset + done, offset + len(run), "")


def _fold_run(run: str) -> list[_Letter]:
    """Stack the letters; a ';' that closes an entity folds the top of the stack into what the entity means.

    What is below the top never holds a whole entity, so nothing is left to read in the end; a fold always
    shortens the stack, so the time is linear.
    """
    stack: list[_Letter] = []
    for place, letter in enumerate(run):
        stack.append((place, place + 1, letter))
        waiting = _fold(stack) if letter == ";" else []
        while waiting:
            stack.append(waiting.pop())
            if stack[-1][2] == ";":
                waiting += _fold(stack)
    return stack


def _fold(stack: list[_Letter]) -> list[_Letter]:
    """Take the entity that ends the stack off it; the letters it means come back last first."""
    first = len(stack) - 1
    lowest = max(0, len(stack) - _LONGEST_ENTITY)
    while first >= lowest and stack[first][2] != "&":
        first -= 1
    meaning = _meaning("".join([letter for _, _, letter in stack[first:]])) if first >= lowest else None
    if meaning is None:
        return []
    start, end = stack[first][0], stack[-1][1]
    del stack[first:]
    return [(start if place == 0 else end, end, letter) for place, letter in enumerate(meaning)][::-1]


@lru_cache(maxsize=4096)
def _meaning(entity: str) -> str | None:
    """What `&name;` or `&#number;` stands for, already made plain, or None if it is no entity."""
    if not _ENTITY.fullmatch(entity) or (entity[1] != "#" and entity[1:] not in html5):
        return None
    return _INVISIBLE.sub("", html.unescape(entity).translate(_ONE_TO_ONE))


def _marks(text: str) -> list[Edit]:
    """Links, addresses and handles get their common name, runs of blanks become one, the ends are stripped."""
    if "  " not in text and "://" not in text and text.strip(" ") == text and "www." not in text.lower():
        return _knots(text)
    edits = []
    for found in _MARKS.finditer(text):
        old, (start, end) = found.group(), found.span()
        if old[0] == " ":
            edits.append(Edit(start, end, "" if start == 0 or end == len(text) else " "))
        elif found["link"]:
            edits.append(Edit(start, end, LINK))
        else:
            edits += _untie(old, start)
    return edits


def _knots(text: str) -> list[Edit]:
    """The same where there is neither a link nor a blank too many: from one '@' to the next, past all else."""
    edits: list[Edit] = []
    done, at = 0, text.find("@")
    while at >= 0:
        start = done + len(text[done:at].rstrip(_ADDRESS_LETTERS))
        if start == 0 or text[start - 1] not in _INSIDE_KNOTS:
            found = _KNOT_ALONE.match(text, start)
            assert found is not None  # it begins before an '@'
            edits += _untie(found.group(), start)
            done = found.end()
        else:
            done = at + 1
        at = text.find("@", done)
    return edits


def _untie(knot: str, offset: int) -> Iterator[Edit]:
    """The edits for a knot: one address, or handles; an '@' right after a letter or digit begins no handle."""
    core = knot.strip(".%+-")
    if _MAIL.fullmatch(core):
        start = offset + knot.index(core)
        yield Edit(start, start + len(core), ADDRESS)
        return
    for found in _HANDLE.finditer(knot):
        if found.group() != HANDLE:
            yield Edit(offset + found.start(), offset + found.end(), HANDLE)


_STEPS: tuple[Callable[[str], list[Edit]], ...] = (_invisible, _entities, _marks)
