"""Which of the two languages with shipped models a text is in."""

from __future__ import annotations

import re
from typing import Literal

from tagsmith.text.scripts import IDEOGRAPHS, KANA

_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")
_KANA = re.compile(f"[{KANA}]")
_LETTER = re.compile(r"[^\W\d_]")
_NAMED = re.compile(r"(?:https?://|www\.)[!-~]+|@[A-Za-z0-9_]+|\b(?:httpurl|emailaddr)\b", re.ASCII)
_SHARE = 0.2  # of ideographs among the letters, from which on a text is Chinese


def language_of(text: str) -> Literal["en", "zh"]:
    """Chinese if enough of the letters outside links and handles are ideographs, and few are kana; else English."""
    if text.isascii():
        return "en"
    ideographs = len(_IDEOGRAPH.findall(text))
    if not ideographs or 3 * len(_KANA.findall(text)) > ideographs:
        return "en"
    letters = len(_LETTER.findall(_NAMED.sub(" ", text)))
    return "zh" if ideographs >= _SHARE * letters else "en"
