"""New tags for a trained ranker from a few examples each, without training; and tags taken out again.

posts with new tags --vectors, their mean--> a row for each tag, beside the trained ones --> a new bundle
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tagsmith.bundle import Bundle
from tagsmith.config import from_dict, nearest
from tagsmith.errors import BundleError, ConfigError, DataError
from tagsmith.pipelines.rank import Ranker, RankSettings
from tagsmith.pipelines.tag import problem
from tagsmith.records import Post
from tagsmith.text.hashtags import hashtag_of, key, words_of
from tagsmith.text.reading import reading

DOUBT = 2.0  # examples' worth of trust in the mean of all posts
CHANCE = 0.05  # a new tag gets on its own examples: a row made from a mean is more timid than a trained one
MOST = 5.0  # added to its scores for that


@dataclass(frozen=True)
class Learned:
    """What came of the examples."""

    bundle: Bundle
    new: dict[str, int]  # tag -> examples
    known: tuple[str, ...]  # tags in the data that the model knew already
    left_out: int  # posts without text that can be read


def learn_tags(bundle: Bundle, posts: Iterable[Post]) -> Learned:
    """The bundle with a row for every tag of the posts that it did not know; what it knew keeps its scores."""
    _check_ranks(bundle)
    labels = {key(words): place for place, words in enumerate(bundle.labels) if words is not None}
    examples: defaultdict[str, list[int]] = defaultdict(list)
    texts: list[str] = []
    names: dict[str, tuple[str, str]] = {}  # key -> words, spelling
    known: dict[str, None] = {}
    left_out = 0
    for post in posts:
        if problem(post.text) is not None:
            left_out += 1
            continue
        new = {key(tag): tag for tag in post.tags}
        known |= dict.fromkeys(tag for mark, tag in new.items() if mark in labels)
        wanted = {mark: tag for mark, tag in new.items() if mark and mark not in labels}
        if wanted:
            texts.append(post.text)
        for mark, tag in wanted.items():
            examples[mark].append(len(texts) - 1)
            names.setdefault(mark, (" ".join(words_of(tag)), tag))
    if not examples:
        why = "it knows all their tags already" if known else "they have no tags"
        raise DataError(f"there is nothing to learn from these posts: {why}; give posts with tags new to it")
    vectors = _vectors(bundle, texts)
    made = _with_rows(bundle, [vectors[places] for places in examples.values()], [names[mark] for mark in examples])
    new_tags = {names[mark][1]: len(places) for mark, places in examples.items()}
    return Learned(made, new_tags, tuple(known), left_out)


def forget_tag(bundle: Bundle, tag: str) -> Bundle:
    """The bundle without a tag; all others keep their scores."""
    _check_ranks(bundle)
    marks = [key(words) if words is not None else "" for words in bundle.labels]
    if key(tag) not in marks or not key(tag):
        known = sorted(words for words in bundle.labels if words is not None)
        close = nearest(" ".join(words_of(tag)), known) if len(known) < 20 else _close(tag, known)
        raise ConfigError(f"{bundle.name} does not know the tag {tag!r}; {close}")
    place = marks.index(key(tag))
    labels = tuple(None if number == place else words for number, words in enumerate(bundle.labels))
    return replace(bundle, labels=labels)


def _close(tag: str, known: Sequence[str]) -> str:
    found = nearest(" ".join(words_of(tag)), known)
    return found if found.startswith("did") else f"it knows {len(known):,} others"


def _check_ranks(bundle: Bundle) -> None:
    if bundle.task != "rank":
        raise BundleError(f"{bundle.name} is for the task {bundle.task!r}; only models that rank known tags learn more")


@torch.inference_mode()
def _vectors(bundle: Bundle, texts: Sequence[str]) -> Tensor:
    """The vectors of texts, as the model makes them.  -> (texts, width)"""
    ranker = Ranker(bundle.model, bundle.labels)
    longest = from_dict(RankSettings, bundle.pipeline).source
    ids = [row[:longest] or [0] for row in bundle.tokeniser.ids([reading(text) for text in texts])]
    parts = [ranker.vectors(ids[start : start + 256], longest=longest) for start in range(0, len(ids), 256)]
    return torch.cat(parts).float().cpu()


def _row(bundle: Bundle, examples: Tensor) -> tuple[Tensor, Tensor]:
    """The row of a new tag and its bias, raised where it would hardly be found on its own examples."""
    head: Any = bundle.model.head
    row, bias = head.row_for(examples, doubt=DOUBT)
    temperature = from_dict(RankSettings, bundle.pipeline).temperature
    raised = head.lacking(examples, row, bias, chance=CHANCE, temperature=temperature)
    return row, bias + raised.clamp(0.0, MOST)


def _with_rows(bundle: Bundle, examples: Sequence[Tensor], names: Sequence[tuple[str, str]]) -> Bundle:
    """The bundle with one more row for each tag."""
    model: Any = bundle.model
    rows, biases = zip(*(_row(bundle, each) for each in examples), strict=True)
    weights = dict(model.state_dict())
    kind = weights["head.learned_rows"].dtype
    for name, new in (("head.learned_rows", torch.stack(rows)), ("head.learned_bias", torch.stack(biases))):
        weights[name] = torch.cat([weights[name], new.to(weights[name].device, kind)])
    grown = type(model)(replace(model.config, learned=model.config.learned + len(examples)))
    grown.load_state_dict(weights, assign=True)
    spelled = {key(words): tag for words, tag in names if hashtag_of(words) != tag}
    return replace(
        bundle,
        model=grown.to(model.head.center.device).eval(),
        labels=(*bundle.labels, *(words for words, _ in names)),
        spellings={**bundle.spellings, **spelled},
    )
