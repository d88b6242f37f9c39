"""The queries and responses of a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tagsmith.data.readers import read_pairs
from tagsmith.errors import ConfigError
from tagsmith.pipelines.tag import problem
from tagsmith.recipe.posts import Report, rows_of
from tagsmith.recipe.settings import Recipe
from tagsmith.records import Pair
from tagsmith.text.reading import reading


def train_pairs(recipe: Recipe, report: Report) -> Iterator[Pair]:
    """Pairs to learn from, as the model reads them; without dev files, one in twenty is held back."""
    for number, pair in enumerate(_pairs(recipe, recipe.data.train, report)):
        if recipe.data.dev or number % 20:
            yield from _turned(recipe, Pair(reading(pair.query), tuple(map(reading, pair.responses))))


def dev_pairs(recipe: Recipe, report: Report) -> list[Pair]:
    """At most `dev_posts` pairs to choose by, from all over the files."""
    if recipe.data.dev:
        every = list(_pairs(recipe, recipe.data.dev, report))
    else:
        every = [one for number, one in enumerate(_pairs(recipe, recipe.data.train, report)) if number % 20 == 0]
    if not every:
        raise ConfigError(f"{', '.join(recipe.data.dev)}: no query with responses to choose by; check data.dev")
    some = every[:: -(-len(every) // recipe.data.dev_posts)]
    return [turned for pair in some for turned in _turned(recipe, pair)]


def _turned(recipe: Recipe, pair: Pair) -> Iterator[Pair]:
    """The pair, or, for a model that judges, each response as a query that the query answers."""
    if recipe.pipeline.get("direction") == "backward":
        for response in pair.responses:
            yield replace(pair, query=response, responses=(pair.query,))
    else:
        yield pair


def _pairs(recipe: Recipe, files: Sequence[str], report: Report) -> Iterator[Pair]:
    for pair in rows_of(recipe, files, read_pairs, report):
        kept = tuple(one for one in pair.responses if problem(one) is None)
        if kept and problem(pair.query) is None:
            yield replace(pair, responses=kept)
