"""Which characters belong to which script, as the insides of regular-expression classes."""

from __future__ import annotations

import re

IDEOGRAPHS = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9d"
HANGUL = "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3"
EAST_ASIAN = IDEOGRAPHS + KANA + HANGUL  # written without blanks, or read letter by letter here
MARKS = "\u0300-\u036f\u200c"  # accents on the letter before, and the joint inside Persian words

_EAST_ASIAN_LETTER = re.compile(f"[{EAST_ASIAN}]")


def has_east_asian(text: str) -> bool:
    """Does the text hold an ideograph, a kana or a Hangul letter?"""
    return not text.isascii() and _EAST_ASIAN_LETTER.search(text) is not None
