"""What a recipe may say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from tagsmith.bundle import load_bundle
from tagsmith.config import check_positive, from_dict, read_toml, set_values
from tagsmith.data.batches import BatchSettings
from tagsmith.data.readers import read_documents, read_posts
from tagsmith.errors import ConfigError
from tagsmith.pipelines.phrases import KeyphraseSettings
from tagsmith.pipelines.rank import RankSettings
from tagsmith.pipelines.replies import ReplySettings
from tagsmith.pipelines.tag import whole
from tagsmith.pipelines.write import TagSettings
from tagsmith.records import Document, Post
from tagsmith.text.language import language_of
from tagsmith.train.loop import TrainSettings

Task = Literal["hashtag", "rank", "keyphrase", "reply"]
PIPELINE_SETTINGS: dict[str, type[TagSettings] | type[RankSettings] | type[KeyphraseSettings] | type[ReplySettings]] = {
    "hashtag": TagSettings,
    "rank": RankSettings,
    "keyphrase": KeyphraseSettings,
    "reply": ReplySettings,
}
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
    if task not in SHIPPED_FOR:
        raise ConfigError(f"there is no task {task!r} to train without a recipe; known: {', '.join(SHIPPED_FOR)}")
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
