"""What each route takes and gives: parameters, the record of an input, the row of an answer."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tagsmith.config import from_dict, nearest
from tagsmith.errors import ConfigError, DataError
from tagsmith.pipelines.near import NearStages, near_row
from tagsmith.pipelines.tag import Tagger
from tagsmith.pipelines.work import MAKERS, READS, Reads
from tagsmith.records import (
    Document,
    Labelled,
    Pair,
    Post,
    answers_row,
    labels_row,
    reply_row,
    to_row,
    vector_row,
)
from tagsmith.service.refused import bad_input, too_long

MOST = 100  # answers of one text
GRAIN = 32  # tokens by which posts are padded: most are of one shape then, and share passes
CHANCE_SECONDS = 0.25  # how long requests without a seed share one, so that they can share passes


class Asked(Protocol):
    """The parameters of a request."""

    @property
    def model(self) -> str | None: ...


@dataclass(frozen=True)
class TagParameters:
    """Of /tag."""

    model: str | None = None  # by name; default: by the language of each text
    top: int | None = None  # tags of one text, at most
    evidence: bool = False  # also the segments that the model selected


@dataclass(frozen=True)
class PlainParameters:
    """Of /embed."""

    model: str | None = None


@dataclass(frozen=True)
class ReadParameters:
    """Of /classify, /answer and /extract."""

    model: str | None = None
    top: int | None = None  # labels, answers or keyphrases of one text, at most


@dataclass(frozen=True)
class NearParameters:
    """Of /nearest."""

    model: str | None = None
    top: int | None = None  # posts, at most


@dataclass(frozen=True)
class ReplyParameters:
    """Of /reply."""

    model: str | None = None
    top: int | None = None  # different replies, at most
    seed: int | None = None  # the same number gives the same replies
    about: tuple[str, ...] = ()  # topic words to steer towards
    block: tuple[str, ...] = ()  # words and phrases that no reply says
    longest: int | None = None  # words (Chinese: characters) of a reply, at most
    evidence: bool = False  # also the words attended to, and the topics inferred


@dataclass(frozen=True)
class Task:
    """One route."""

    about: str
    parameters: type[Any]
    row: Callable[[Any], dict[str, Any]]


TASKS = {
    "tag": Task("Hashtags for posts, keyphrases for documents.", TagParameters, to_row),
    "embed": Task("Vectors of length 1: near posts have near vectors.", PlainParameters, vector_row),
    "reply": Task("Several different replies to each text.", ReplyParameters, reply_row),
    "classify": Task("The likeliest labels of each text.", ReadParameters, labels_row),
    "answer": Task("The piece of a passage that answers a question.", ReadParameters, answers_row),
    "extract": Task("The keyphrases that stand in each document.", ReadParameters, to_row),
    "nearest": Task("The nearest posts of the index.", NearParameters, near_row),
}
OF_TEXT: dict[Reads, Callable[[str], Any]] = {  # records that a text alone makes
    "posts": Post,
    "documents": Document,
    "labelled": Labelled,
    "pairs": Pair,
}


def parameters_of(route: str, given: Any) -> Any:
    """The parameters of a request, checked; an unknown one is an error that names the nearest."""
    kind = TASKS[route].parameters
    if not isinstance(given, Mapping):
        raise bad_input(f"'parameters' must be an object, not {_kind(given)}")
    names = [field.name for field in dataclasses.fields(kind)]
    for name in given:
        if name not in names:
            raise bad_input(f"/{route} has no parameter {name!r:.60}; {nearest(name, names)}")
    try:
        made = from_dict(kind, given)
    except ConfigError as problem:
        raise bad_input(str(problem).replace(f"{kind.__name__}.", "the parameter ")) from None
    top, longest = getattr(made, "top", None), getattr(made, "longest", None)
    if top is not None and not 1 <= top <= MOST:
        raise bad_input(f"the parameter top must be 1 to {MOST}, not {top}")
    if longest is not None and longest < 1:
        raise bad_input(f"the parameter longest must be at least 1, not {longest}")
    return made


def record_of(task: str, given: Any, place: str) -> Any:
    """One input as the record that models of this task read."""
    reads = "posts" if task == "near" else READS[task]
    of_row, of_text = MAKERS[reads][0], OF_TEXT.get(reads)
    if isinstance(given, str) and of_text is not None:
        return of_text(given)
    if not isinstance(given, Mapping):
        wanted = "an object" if of_text is None else "a string or an object"
        raise bad_input(f"{place} must be {wanted}, not {_kind(given)}")
    try:
        return of_row(given)
    except DataError as problem:  # the last part is for the command line
        raise bad_input(f"{place}: {str(problem).partition('; rename one')[0]}") from None


def texts_of(given: Any) -> list[str]:
    """Every string of one input that may be long."""
    if isinstance(given, str):
        return [given]
    return [value for value in given.values() if isinstance(value, str)] if isinstance(given, Mapping) else []


class Chance:
    """Seeds for those who give none: a new one every moment."""

    def __init__(self) -> None:
        self._seed, self._until = 0, 0.0

    def seed(self) -> int:
        if time.monotonic() > self._until:
            self._seed, self._until = secrets.randbits(48), time.monotonic() + CHANCE_SECONDS
        return self._seed


def stages_of(pipeline: Any, route: str, asked: Any) -> Any:
    """The stages of a pipeline for these parameters."""
    options = {name: value for name, value in vars(asked).items() if name != "model"}
    if route == "nearest":
        return NearStages(pipeline, top=options["top"] or 10)
    if isinstance(pipeline, Tagger):
        options["grain"] = GRAIN
    if "block" in options:
        options["block"] = options["block"] or None
    try:
        return pipeline.stages(**options)
    except ConfigError as problem:
        raise bad_input(str(problem)) from None


def inputs_of(given: Any, most: int) -> Sequence[Any]:
    """One input or several, as several."""
    several = given if isinstance(given, list) else [given]
    if not several:
        raise bad_input("'inputs' is an empty list; give at least one text")
    if len(several) > most:
        raise too_long(f"the request has {len(several):,} inputs, the most is {most:,}; send several requests")
    return several


def _kind(value: Any) -> str:
    """What a JSON value is, in its own words."""
    names = {bool: "true or false", int: "a number", float: "a number", str: "a string", list: "a list"}
    return "null" if value is None else names.get(type(value), "an object")
