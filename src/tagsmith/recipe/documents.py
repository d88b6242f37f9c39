"""The documents of a recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tagsmith.data.readers import read_documents
from tagsmith.errors import ConfigError
from tagsmith.pipelines.tag import problem, whole
from tagsmith.recipe.posts import Report, rows_of
from tagsmith.recipe.settings import Recipe
from tagsmith.records import Document


def train_documents(recipe: Recipe, report: Report) -> Iterator[Document]:
    """Documents to learn from; without dev files, one in twenty is held back."""
    for number, document in enumerate(_documents(recipe, recipe.data.train, report)):
        if recipe.data.dev or number % 20:
            yield document


def dev_documents(recipe: Recipe, report: Report) -> list[Document]:
    """At most `dev_posts` documents to choose by, from all over the files."""
    if recipe.data.dev:
        every = list(_documents(recipe, recipe.data.dev, report))
    else:
        every = [one for number, one in enumerate(_documents(recipe, recipe.data.train, report)) if number % 20 == 0]
    if not every:
        raise ConfigError(f"{', '.join(recipe.data.dev)}: no document with keyphrases to choose by; check data.dev")
    return every[:: -(-len(every) // recipe.data.dev_posts)]


def _documents(recipe: Recipe, files: Sequence[str], report: Report) -> Iterator[Document]:
    for document in rows_of(recipe, files, read_documents, report):
        if document.keyphrases and problem(whole(document)) is None:
            yield document
