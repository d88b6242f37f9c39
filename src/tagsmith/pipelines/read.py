"""A title and a text, or a question and a passage, to a label, keyphrases or an answer.

item --pieces--> windows --model--> scores of each window --put together--> Labels | Tags | Answers
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from tagsmith.config import check_positive
from tagsmith.data.reading import collated
from tagsmith.data.windows import Pair, Window, WindowSettings, windows
from tagsmith.errors import ConfigError
from tagsmith.models.hypernet import Hypernet
from tagsmith.pipelines.run import CHUNK, run
from tagsmith.pipelines.seen import Seen
from tagsmith.records import Answers, Document, Labelled, Labels, Post, Question, Tags
from tagsmith.text.pieces import Pieces

MOST = {"classify": 3, "answer": 1, "extract": 20}  # answers of one item, if not said otherwise


@dataclass(frozen=True)
class ReadSettings:
    """How a trained model reads; kept in its bundle."""

    language: Literal["en", "zh"] = "en"
    source: int = 384  # pieces of a window, title or question among them
    meta: int = 64  # pieces of a title or question, at most
    overlap: int = 96  # pieces that two windows of a long text share
    lead: bool = False  # the first sentence of a text without a title stands for it
    top: int | None = None  # answers returned, at most; None: as the task has it
    temperature: float = 1.0  # of labels, chosen on dev
    margin: float = 0.0  # an answer must be so much better than none, chosen on dev
    spare: float = 0.0  # the margin leaves this share of the F1 of questions that have an answer; 0: best over all
    longest: int = 30  # pieces of an answer, at most
    typed: bool = False  # keyphrases of several kinds are told apart
    keep: float = 1.0  # keyphrases this likely are returned even if the best path has others; 1: none
    single: float = 1.0  # factor on keyphrases of one word when they are ranked, chosen on dev with `keep`

    def __post_init__(self) -> None:
        check_positive(self, "longest")
        if self.temperature <= 0:
            raise ConfigError(f"ReadSettings.temperature must be above 0, not {self.temperature}")
        self.windows()

    def windows(self) -> WindowSettings:
        """What of them is about windows."""
        return WindowSettings(self.source, self.meta, self.overlap)


class Raw(Protocol):
    """What a head made of one window; each knows its own."""


class Head(Protocol):
    """What a task adds: which text is read by the light of which, and what the scores mean."""

    reads: str
    words: bool  # words of title and text are read, else pieces of the body
    first_only: bool  # of a long text only the beginning is read

    def item(self, given: Any) -> Any: ...
    def problem(self, item: Any) -> str | None: ...
    def pair(self, item: Any, settings: ReadSettings) -> Pair: ...
    def raws(self, model: Hypernet, scores: Tensor, some: Sequence[Window], settings: ReadSettings) -> list[Any]: ...
    def finish(self, item: Any, some: Sequence[Window], raws: Sequence[Any], settings: ReadSettings) -> Any: ...
    def failed(self, item: Any, why: str) -> Any: ...


class Reader:
    """Records in, answers out: same length, same order; which of `classify`, `answer`, `extract` its model can."""

    def __init__(
        self,
        model: Hypernet,
        pieces: Pieces,
        head: Head,
        settings: ReadSettings,
        *,
        memory: dict[Any, list[Window]] | None = None,  # windows of items that are read again and again
        seen: Seen | None = None,  # where its Transformer is another model's too
    ) -> None:
        self.model = model
        self.pieces = pieces
        self.head = head
        self.settings = settings
        self.task: str = model.config.asked
        self.memory = memory
        self.seen = seen

    @property
    def reads(self) -> str:
        """The records that it takes: labelled, questions or documents."""
        return self.head.reads

    def classify(self, texts: Sequence[str | Labelled], *, top: int | None = None) -> list[Labels]:
        """The likeliest labels of each text."""
        return self._asked("classify", texts, top)

    def answer(self, questions: Sequence[Question], *, top: int | None = None) -> list[Answers]:
        """Where each passage answers its question; nothing where it does not."""
        return self._asked("answer", questions, top)

    def extract(self, documents: Sequence[str | Post | Document], *, top: int | None = None) -> list[Tags]:
        """The keyphrases that stand in each document."""
        return self._asked("extract", documents, top)

    def stream(self, items: Iterable[Any], *, top: int | None = None) -> Iterator[tuple[Any, Any]]:
        """Each item with its answer, for any number of them in bounded memory."""
        rest = map(self.head.item, items)
        settings = self.settings if top is None else replace(self.settings, top=top)
        while chunk := list(islice(rest, CHUNK)):
            yield from zip(chunk, self._answers(chunk, settings), strict=True)

    def raw(self, items: Sequence[Any]) -> list[tuple[list[Window], list[Any]]]:
        """The windows of each item and what the model made of them, none where it cannot be read: for measuring."""
        made = self.windows(items) if self.memory is None else self._remembered(items, self.memory)
        return list(zip(made, self.scored(made), strict=True))

    def _remembered(self, items: Sequence[Any], memory: dict[Any, list[Window]]) -> list[list[Window]]:
        new = [item for item in items if item not in memory]
        memory.update(zip(new, self.windows(new), strict=True))
        return [memory[item] for item in items]

    def windows(self, items: Sequence[Any]) -> list[list[Window]]:
        """The windows of each item, none where it cannot be read."""
        good = [place for place, item in enumerate(items) if self.head.problem(item) is None]
        pairs = [self.head.pair(items[place], self.settings) for place in good]
        made = windows(
            pairs,
            self.pieces,
            self.settings.windows(),
            words=self.head.words,
            first_only=self.head.first_only,
        )
        found: list[list[Window]] = [[] for _ in items]
        for place, some in zip(good, made, strict=True):
            found[place] = some
        return found

    def scored(self, made: Sequence[Sequence[Window]]) -> list[list[Any]]:
        """What the model makes of the windows of each item."""
        flat = iter(run(_WindowRun(self), [one for some in made for one in some]))
        return [list(islice(flat, len(some))) for some in made]

    def stages(self, *, top: int | None = None) -> _ReadRun:
        """The three stages of its task, for those who run them by themselves."""
        return _ReadRun(self, self.settings if top is None else replace(self.settings, top=top))

    def _asked(self, task: str, items: Sequence[Any], top: int | None) -> list[Any]:
        if task != self.task:
            raise ConfigError(
                f"this model was trained to {self.task}, not to {task}; call .{self.task}() or load another"
            )
        return [answer for _, answer in self.stream(items, top=top)]

    def _answers(self, items: Sequence[Any], settings: ReadSettings) -> list[Any]:
        found = self.raw(items)
        return [self.finished(item, some, raws, settings) for item, (some, raws) in zip(items, found, strict=True)]

    def finished(self, item: Any, some: Sequence[Window], raws: Sequence[Any], settings: ReadSettings) -> Any:
        """The answer for one item, or why there is none."""
        if raws:
            return self.head.finish(item, some, raws, settings)
        why = self.head.problem(item) or "the text has nothing that can be read; give words"
        return self.head.failed(item, why)


class _ReadRun:
    """prepare, forward, finish for whole items: their windows share passes by their own shapes."""

    def __init__(self, reader: Reader, settings: ReadSettings) -> None:
        self.reader = reader
        self.settings = settings

    def prepare(self, items: Sequence[Any]) -> list[list[Window] | None]:
        made = self.reader.windows([self.reader.head.item(item) for item in items])
        return [some or None for some in made]

    @property
    def batch(self) -> int:
        return _WindowRun(self.reader).batch

    def shape(self, ready: list[Window]) -> int:
        return -(-max(len(one.example.ids) for one in ready) // 32)

    def tokens(self, ready: list[Window]) -> int:
        return sum(len(one.example.ids) for one in ready)

    def forward(self, ready: Sequence[list[Window]]) -> list[tuple[list[Window], list[Any]]]:
        return list(zip(ready, self.reader.scored(ready), strict=True))

    def finish(self, items: Sequence[Any], found: Sequence[tuple[list[Window], list[Any]] | None]) -> list[Any]:
        return [
            self.reader.finished(self.reader.head.item(item), *(one or ([], [])), self.settings)
            for item, one in zip(items, found, strict=True)
        ]


class _WindowRun:
    """prepare, forward, finish for windows."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.device = next(reader.model.parameters()).device

    def prepare(self, some: Sequence[Window]) -> list[Window | None]:
        return list(some)

    @property
    def batch(self) -> int:
        return 16 if self.device.type == "cpu" else 128

    def shape(self, ready: Window) -> int:
        return -(-len(ready.example.ids) // 32)

    def tokens(self, ready: Window) -> int:
        return len(ready.example.ids)

    @torch.inference_mode()
    def forward(self, ready: Sequence[Window]) -> list[Any]:
        reader = self.reader
        batch = collated([one.example for one in ready]).to(self.device)
        if reader.seen is not None:
            batch = reader.seen.filled(reader.model, batch, [tuple(one.example.ids) for one in ready])
        return reader.head.raws(reader.model, reader.model(batch).scores, ready, reader.settings)

    def finish(self, some: Sequence[Window], raws: Sequence[Any | None]) -> list[Any]:
        return list(raws)
