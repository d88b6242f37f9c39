"""Tagsmith: short text in, the words people would file it under out.

import tagsmith
tagsmith.load("hashtag-en").tag(["just landed in Tokyo, ramen time"])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "Answer": "tagsmith.records",
    "Answers": "tagsmith.records",
    "AutoTagger": "tagsmith.pipelines.auto",
    "Document": "tagsmith.records",
    "Embedder": "tagsmith.pipelines.embed",
    "Label": "tagsmith.records",
    "Labelled": "tagsmith.records",
    "Labels": "tagsmith.records",
    "MergedTagger": "tagsmith.pipelines.merge",
    "Pair": "tagsmith.records",
    "Post": "tagsmith.records",
    "Question": "tagsmith.records",
    "Reader": "tagsmith.pipelines.read",
    "Replier": "tagsmith.pipelines.reply",
    "Replies": "tagsmith.records",
    "Reply": "tagsmith.records",
    "Segment": "tagsmith.records",
    "Tag": "tagsmith.records",
    "Tagger": "tagsmith.pipelines.tag",
    "Tags": "tagsmith.records",
    "TagsmithError": "tagsmith.errors",
    "load": "tagsmith.pipelines.load",
}

__all__ = [
    "Answer",
    "Answers",
    "AutoTagger",
    "Document",
    "Embedder",
    "Label",
    "Labelled",
    "Labels",
    "MergedTagger",
    "Pair",
    "Post",
    "Question",
    "Reader",
    "Replier",
    "Replies",
    "Reply",
    "Segment",
    "Tag",
    "Tagger",
    "Tags",
    "TagsmithError",
    "__version__",
    "load",
]

if TYPE_CHECKING:
    from tagsmith.errors import TagsmithError
    from tagsmith.pipelines.auto import AutoTagger
    from tagsmith.pipelines.embed import Embedder
    from tagsmith.pipelines.load import load
    from tagsmith.pipelines.merge import MergedTagger
    from tagsmith.pipelines.read import Reader
    from tagsmith.pipelines.reply import Replier
    from tagsmith.pipelines.tag import Tagger
    from tagsmith.records import (
        Answer,
        Answers,
        Document,
        Label,
        Labelled,
        Labels,
        Pair,
        Post,
        Question,
        Replies,
        Reply,
        Segment,
        Tag,
        Tags,
    )


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
