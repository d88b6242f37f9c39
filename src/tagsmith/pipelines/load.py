"""From a name to a pipeline, by the task the model was trained for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tagsmith.bundle import Bundle, load_bundle
from tagsmith.config import from_dict
from tagsmith.errors import BundleError
from tagsmith.pipelines.embed import Embedder
from tagsmith.pipelines.heads import Answerer, Extractor, Labeller
from tagsmith.pipelines.join import ExtractTagger
from tagsmith.pipelines.keyphrase import KeyphraseTagger
from tagsmith.pipelines.phrases import KeyphraseSettings, finder_of
from tagsmith.pipelines.rank import Ranker, RankSettings
from tagsmith.pipelines.read import Head, Reader, ReadSettings
from tagsmith.pipelines.reply import Replier
from tagsmith.pipelines.seen import seen_by
from tagsmith.pipelines.tag import Tagger
from tagsmith.pipelines.write import TagSettings, Writer
from tagsmith.text.terms import coder_of


def writing_tagger(bundle: Bundle) -> Tagger:
    """The pipeline of a model that writes tags."""
    model, pieces = bundle.model, bundle.tokeniser
    settings = from_dict(TagSettings, bundle.pipeline)
    return Tagger(Writer(model, pieces), pieces, settings, spellings=bundle.spellings)  # type: ignore[arg-type]


def ranking_tagger(bundle: Bundle) -> Tagger:
    """The pipeline of a model that ranks known tags."""
    settings = from_dict(RankSettings, bundle.pipeline)
    return Tagger(Ranker(bundle.model, bundle.labels), bundle.tokeniser, settings, spellings=bundle.spellings)


def keyphrase_tagger(bundle: Bundle) -> KeyphraseTagger:
    """The pipeline of a model that writes keyphrases."""
    coder = coder_of(bundle.tokeniser)
    return KeyphraseTagger(finder_of(bundle.model, coder), coder, from_dict(KeyphraseSettings, bundle.pipeline))


def head_of(task: str, labels: Sequence[str | None]) -> Head:
    """What a reader's scores mean."""
    names = [label or "" for label in labels]
    heads: dict[str, Callable[[], Head]] = {
        "classify": lambda: Labeller(names),
        "answer": Answerer,
        "extract": lambda: Extractor(names),
    }
    return heads[task]()


def reader_of(bundle: Bundle) -> Reader:
    """The pipeline of a model that reads a text by the light of its title or of a question."""
    model: Any = bundle.model
    pieces: Any = bundle.tokeniser
    settings = from_dict(ReadSettings, bundle.pipeline)
    seen = seen_by(model.reader) if bundle.common else None
    return Reader(model, pieces, head_of(bundle.task, bundle.labels), settings, seen=seen)


TAGGERS: dict[str, Callable[[Bundle], Any]] = {
    "hashtag": writing_tagger,
    "rank": ranking_tagger,
    "keyphrase": keyphrase_tagger,
    "extract": lambda bundle: ExtractTagger(reader_of(bundle)),
}
READERS = ("classify", "answer", "extract")
PIPELINES: dict[str, Callable[[Bundle], Any]] = {
    **TAGGERS,
    "embed": Embedder.of,
    "reply": Replier.of,
    **dict.fromkeys(READERS, reader_of),
}


def load(name: str | Path) -> Any:
    """The pipeline of a shipped model, or of a bundle's folder."""
    bundle = load_bundle(name)
    if bundle.task not in PIPELINES:
        known = ", ".join(sorted(PIPELINES))
        raise BundleError(f"{name} is for the task {bundle.task!r}; this version of Tagsmith knows {known}")
    return PIPELINES[bundle.task](bundle)


def load_reader(name: str | Path, task: str) -> Reader:
    """The same, for models that read for one task."""
    bundle = load_bundle(name)
    if bundle.task != task:
        raise BundleError(f"{name} is for the task {bundle.task!r}, not for {task!r}; take another model")
    return reader_of(bundle)


def load_tagger(name: str | Path) -> Any:
    """The same, for models that tag."""
    return tagger_of(load_bundle(name))


def tagger_of(bundle: Bundle) -> Any:
    """The tagger of a loaded bundle."""
    if bundle.task in TAGGERS:
        return TAGGERS[bundle.task](bundle)
    if bundle.task in READERS:
        raise BundleError(f"{bundle.name} was trained to {bundle.task}; use `tagsmith {bundle.task}` with it")
    raise BundleError(f"{bundle.name} is for the task {bundle.task!r} and does not tag; take another model")


def load_replier(name: str | Path) -> Replier:
    """The same, for models that reply."""
    bundle = load_bundle(name)
    if bundle.task != "reply":
        raise BundleError(f"{bundle.name} is for the task {bundle.task!r} and does not reply; take another model")
    return Replier.of(bundle)
