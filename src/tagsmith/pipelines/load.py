"""From a name to a pipeline."""

from __future__ import annotations

from pathlib import Path

from tagsmith.bundle import load_bundle
from tagsmith.errors import BundleError
from tagsmith.pipelines.tag import Tagger

PIPELINES = {"hashtag": Tagger.of}


def load(name: str | Path) -> Tagger:
    """The pipeline of a shipped model, or of a bundle's folder, by the task it was trained for."""
    bundle = load_bundle(name)
    if bundle.task not in PIPELINES:
        known = ", ".join(sorted(PIPELINES))
        raise BundleError(f"{name} is for the task {bundle.task!r}; this version of Tagsmith knows {known}")
    return PIPELINES[bundle.task](bundle)
