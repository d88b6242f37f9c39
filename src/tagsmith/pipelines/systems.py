"""What can be compared, by name: our models, plain baselines, and two libraries of others where they are installed.

    name --load_system--> System: posts or documents in, ranked phrases out

Systems that extract read a document as title and text, and a post without links, addresses and handles, its hashtags
spelled out; what they find in a post is run together to hashtags.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tagsmith.errors import ConfigError
from tagsmith.pipelines.run import CHUNK
from tagsmith.records import Document, Post
from tagsmith.text.hashtags import hashtag_of
from tagsmith.text.normalise import ADDRESS, HANDLE, LINK
from tagsmith.text.reading import reading

Item = Post | Document
Extract = Callable[[str], list[str]]  # a text to its phrases, best first

BASELINES = {
    "tfidf": "tagsmith.models.gramtfidf:GramTfidf",
    "textrank": "tagsmith.models.textrank:TextRank",
    "singlerank": "tagsmith.models.singlerank:SingleRank",
    "noun-phrases": "tagsmith.models.nounphrases:NounPhrases",
}
LEARNS = ("tfidf",)  # baselines that look at all texts before they rank one
PEERS = ("yake", "keybert")  # each the name of its module and of what pip installs
KEYBERT_MODEL = "TAGSMITH_KEYBERT_MODEL"  # the environment variable that names the model KeyBERT takes


@dataclass(frozen=True)
class System:
    """Something that ranks phrases: as many answers as items, in order."""

    answer: Callable[[Sequence[Item]], list[list[str]]]
    at_once: int = 1  # items that it works on together


def check_systems(names: Sequence[str]) -> None:
    """Every name must be known and what it needs be installed, before anything runs."""
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ConfigError(f"{name!r} is named twice; name each system once")
    for name in names:
        if name in PEERS:
            _check_installed(name)
        elif name not in BASELINES:
            _check_model(name)


def load_system(name: str, items: Callable[[], Iterable[Item]], *, top: int) -> System:
    """The system of that name; `items` gives all that will be asked, to those that learn from texts."""
    if name in BASELINES:
        return _extractor(_baseline(name, items, top))
    if name in PEERS:
        _check_installed(name)
        return _extractor({"yake": _yake, "keybert": _keybert}[name](top))
    from tagsmith.pipelines.load import load_tagger

    tagger: Any = load_tagger(name)
    return System(
        lambda some: [[tag.text for tag in answer.tags] for answer in tagger.tag(some, top=top)], at_once=CHUNK
    )


def plain_text(item: Item) -> str:
    """What a system that extracts reads."""
    if isinstance(item, Document):
        return f"{item.title}. {item.text}" if item.title else item.text
    kept = reading(item.text)
    for mark in (LINK, ADDRESS, HANDLE):
        kept = kept.replace(mark, " ")
    return kept


def _extractor(extract: Extract) -> System:
    def answer(items: Sequence[Item]) -> list[list[str]]:
        return [
            extract(plain_text(item)) if isinstance(item, Document) else _hashtags(extract(plain_text(item)))
            for item in items
        ]

    return System(answer)


def _hashtags(phrases: Sequence[str]) -> list[str]:
    """Phrases run together: "climate-change talks" is "ClimateChangeTalks"."""
    return [hashtag_of(phrase.replace("-", " ")) for phrase in phrases]


def _baseline(name: str, items: Callable[[], Iterable[Item]], top: int) -> Extract:
    module, _, attribute = BASELINES[name].partition(":")
    made = getattr(import_module(module), attribute)
    ranker = made(map(plain_text, items())) if name in LEARNS else made()
    return lambda text: [phrase for phrase, _ in ranker.rank(text, top=top)]


def _yake(top: int) -> Extract:
    """YAKE with its own settings, up to three words."""
    library: Any = import_module("yake")
    extractor = library.KeywordExtractor(n=3, top=top)
    return lambda text: [phrase for phrase, _ in extractor.extract_keywords(text)] if text.strip() else []


def _keybert(top: int) -> Extract:
    """KeyBERT over one to three words without stop words, with its default model or the one the environment names."""
    library: Any = import_module("keybert")
    model = library.KeyBERT(os.environ[KEYBERT_MODEL]) if os.environ.get(KEYBERT_MODEL) else library.KeyBERT()
    options = {"keyphrase_ngram_range": (1, 3), "stop_words": "english", "top_n": top}
    return lambda text: [phrase for phrase, _ in model.extract_keywords(text, **options)] if text.strip() else []


def _check_installed(name: str) -> None:
    if find_spec(name) is None:
        raise ConfigError(f"{name} is not installed, and Tagsmith does not need it; get it with `pip install {name}`")


def _check_model(name: str) -> None:
    from tagsmith.bundle import shipped_bundles
    from tagsmith.pipelines.load import TAGGERS

    shipped = [one.folder.name for one in shipped_bundles() if one.task in TAGGERS]
    if name not in shipped and not (Path(name) / "config.json").exists():
        known = ", ".join([*BASELINES, *PEERS, *shipped])
        raise ConfigError(f"there is no system {name!r}; known: {known}, or the folder of a model you trained")
