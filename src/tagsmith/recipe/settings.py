"""What a recipe may say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tagsmith.config import check_positive, from_dict, read_toml, set_values
from tagsmith.data.batches import BatchSettings
from tagsmith.errors import ConfigError
from tagsmith.pipelines.phrases import KeyphraseSettings
from tagsmith.pipelines.rank import RankSettings
from tagsmith.pipelines.read import ReadSettings
from tagsmith.pipelines.replies import ReplySettings
from tagsmith.pipelines.write import TagSettings
from tagsmith.train.loop import TrainSettings

Task = Literal["hashtag", "rank", "keyphrase", "classify", "answer", "extract", "read", "reply"]
PIPELINE_SETTINGS: dict[str, Any] = {
    "hashtag": TagSettings,
    "rank": RankSettings,
    "keyphrase": KeyphraseSettings,
    "classify": ReadSettings,
    "answer": ReadSettings,
    "extract": ReadSettings,
    "read": ReadSettings,
    "reply": ReplySettings,
}


@dataclass(frozen=True)
class DataSettings:
    """Which files; paths are relative to `root`."""

    train: tuple[str, ...] = ()
    dev: tuple[str, ...] = ()  # none: one row in twenty of train
    root: str = "data"
    cache: str = ""  # where tokeniser and corpus are kept; runs on the same data may share it
    fields: dict[str, str] = field(default_factory=dict)  # our name -> theirs
    dev_posts: int = 2000  # scored at each evaluation
    elsewhere: float = 0.0  # answer: so large a share of the questions is also asked of a passage that has no answer

    def __post_init__(self) -> None:
        check_positive(self, "dev_posts")
        if not 0 <= self.elsewhere <= 1:
            raise ConfigError(f"data.elsewhere is a share, from 0 to 1, not {self.elsewhere}")


@dataclass(frozen=True)
class TokeniserSettings:
    """What to read texts as."""

    kind: Literal["pieces", "characters", "words", "terms"] = "pieces"
    size: int = 20_000
    alphabet: int = 1000  # characters known to the sub-words
    texts: int = 4_000_000  # learned from the first so many texts and tags
    names: int = 0  # so many of the most frequent tags become pieces of their own
    least: int = 3  # of a backbone's pieces, those that occur so often are kept; 0: all
    singles: int = 0  # of a backbone's single characters, so many of the first are kept anyway; 0: all
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
    data: DataSettings = field(default_factory=DataSettings)
    model: dict[str, Any] = field(default_factory=dict)
    task: Task = "hashtag"
    parts: tuple[Recipe, ...] = ()  # read: readers that are trained together on one Transformer
    weigh: tuple[float, ...] = ()  # how much the loss of each part counts; none: all the same
    start: str = ""  # a bundle whose weights and tokeniser to begin with
    shares: bool = False  # the new bundle has the reader of `start`, which is frozen, and will lie beside it
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
        if (self.task == "read") != bool(self.parts) or len(self.weigh) not in (0, len(self.parts)):
            raise ConfigError("a recipe with parts has the task 'read', and `weigh`, if given, has a number for each")


def read_recipe(path: Path, changes: Sequence[str] = ()) -> Recipe:
    """A TOML recipe with `--set` changes; `base` names one beside it whose settings it starts from, `parts` several."""
    return from_dict(Recipe, set_values(_values(path), changes))


def _values(path: Path) -> dict[str, Any]:
    values = read_toml(path)
    if base := values.pop("base", None):
        for section, settings in _values(path.parent / base).items():
            own = values.get(section)
            values[section] = {**settings, **(own or {})} if isinstance(settings, dict) else own or settings
    if parts := values.get("parts"):
        values["parts"] = [_values(path.parent / part) for part in parts]
    return values


def lying_there(path: Path) -> Path:
    """A recipe's file, or else the same under the name it has unpacked or packed in another way."""
    bare = path.name.removesuffix(".zst").removesuffix(".gz")
    others = (path.with_name(f"{bare}{ending}") for ending in ("", ".gz", ".zst"))
    return path if path.exists() else next((other for other in others if other.exists()), path)
