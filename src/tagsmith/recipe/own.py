"""Recipes for a user's own file: begin with what is shipped and go on with their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import torch

from tagsmith.bundle import load_bundle, shipped_bundles
from tagsmith.config import from_dict, set_values
from tagsmith.data.readers import read_documents, read_pairs, read_posts, read_rows
from tagsmith.errors import ConfigError
from tagsmith.pipelines.tag import whole
from tagsmith.recipe.settings import Recipe
from tagsmith.records import Document, Pair, Post
from tagsmith.text.language import language_of

METRICS = {"classify": "accuracy", "answer": "f1", "extract": "span_f1"}  # of readers
SHIPPED_FOR = {"hashtag": "hashtag", "rank": "tags", "keyphrase": "keyphrase"}  # how a task's shipped models are called
FIRST = 200  # rows looked at
LEAST_PAIRS = 2

Record = TypeVar("Record")


def own_recipe(
    task: str, data: str, *, out: Path | None, fields: dict[str, str], changes: Sequence[str] = ()
) -> Recipe:
    """A recipe for a user's own file: begin with the shipped model of its language and go on with their posts."""
    if task in METRICS:
        return _own_reader(task, data, out=out, fields=fields, changes=changes)
    if task == "reply":
        return _own_replier(data, out=out, fields=fields, changes=changes)
    if task not in SHIPPED_FOR:
        known = ", ".join([*SHIPPED_FOR, *METRICS, "reply"])
        raise ConfigError(f"there is no task {task!r} to train without a recipe; known: {known}")
    language = language_of(" ".join(_first_texts(task, data, fields)))
    begin = set_values({"start": f"{SHIPPED_FOR[task]}-{language}"}, changes)["start"]
    pipeline = dict(load_bundle(begin).pipeline)
    values: dict[str, Any] = {
        "name": out.name if out else f"my-{task}-model",
        "task": task,
        "start": begin,
        "model": {},
        "data": {"root": "", "train": [data], "fields": fields},
        "batches": {
            "tokens": 2048,
            "parts": 4,
            "targets": pipeline.get("listing", "one"),
            "source": pipeline["source"],
        },
        "train": {"epochs": 3, "learning_rate": 3e-4, "warmup": 0.1, "patience": 2, "log_every": 10},
        "pipeline": pipeline,
    }
    if task == "keyphrase":
        closed = "closed" if pipeline.get("kinds", True) else "all"
        values["batches"] |= {"tokens": 8192, "parts": 1, "targets": closed, "target": 64}
        values["train"] |= {"metric": "present_f1@M"}
    if task == "rank":
        values["batches"] |= {"target": 8, "parts": 1}  # small steps: they are cheap, and own files may be small
        values["train"] |= {"epochs": 10, "learning_rate": 1e-3, "patience": 0, "metric": "p@1"}
    return from_dict(Recipe, set_values(values, changes))


def _own_reader(
    task: str, data: str, *, out: Path | None, fields: dict[str, str], changes: Sequence[str] = ()
) -> Recipe:
    """A recipe for a user's own file: the shipped reader of its language, which stays as it is where there is no GPU.

    A backbone may be named instead; with neither (`start=""`) a small reader is trained from the beginning.
    """
    first = [str(value) for row in islice(read_rows(data), 100) if isinstance(row, dict) for value in row.values()]
    language = language_of(" ".join(first))
    asked = set_values({"backbone": "", "start": None, "model": {}}, changes)
    begin = asked["start"]
    if begin is None:
        begin = "" if asked["backbone"] else _shipped_reader(task, language)
    begun = bool(asked["backbone"] or begin)
    frozen = bool(asked["model"].get("freeze", begun and not torch.cuda.is_available()))
    model: dict[str, Any] = {"hidden": 128, "pool": "max", "ways": "ahead", "freeze": frozen}  # one way: half the time
    pipeline: dict[str, Any] = {"source": 256 if task == "answer" else 128, "meta": 32, "overlap": 32}
    if begin:
        older = load_bundle(begin)
        model, pipeline = {"freeze": frozen}, dict(older.pipeline) if older.task == task else pipeline
    elif not begun:
        model |= {"width": 128, "heads": 4, "inner": 256, "reader_layers": 2}
    values: dict[str, Any] = {
        "name": out.name if out else f"my-{task}-model",
        "task": task,
        "start": begin,
        "model": model,
        "data": {"root": "", "train": [data], "fields": fields},
        "tokeniser": {"least": 0, "size": 12_000},
        "batches": {"tokens": 32 * pipeline["source"], "source": pipeline["source"]},
        "train": {
            "epochs": 6,
            "learning_rate": 2e-3 if frozen else 1e-4 if begun else 1e-3,
            "warmup": 0.1,
            "patience": 2,
            "log_every": 20,
            "metric": METRICS[task],
        },
        "pipeline": {**pipeline, "language": language},
    }
    return from_dict(Recipe, set_values(values, changes))


