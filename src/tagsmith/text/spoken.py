"""Lower-case text as one writes it: capitals at the beginning of a sentence, and "I"."""

from __future__ import annotations

import re

_BEGINNING = re.compile(r"(?:^|(?<=\w\w\. )|(?<=[!?…] ))([\"'“(]?)([a-z])")
_SELF = re.compile(r"(?<![\w.'’])i(?=$|[\s,!?;:…]|\.(?!\w)|['’](?:m|d|ll|ve|s)\b)")


def spoken(text: str) -> str:
    """Only English letters change; the length stays, and the beginning never depends on what follows a word."""
    text = _SELF.sub("I", text)
    return _BEGINNING.sub(lambda found: found[1] + found[2].upper(), text)
