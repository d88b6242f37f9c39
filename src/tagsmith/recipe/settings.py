"""What a recipe may say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch

from tagsmith.bundle import load_bundle
from tagsmith.config import check_positive, from_dict, read_toml, set_values
from tagsmith.data.batches import BatchSettings
from tagsmith.data.readers import read_documents, read_posts, read_rows
from tagsmith.errors import ConfigError
from tagsmith.pipelines.phrases import KeyphraseSettings
from tagsmith.pipelines.rank import RankSettings
from tagsmith.pipelines.read import ReadSettings
from tagsmith.pipelines.replies import ReplySettings
from tagsmith.pipelines.tag import whole
from tagsmith.pipelines.write import TagSettings
from tagsmith.records import Document, Post
from tagsmith.text.language import language_of
from tagsmith.train.loop import TrainSettings

Task = Literal["hashtag", "rank", "keyphrase", "classify", "answer", "extract", "reply"]
PIPELINE_SETTINGS: dict[str, Any] = {
    "hashtag": TagSettings,
    "rank": RankSettings,
    "keyphrase": KeyphraseSettings,
    "classify": ReadSettings,
    "answer": ReadSettings,
    "extract": ReadSettings,
    "reply": ReplySettings,
}
METRICS = {"classify": "accuracy", "answer": "f1", "extract": "span_f1"}  # of readers
SHIPPED_FOR = {"hashtag": "hashtag", "rank": "tags", "keyphrase": "keyphrase"}  # how a task's shipped models are called


@dataclass(frozen=True)
class DataSettings:
    """Which files; paths are relative to `root`."""

    train: tuple[str, ...]
    dev: tuple[str, ...] = ()  # none: one row in twenty of train
    root: str = "data"
    cache: str = ""  # where tokeniser and corpus are kept; runs on the same data may share it
    fields: dict[str, str] = field(default_factory=dict)  # our name -> theirs
    dev_posts: int = 2000  # scored at each evaluation

    def __post_init__(self) -> None:
        check_positive(self, "dev_posts")


@dataclass(frozen=True)
class TokeniserSettings:
    """What to read texts as."""

    kind: Literal["pieces", "characters", "words", "terms"] = "pieces"
    size: int = 20_000
    alphabet: int = 1000  # characters known to the sub-words
    texts: int = 4_000_000  # learned from the first so many texts and tags
    names: int = 0  # so many of the most frequent tags become pieces of their own
    least: int = 3  # of a backbone's pieces, those that occur so often are kept; 0: all
    extra: int = 100  # unknown words of one document that terms tell apart


@dataclass(frozen=True)
class LabelSettings:
    """Which tags a ranker knows."""

    least: int = 1  # posts that have the tag
    most: int = 100_000  # tags; the most frequent ones
    names: str = ""  # a TSV of tag, spelling and words, for tags whose training data only has them run together


@dataclass(frozen=True)
class Recipe:
    """Everything about one training run."""

    name: str
    data: DataSettings
    model: dict[str, Any]
    task: Task = "hashtag"
    start: str = ""  # a bundle whose weights and tokeniser to begin with
    backbone: str = ""  # a Hugging Face folder of a BERT, to begin the reader with
    teacher: str = ""  # a bundle with the same pieces, from which to learn besides
    teacher_share: float = 0.5  # of the loss
    weights: Literal["int8", "fp16"] = "int8"
    tokeniser: TokeniserSettings = field(default_factory=TokeniserSettings)
    labels: LabelSettings = field(default_factory=LabelSettings)
    batches: BatchSettings = field(default_factory=BatchSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    pipeline: dict[str, Any] = field(default_factory=dict)  # the settings of the task's pipeline

    def __post_init__(self) -> None:
        from_dict(PIPELINE_SETTINGS[self.task], self.pipeline)  # says what is wrong with them


def read_recipe(path: Path, changes: Sequence[str] = ()) -> Recipe:
    """A TOML recipe with `--set` changes; `base` names one beside it whose settings it starts from."""
    values = read_toml(path)
    if base := values.pop("base", None):
        for section, settings in read_toml(path.parent / base).items():
            own = values.get(section)
            values[section] = {**settings, **(own or {})} if isinstance(settings, dict) else own or settings
    return from_dict(Recipe, set_values(values, changes))


def own_recipe(
    task: str, data: str, *, out: Path | None, fields: dict[str, str], changes: Sequence[str] = ()
) -> Recipe:
    """A recipe for a user's own file: begin with the shipped model of its language and go on with their posts."""
    if task in METRICS:
        return _own_reader(task, data, out=out, fields=fields, changes=changes)
    if task not in SHIPPED_FOR:
        known = ", ".join([*SHIPPED_FOR, *METRICS])
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
    """A recipe for a user's own file: a backbone that stays as it is where there is no GPU, or a small reader."""
    asked = set_values({"backbone": "", "start": "", "model": {}}, changes)
    begun = bool(asked["backbone"] or asked["start"])
    frozen = bool(asked["model"].get("freeze", begun and not torch.cuda.is_available()))
    source = 256 if task == "answer" else 128
    model: dict[str, Any] = {"hidden": 128, "pool": "max", "freeze": frozen}
    pipeline: dict[str, Any] = {"source": source, "meta": 32, "overlap": 32}
    if asked["start"]:
        older = load_bundle(asked["start"])
        model, pipeline = {"freeze": frozen}, dict(older.pipeline) if older.task == task else pipeline
    elif not begun:
        model |= {"width": 128, "heads": 4, "inner": 256, "reader_layers": 2}
    first = [str(value) for row in islice(read_rows(data), 100) if isinstance(row, dict) for value in row.values()]
    values: dict[str, Any] = {
        "name": out.name if out else f"my-{task}-model",
        "task": task,
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
        "pipeline": {**pipeline, "language": language_of(" ".join(first))},
    }
    return from_dict(Recipe, set_values(values, changes))


def _first_texts(task: str, data: str, fields: dict[str, str]) -> list[str]:
    """The texts of a user's first rows, some of which must have what is to be learned."""
    if task == "keyphrase":
        documents = [one for one in islice(read_documents(data, rename=fields), 200) if isinstance(one, Document)]
        texts, known = [whole(one) for one in documents], any(one.keyphrases for one in documents)
        what, where, field = "keyphrases", "'keyphrases'", "keyphrases"
    else:
        posts = [one for one in islice(read_posts(data, rename=fields), 200) if isinstance(one, Post)]
        texts, known = [one.text for one in posts], any(one.tags for one in posts)
        what, where, field = "tags", "'hashtags' or 'tags'", "hashtags"
    if not known:
        raise ConfigError(
            f"the first {len(texts)} rows of {data} have no {what}; they belong in a field {where} "
            f"(rename yours with --field {field}=NAME)"
        )
    return texts