def _shipped_reader(task: str, language: str) -> str:
    """The shipped reader of a language, that of the task if there is one."""
    found = [one for one in shipped_bundles() if one.task in METRICS and one.language == language]
    found.sort(key=lambda one: one.task != task)
    return found[0].folder.name if found else ""


def _own_replier(data: str, *, out: Path | None, fields: dict[str, str], changes: Sequence[str] = ()) -> Recipe:
    """A recipe for a user's own pairs: the shipped model of their language, or a small one from the beginning."""
    pairs = _first(read_pairs(data, rename=fields), Pair)
    if not any(pair.responses for pair in pairs):
        raise ConfigError(_nothing_to_learn(data, len(pairs), "responses", "'response' or 'responses'", "response"))
    if sum(bool(pair.responses) for pair in pairs) < LEAST_PAIRS:
        raise ConfigError(f"{data} has one pair to learn from; give at least {LEAST_PAIRS}: one is kept to choose by")
    language = language_of(" ".join(pair.query for pair in pairs))
    shipped = next(
        (one.folder.name for one in shipped_bundles() if (one.task, one.language) == ("reply", language)), ""
    )
    begin = set_values({"start": shipped}, changes)["start"]
    model: dict[str, Any] = {}
    pipeline: dict[str, Any] = {"language": language, "source": 56, "steps": 40, "no_repeat": 3}
    if begin:
        pipeline = dict(load_bundle(begin).pipeline)
    else:
        model = {"width": 256, "heads": 4, "inner": 1024, "layers": 4, "longest": 97, "tied": True}
    values: dict[str, Any] = {
        "name": out.name if out else "my-reply-model",
        "task": "reply",
        "start": begin,
        "model": model,
        "data": {"root": "", "train": [data], "fields": fields},
        "tokeniser": {"size": 8000, "alphabet": 4000 if language == "zh" else 300},
        "batches": {"tokens": 4096, "targets": "one", "source": pipeline["source"], "target": pipeline["steps"]},
        "train": {
            "epochs": 3 if begin else 10,
            "learning_rate": 2e-4 if begin else 5e-4,
            "warmup": 0.1,
            "patience": 2,
            "log_every": 10,
            "metric": "loss",
        },
        "pipeline": pipeline,
    }
    return from_dict(Recipe, set_values(values, changes))


def _first_texts(task: str, data: str, fields: dict[str, str]) -> list[str]:
    """The texts of a user's first rows, some of which must have what is to be learned."""
    if task == "keyphrase":
        documents = _first(read_documents(data, rename=fields), Document)
        if not any(one.keyphrases for one in documents):
            raise ConfigError(_nothing_to_learn(data, len(documents), "keyphrases", "'keyphrases'", "keyphrases"))
        return [whole(one) for one in documents]
    posts = _first(read_posts(data, rename=fields), Post)
    if not any(one.tags for one in posts):
        raise ConfigError(_nothing_to_learn(data, len(posts), "tags", "'hashtags' or 'tags'", "hashtags"))
    return [one.text for one in posts]


def _first(rows: Iterable[Any], kind: type[Record]) -> list[Record]:
    """The first rows that could be read."""
    return [row for row in islice(rows, FIRST) if isinstance(row, kind)]


def _nothing_to_learn(data: str, count: int, what: str, where: str, field: str) -> str:
    return (
        f"the first {count} rows of {data} have no {what}; they belong in a field {where} "
        f"(rename yours with --field {field}=NAME)"
    )
