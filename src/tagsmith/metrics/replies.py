"""How good replies are: BLEU against several references, variety, shared topical words, copying and repetition.

Tokens are characters for Chinese and words for English, lower case; `tokens_of` gives them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tagsmith.text.tokenise import words

SIZES = (1, 2, 3, 4)
COPIED = 4  # more tokens than this in one run taken from the query are a copy
LOOPS = 3  # a phrase said more often than this in a row is a repetition


@dataclass(frozen=True)
class ScoredReply:
    """One reply, what was asked, what people answered, and the topical words of each where they are known."""

    reply: Sequence[str]
    query: Sequence[str]
    references: Sequence[Sequence[str]]
    topical: frozenset[str] | None = None  # of the reply; None: cannot be told
    query_topical: frozenset[str] = frozenset()
    reference_topical: frozenset[str] = frozenset()  # of all references together
    parts: Sequence[str] = ()


def tokens_of(text: str, language: str) -> list[str]:
    """Characters without blanks for Chinese, words and marks for English."""
    text = text.lower()
    return list("".join(text.split())) if language == "zh" else words(text)


def reply_metrics(rows: Iterable[ScoredReply]) -> dict[str, Any]:
    """The contract's metrics over the rows with references, and under "parts" the same for each part."""
    every = [row for row in rows if row.references]
    parts: dict[str, list[ScoredReply]] = {}
    for row in every:
        for part in row.parts:
            parts.setdefault(part, []).append(row)
    metrics = _summary(every)
    named = {part: _summary(some) for part, some in parts.items()}
    return {**metrics, "parts": named} if named else metrics


def _summary(rows: Sequence[ScoredReply]) -> dict[str, Any]:
    if not rows:
        return {"n": 0}
    blue = bleu([row.reply for row in rows], [row.references for row in rows])
    found: dict[str, Any] = {f"bleu{size}": blue.cumulative(size) for size in SIZES[1:]}
    found |= {f"p{size}": blue.precisions[size - 1] for size in SIZES[1:]}
    found |= {f"dist{size}": distinct([row.reply for row in rows], size) for size in (1, 2)}
    if all(row.topical is not None for row in rows):
        found["hit_q"] = sum(hit(row.topical or frozenset(), row.query_topical) for row in rows) / len(rows)
        found["hit_r"] = sum(hit(row.topical or frozenset(), row.reference_topical) for row in rows) / len(rows)
    found["copy_rate"] = sum(common_run(row.reply, row.query) > COPIED for row in rows) / len(rows)
    found["repetition_rate"] = sum(loops(row.reply) > LOOPS for row in rows) / len(rows)
    return {**found, "n": len(rows)}


@dataclass(frozen=True)
class Bleu:
    """n-gram precisions and the penalty for being short; the corpus is one text."""

    precisions: tuple[float, ...]
    penalty: float

    def cumulative(self, size: int) -> float:
        """BLEU with n-grams of up to `size` tokens; 0 where one precision is 0."""
        some = self.precisions[:size]
        if not all(some):
            return 0.0
        return self.penalty * math.exp(sum(map(math.log, some)) / size)


def bleu(replies: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> Bleu:
    """Corpus BLEU as `multi-bleu.perl` computes it: counts clipped by the best reference, the closest length."""
    hits, said = [0] * len(SIZES), [0] * len(SIZES)
    length = wanted = 0
    for reply, own in zip(replies, references, strict=True):
        length += len(reply)
        wanted += min((len(one) for one in own), key=lambda many: (abs(many - len(reply)), many))
        for place, size in enumerate(SIZES):
            grams = _grams(reply, size)
            best: Counter[tuple[str, ...]] = Counter()
            for one in own:
                best |= _grams(one, size)
            hits[place] += (grams & best).total()
            said[place] += grams.total()
    precisions = tuple(hit / many if many else 0.0 for hit, many in zip(hits, said, strict=True))
    penalty = 0.0 if not length else min(1.0, math.exp(1 - wanted / length))
    return Bleu(precisions, penalty)


def distinct(replies: Sequence[Sequence[str]], size: int) -> float:
    """Distinct n-grams of all replies as a share of all their n-grams."""
    seen: set[tuple[str, ...]] = set()
    total = 0
    for reply in replies:
        grams = [tuple(reply[start : start + size]) for start in range(len(reply) - size + 1)]
        seen.update(grams)
        total += len(grams)
    return len(seen) / total if total else 0.0


def hit(own: frozenset[str], others: frozenset[str]) -> float:
    """The share of a reply's topical words that the others have too; 0 without any."""
    return len(own & others) / len(own) if own else 0.0


def common_run(left: Sequence[str], right: Sequence[str]) -> int:
    """The length of the longest run of tokens that both have."""
    best = 0
    row = [0] * (len(right) + 1)
    for token in left:
        corner = 0
        for place, other in enumerate(right, start=1):
            above = row[place]
            row[place] = corner + 1 if token == other else 0
            best = max(best, row[place])
            corner = above
    return best


def loops(tokens: Sequence[str]) -> int:
    """How often in a row the most repeated phrase is said."""
    most = 1 if tokens else 0
    for size in range(1, len(tokens) // 2 + 1):
        run = 0  # places in a row that say what stood `size` tokens before
        for place in range(size, len(tokens)):
            run = run + 1 if tokens[place] == tokens[place - size] else 0
            most = max(most, 1 + run // size)
    return most


def _grams(tokens: Sequence[str], size: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1))
