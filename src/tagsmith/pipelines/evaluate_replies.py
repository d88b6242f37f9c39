"""How good replies are on queries whose responses are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from tagsmith.metrics.replies import ScoredReply, reply_metrics, tokens_of
from tagsmith.pipelines.replies import ReplySettings, log_probabilities
from tagsmith.pipelines.reply import Replier
from tagsmith.pipelines.run import CHUNK
from tagsmith.records import Pair
from tagsmith.text.keywords import Keywords, has_jieba, keywords_of
from tagsmith.text.reading import reading

SEED = 1


def evaluate_replier(replier: Replier, pairs: Iterable[Pair], *, seed: int = SEED) -> dict[str, Any]:
    """The contract's reply metrics, of one reply to each query; several responses are several references.

    `hit_q` and `hit_r` are left out for Chinese where jieba is not installed.
    """
    return reply_metrics(_scored(replier, pairs, seed))


def _scored(replier: Replier, pairs: Iterable[Pair], seed: int) -> Iterator[ScoredReply]:
    language = replier.settings.language
    keywords = keywords_of(language) if language != "zh" or has_jieba() else None
    rest = (pair for pair in pairs if pair.responses)
    while some := list(islice(rest, CHUNK)):
        for pair, answer in zip(some, replier.reply(some, top=1, seed=seed), strict=True):
            said = answer.replies[0].text if answer.replies else ""
            yield ScoredReply(
                reply=tokens_of(said, language),
                query=tokens_of(pair.query, language),
                references=[tokens_of(one, language) for one in pair.responses],
                topical=None if keywords is None else keywords.topical(said),
                query_topical=_topical(keywords, [pair.query]),
                reference_topical=_topical(keywords, pair.responses),
                parts=pair.parts,
            )


def dev_loss(model: Any, pieces: Any, pairs: Sequence[Pair], settings: ReplySettings) -> float:
    """Mean surprise at a token of the responses, [END] included."""
    total, tokens = 0.0, 0
    for start in range(0, len(pairs), CHUNK):
        both = [(pair.query, one) for pair in pairs[start : start + CHUNK] for one in pair.responses]
        # by length, so that little is padding; cut responses count without their true end
        sources = pieces.ids([reading(query) for query, _ in both])
        targets = pieces.ids([reading(response) for _, response in both])
        order = sorted(range(len(both)), key=lambda at: len(sources[at]))
        sums, counts = log_probabilities(model, [sources[at] for at in order], [targets[at] for at in order], settings)
        total -= float(sums.sum())
        tokens += int(counts.sum())
    return total / max(tokens, 1)


def _topical(keywords: Keywords | None, texts: Sequence[str]) -> frozenset[str]:
    """The topical words of all texts together."""
    if keywords is None:
        return frozenset()
    return frozenset[str]().union(*(keywords.topical(text) for text in texts))
