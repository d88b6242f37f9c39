"""How good a tagger is on posts whose tags are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tagsmith.metrics.tags import Scored, hashtag_metrics, rouge_tokens, score_tags
from tagsmith.pipelines.run import CHUNK
from tagsmith.pipelines.tag import Raw, Tagger, believed
from tagsmith.records import Post
from tagsmith.text.hashtags import words_of


def evaluate_tagger(tagger: Tagger, posts: Iterable[Post]) -> dict[str, Any]:
    """The contract's hashtag metrics.

    `f1@5` is of the tags the tagger returns by itself, at most five; `f1@5_full` of its first five whatever it
    believes of them; P@1, R@10 and unseen recall look at its first ten.
    """
    return hashtag_metrics(_scored(tagger, posts))


def choose_keep(tagger: Tagger, posts: Iterable[Post]) -> float:
    """The share of the best score below which tags are better left out, by F1@5 on dev posts."""
    shares = [step / 20 for step in range(20)]
    totals = dict.fromkeys(shares, 0.0)
    for post, raw in _ranked(tagger, posts):
        for share in shares:
            totals[share] += score_tags([one.words for one in believed(raw, share, top=5)], post.tags).f1_at_5
    return max(shares, key=lambda share: totals[share])


def _scored(tagger: Tagger, posts: Iterable[Post]) -> Iterator[Scored]:
    language = tagger.settings.language
    for post, raw in _ranked(tagger, posts):
        gold_words = post.tag_words or tuple(" ".join(words_of(tag)) for tag in post.tags)
        yield Scored(
            predicted=[one.words for one in raw.candidates[:10]],
            returned=[one.words for one in believed(raw, tagger.settings.keep, top=tagger.settings.top)],
            gold=post.tags,
            best=rouge_tokens(raw.sequences[0] if raw.sequences else (), language),
            reference=rouge_tokens(gold_words, language),
            seen=post.seen,
            parts=post.parts,
        )


def _ranked(tagger: Tagger, posts: Iterable[Post]) -> Iterator[tuple[Post, Raw]]:
    rest = iter(posts)
    while chunk := list(islice(rest, CHUNK)):
        yield from zip(chunk, tagger.rank(chunk), strict=True)
