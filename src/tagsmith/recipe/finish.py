"""A trained tagger as a bundle, with its dev scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tagsmith.bundle import Bundle
from tagsmith.config import to_dict
from tagsmith.pipelines.evaluate import evaluate_tagger
from tagsmith.pipelines.tag import Tagger
from tagsmith.recipe.settings import Recipe
from tagsmith.records import Post


def dev_scores(tagger: Tagger, dev: Sequence[Post]) -> dict[str, float]:
    """The metrics over all dev posts, without their parts."""
    return {name: value for name, value in evaluate_tagger(tagger, dev).items() if name != "parts"}


def finished(
    recipe: Recipe, tagger: Tagger, model: Any, dev: Sequence[Post], *, labels: Sequence[str] = ()
) -> tuple[Bundle, dict[str, float]]:
    """The bundle of a tagger whose settings are chosen, and how good it is."""
    tokeniser: Any = tagger.tokeniser
    made = Bundle(
        name=recipe.name,
        task=recipe.task,
        language=tagger.settings.language,
        model=model,
        tokeniser=tokeniser,
        pipeline=to_dict(tagger.settings),
        spellings=tagger.spellings,
        labels=tuple(labels),
    )
    return made, dev_scores(tagger, dev)
