"""The systems: a table of names, and one file for each, read top to bottom like its paper."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tagsmith.config import nearest
from tagsmith.errors import ConfigError

CATALOG = {
    "segtrm": "tagsmith.models.segtrm:SegTrm",
    "tweet2vec": "tagsmith.models.tweet2vec:Tweet2Vec",
    "quick": "tagsmith.models.quick:Quick",
    "keyphrase": "tagsmith.models.keyphrase:Keyphrase",
    "slots": "tagsmith.models.slots:Slots",
    "hypernet": "tagsmith.models.hypernet:Hypernet",
    "relevance": "tagsmith.models.relevance:Relevance",
}


def find_model(name: str) -> Any:
    """The model class of that name; its settings are `Model.Config`."""
    if name not in CATALOG:
        raise ConfigError(f"there is no model {name!r}; {nearest(name, sorted(CATALOG))}")
    module, _, attribute = CATALOG[name].partition(":")
    return getattr(import_module(module), attribute)
