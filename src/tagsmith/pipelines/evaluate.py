"""How good a tagger is on posts whose tags are known, and its settings that are chosen by that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tagsmith.metrics.tags import Scored, hashtag_metrics, rouge_tokens, score_tags
from tagsmith.pipelines.rank import Ranker
from tagsmith.pipelines.run import CHUNK
from tagsmith.pipelines.tag import Raw, Tagger, believed
from tagsmith.records import Post
from tagsmith.text.hashtags import key, words_of
from tagsmith.text.reading import reading

SHARES = [step / 20 for step in range(20)]
FLOORS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1)
NEXT_TO_NOTHING = 0.001  # of F1@5
TEMPERATURES = [round(0.5 * 1.1**step, 3) for step in range(19)]  # 0.5 to 2.8


def evaluate_tagger(tagger: Any, posts: Iterable[Post]) -> dict[str, Any]:
    """The contract's hashtag metrics.

    `f1@5` is of the tags the tagger returns by itself, at most five; `f1@5_full` of its first five whatever it
    believes of them; P@1, R@10 and unseen recall look at its first ten. ROUGE is of models that write, the mean rank of
    models that rank.
    """
    return hashtag_metrics(_scored(tagger, posts))


class Cuts(NamedTuple):
    """What a tagger leaves out, as its settings have it."""

    keep: float
    least: float


def choose_cuts(tagger: Any, posts: Iterable[Post]) -> Cuts:
    """What a tagger is better off leaving out, by F1@5 on dev posts.

    The share of the best score below which tags are better left out, and the highest floor that costs next to nothing
    beside the best of both, so that a model which is unsure does not list what it hardly believes.
    """
    ranked = [pair for chunk in _chunks(posts, CHUNK) for pair in zip(chunk, tagger.rank(chunk), strict=True)]

    def worth(keep: float, least: float) -> float:
        lists = ((post, believed(raw, keep, top=5, least=least)) for post, raw in ranked)
        return fmean(score_tags([one.words for one in kept], post.tags).f1_at_5 for post, kept in lists)

    if not ranked:
        return Cuts(0.0, 0.0)
    worths = {cuts: worth(*cuts) for cuts in product(SHARES, FLOORS)}
    keep, least = max(worths, key=worths.__getitem__)
    best = worths[keep, least]
    return Cuts(keep, max(floor for floor in FLOORS if worths[keep, floor] >= best - NEXT_TO_NOTHING))


def choose_temperature(tagger: Tagger, posts: Iterable[Post]) -> float:
    """The temperature under which a ranker's scores say best how often its tags are right: least surprise on dev."""
    ranker: Any = tagger.finder
    totals = torch.zeros(len(TEMPERATURES), dtype=torch.double)
    for scores, gold in _known_scores(tagger, posts, lambda vectors: ranker.model.head(vectors).float()):
        for place, temperature in enumerate(TEMPERATURES):
            surprise = -(scores / temperature).log_softmax(-1)
            totals[place] += sum(float(row[list(tags)].mean()) for row, tags in zip(surprise, gold) if tags)
    return TEMPERATURES[int(totals.argmin())]


def _scored(tagger: Any, posts: Iterable[Post]) -> Iterator[Scored]:
    settings = tagger.settings
    for chunk in _chunks(posts, CHUNK):
        ranks = _ranks(tagger, chunk)
        for post, raw, rank in zip(chunk, tagger.rank(chunk), ranks, strict=True):
            gold_words = post.tag_words or tuple(" ".join(words_of(tag)) for tag in post.tags)
            yield Scored(
                predicted=[one.words for one in raw.candidates[:10]],
                returned=[one.words for one in believed(raw, settings.keep, top=settings.top, least=settings.least)],
                gold=post.tags,
                best=rouge_tokens(_best(raw), settings.language),
                reference=rouge_tokens(gold_words, settings.language),
                seen=post.seen,
                parts=post.parts,
                rank=rank,
            )


def _best(raw: Raw) -> tuple[str, ...]:
    return raw.sequences[0] if raw.sequences else ()


def _ranks(tagger: Any, posts: Sequence[Post]) -> list[int | None]:
    """Of each post, the best place a gold tag has in the ranking of all known ones; past its end if none is known."""
    ranker = getattr(tagger, "finder", None)
    if not isinstance(ranker, Ranker):
        return [None] * len(posts)
    found: list[int | None] = []
    head, temperature = ranker.model.head, tagger.settings.temperature
    for weights, gold in _known_scores(tagger, posts, lambda vectors: head.weights(vectors, temperature=temperature)):
        for row, tags in zip(weights, gold, strict=True):
            best = max((float(row[place]) for place in tags), default=float("-inf"))
            above = row > best
            found.append(1 + int(above.sum()) - int(above[ranker.gone].sum()))
    return found


@torch.inference_mode()
def _known_scores(tagger: Tagger, posts: Iterable[Post], score: Any) -> Iterator[tuple[Tensor, list[set[int]]]]:
    """Scores of every known tag (posts, tags) and the places of the gold ones, some posts at a time."""
    ranker: Any = tagger.finder
    places = {key(words): place for place, words in enumerate(ranker.labels) if words is not None}
    longest = tagger.settings.source
    for chunk in _chunks(posts, 256):
        ids = [row[:longest] or [0] for row in tagger.tokeniser.ids([reading(post.text) for post in chunk])]
        gold = [{places[mark] for tag in post.tags if (mark := key(tag)) in places} for post in chunk]
        yield score(ranker.vectors(ids, longest=longest)).cpu(), gold


def _chunks(posts: Iterable[Post], size: int) -> Iterator[list[Post]]:
    rest = iter(posts)
    while chunk := list(islice(rest, size)):
        yield chunk
