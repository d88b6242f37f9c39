"""The models of a service: which routes each answers, in which language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tagsmith.bundle import Bundle, describe_bundle, find_bundle, load_bundle, shipped_bundles
from tagsmith.errors import BundleError, ConfigError
from tagsmith.pipelines.embed import Embedder
from tagsmith.pipelines.keyphrase import KeyphraseTagger
from tagsmith.pipelines.load import PIPELINES
from tagsmith.pipelines.rank import Ranker
from tagsmith.pipelines.read import Reader
from tagsmith.pipelines.reply import Replier
from tagsmith.pipelines.tag import Tagger

ROUTES = {  # of each task
    "hashtag": ("tag",),
    "rank": ("tag", "embed"),
    "keyphrase": ("tag",),
    "embed": ("embed",),
    "reply": ("reply",),
    "classify": ("classify",),
    "answer": ("answer",),
    "extract": ("extract",),
}


@dataclass(frozen=True)
class Served:
    """One model and what it is asked for."""

    name: str
    task: str
    language: str
    pipelines: Mapping[str, Any]  # by route


def served(name: str, pipeline: Any) -> Served:
    """A pipeline under a name; a ranker also gives vectors."""
    task = task_of(pipeline)
    if task not in ROUTES:
        raise ConfigError(f"{name} is a {type(pipeline).__name__}; served are pipelines of {', '.join(ROUTES)}")
    routes = dict.fromkeys(ROUTES[task], pipeline)
    if task == "rank":
        routes["embed"] = Embedder(pipeline.finder, pipeline.tokeniser, pipeline.settings, name=name, fingerprint="")
    return Served(name, task, pipeline.settings.language, routes)


def task_of(pipeline: Any) -> str:
    """What a pipeline does."""
    if isinstance(pipeline, Tagger):
        return "rank" if isinstance(pipeline.finder, Ranker) else "hashtag"
    kinds: dict[type, str] = {KeyphraseTagger: "keyphrase", Embedder: "embed", Replier: "reply"}
    if isinstance(pipeline, Reader):
        return pipeline.task
    return kinds.get(type(pipeline), getattr(pipeline, "task", ""))


def load_pipelines(names: Sequence[str]) -> dict[str, Any]:
    """Pipelines by name: shipped models, folders, or `name=folder`; equal weights are held once."""
    bundles: dict[str, Bundle] = {}
    for given in names:
        alias, equals, folder = given.partition("=")
        where = folder if equals else given
        name = alias if equals else _name_of(find_bundle(where))
        if name in bundles:
            raise ConfigError(f"two models are called {name!r}; give one another name: --models NAME={where}")
        bundle = load_bundle(where)
        if bundle.task not in ROUTES:
            raise BundleError(f"{where} is for the task {bundle.task!r}; served are {', '.join(ROUTES)}")
        bundles[name] = bundle
    share_weights([bundle.model for bundle in bundles.values()])
    return {name: PIPELINES[bundle.task](bundle) for name, bundle in bundles.items()}


def _name_of(folder: Path) -> str:
    """A shipped model goes by its folder, any other by what it calls itself."""
    return folder.name if folder in [one.folder for one in shipped_bundles()] else describe_bundle(folder).name


def share_weights(models: Sequence[nn.Module]) -> int:
    """Weights that are equal to the bit are held once, whoever has them: twins, or models on one backbone.

    Returns how many bytes that saves.
    """
    known: dict[tuple[Any, ...], list[torch.Tensor]] = {}
    saved = 0
    for model in models:
        for weight in model.parameters():
            value = weight.data
            if value.numel() < 1024:
                continue
            mark = (value.shape, value.dtype, value.device, tuple(value.flatten()[:8].tolist()))
            same = next((one for one in known.get(mark, ()) if torch.equal(one, value)), None)
            if same is None:
                known.setdefault(mark, []).append(value)
            elif same.data_ptr() != value.data_ptr():
                weight.data = same
                saved += value.numel() * value.element_size()
    return saved


def all_shipped() -> list[str]:
    """Every model inside the package."""
    return [one.folder.name for one in shipped_bundles() if one.task in ROUTES]


def how_to_load(route: str, loaded: Sequence[str]) -> str:
    """The command that serves what is served now and a model for one more route."""
    tasks = [task for task, routes in ROUTES.items() if route in routes]
    return loading(tasks, loaded)


def loading(tasks: Sequence[str], loaded: Sequence[str]) -> str:
    """The same for a model of one of these tasks."""
    fitting = [one.folder.name for one in shipped_bundles() if one.task in tasks]
    return f"tagsmith serve --models {','.join([*loaded, *(fitting or ['FOLDER'])])}"
