"""Training a reader: to classify texts, to answer questions, to extract keyphrases."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tagsmith.bundle import Bundle, find_bundle, load_bundle
from tagsmith.config import from_dict, to_dict
from tagsmith.data.corpus import CHUNK
from tagsmith.data.elsewhere import asked_elsewhere
from tagsmith.data.readers import BadRow, good, read_as
from tagsmith.data.reading import Example, ReadBatches, Reading
from tagsmith.data.targets import answer_span, answer_target, bio_target, marks_of
from tagsmith.data.windows import Window, windows
from tagsmith.errors import ConfigError, DataError
from tagsmith.metrics.reading import ScoredLabel, per_label
from tagsmith.models.hypernet import Hypernet, HypernetConfig
from tagsmith.pipelines.evaluate_reading import (
    FIELDS,
    choose_margin,
    choose_ranking,
    choose_temperature,
    evaluate_reader,
    is_known,
    scored_labels,
)
from tagsmith.pipelines.load import head_of
from tagsmith.pipelines.read import Head, Reader, ReadSettings
from tagsmith.recipe.backbone import backbone_pieces, backbone_sizes, start_reader
from tagsmith.recipe.posts import Report
from tagsmith.recipe.settings import Recipe, lying_there
from tagsmith.records import Document, Question, document_of, labelled_of, question_of
from tagsmith.text.pieces import Pieces
from tagsmith.text.symbols import load_tokeniser, train_tokeniser

MAKERS: dict[str, Callable[[Any], Any]] = {"classify": labelled_of, "answer": question_of, "extract": document_of}
MOST_STATES = 12 * 2**30  # bytes of states kept of a reader that is not trained; beyond them it reads again


class ReadJob:
    """Tokeniser, labels and examples of one recipe."""

    def __init__(self, recipe: Recipe) -> None:
        if recipe.shares and not (recipe.start and recipe.model.get("freeze")):
            raise ConfigError("shares: a reader is shared with the bundle it starts from; set start and model.freeze")
        self.recipe = recipe
        self.settings = from_dict(ReadSettings, recipe.pipeline)
        self.tokeniser: Any = None
        self.labels: tuple[str, ...] = ()
        self.model: Hypernet | None = None
        self.report: Report = lambda event: None
        self.memory: dict[Any, list[Window]] = {}  # of dev rows

    def forget(self, out: Path) -> None:
        """Take away what an older run prepared: its rows may have been others."""
        for name in ("tokeniser.json", "labels.json", "reading.npz", "states-*.bin"):
            for path in out.glob(name):
                path.unlink()

    def prepare(self, out: Path, report: Report) -> ReadBatches:
        """Made once and found again."""
        self.report = report
        cache = Path(self.recipe.data.cache) if self.recipe.data.cache else out
        cache.mkdir(parents=True, exist_ok=True)
        self._load_tokeniser(cache / "tokeniser.json", report)
        self._load_labels(cache / "labels.json", report)
        path = cache / "reading.npz"
        if not path.exists():
            examples = list(self._examples(self._learned(report), report))
            report({"kind": "note", "text": f"{len(examples):,} windows to learn from"})
            Reading.pack(examples).save(path)
        reading = Reading.load(path)
        self.model = self._new()
        if self.model.config.freeze:
            layers = self.model.config.reader_layers  # runs that share a folder may read with more or fewer of them
            reading = self._read_once(reading, cache / f"states-{layers}.bin", report)
        few = self.recipe.train.graphs and torch.cuda.is_available()
        return ReadBatches(reading, self.recipe.batches, coarse=few, meta=self.settings.meta + 1)

    def texts(self, report: Report) -> Iterator[str]:
        """All that is read in training."""
        head = head_of(self.recipe.task, ("",))
        return (part.text for row in self._rows(report) for part in head.pair(row, self.settings))

    def dev(self, report: Report) -> list[Any]:
        """At most `dev_posts` rows to choose by, from all over the files."""
        files = self.recipe.data.dev
        every = list(self._known(files, report)) if files else list(self._known(self.recipe.data.train, report))[::20]
        if not every:
            named = ", ".join(files or self.recipe.data.train)
            raise ConfigError(f"{named}: no row to choose by; the fields are {FIELDS[self.recipe.task]}")
        if unseen := {one.label for one in every} - set(self.labels) if self.recipe.task == "classify" else set():
            names = ", ".join(sorted(unseen)[:5])
            report({"kind": "note", "text": f"{len(unseen)} labels of dev do not occur in training: {names}"})
        return every[:: -(-len(every) // self.recipe.data.dev_posts)]

    def build(self) -> Any:
        """A new model, or the one to start from."""
        return self.model if self.model is not None else self._new()

    def taught(self, model: Any) -> nn.Module:
        """Without a teacher."""
        return model

    def evaluate(self, model: Any, dev: Sequence[Any]) -> dict[str, float]:
        """The dev scores of a model in training; those of answers with the margin that is best for it."""
        ranked = self.recipe.train.metric.startswith("present")  # else it would only take time
        if self.recipe.task == "answer":
            self.settings = replace(self.settings, margin=choose_margin(self._reader(model), dev))
        scores = evaluate_reader(self._reader(model), dev, ranked=ranked)
        return {name: value for name, value in scores.items() if name != "parts"}

    def bundle(self, model: Any, dev: Sequence[Any], corpus: Any) -> tuple[Bundle, dict[str, float]]:
        """The model with its settings, those chosen that dev can choose."""
        reader = self._reader(model)
        if self.recipe.task == "classify":
            self.settings = replace(self.settings, temperature=choose_temperature(reader, dev))
            for line in summed_up(list(scored_labels(reader, dev))):
                self.report({"kind": "note", "text": line})
        if self.recipe.task == "extract" and self.settings.keep < 1:
            self.settings = choose_ranking(reader, dev)
        scores = self.evaluate(model, dev)
        made = Bundle(
            name=self.recipe.name,
            task=self.recipe.task,
            language=self.settings.language,
            model=model,
            tokeniser=self.tokeniser,
            pipeline=to_dict(self.settings),
            labels=self.labels,
            shares=find_bundle(self.recipe.start).name if self.recipe.shares else "",
        )
        shown = "  ".join(f"{name} {value:.4f}" for name, value in scores.items() if isinstance(value, float))
        self.report({"kind": "note", "text": f"chosen model on {scores['n']:,} dev rows: {shown}"})
        return made, scores

    def _head(self) -> Head:
        return head_of(self.recipe.task, self.labels)

    def _reader(self, model: Any) -> Reader:
        return Reader(model, self.tokeniser, self._head(), self.settings, memory=self.memory)

    def _rows(self, report: Report) -> Iterator[Any]:
        """Rows to learn from; without dev files, one in twenty is held back."""
        for number, row in enumerate(self._known(self.recipe.data.train, report)):
            if self.recipe.data.dev or number % 20:
                yield row

    def _learned(self, report: Report) -> Iterator[Any]:
        """The same, with questions that are asked elsewhere too."""
        rows, share = self._rows(report), self.recipe.data.elsewhere
        return asked_elsewhere(rows, share, seed=self.recipe.train.seed) if share else rows

    def _known(self, files: Sequence[str], report: Report) -> Iterator[Any]:
        """The rows that can be read and whose answers are told."""
        if not files:
            raise ConfigError("data.train names no file; give at least one")
        head, data = head_of(self.recipe.task, ("",)), self.recipe.data

        def on_bad(row: BadRow) -> None:
            report({"kind": "bad row", "text": f"row {row.number} left out: {row.problem}"})

        for name in files:
            rows = read_as(MAKERS[self.recipe.task], lying_there(Path(data.root) / name), rename=data.fields)
            for row in good(rows, on_bad):
                if is_known(row) and head.problem(row) is None:
                    yield row

    def _load_tokeniser(self, saved: Path, report: Report) -> None:
        if self.recipe.start:
            self.tokeniser = load_bundle(self.recipe.start).tokeniser
        elif self.tokeniser is None:
            if not saved.exists():
                report({"kind": "note", "text": "learning pieces"})
                learned_pieces(self.recipe, self.texts(report)).save(saved)
            self.tokeniser = load_tokeniser(saved)
        if not isinstance(self.tokeniser, Pieces):
            raise ConfigError(f"a reader reads sub-words, not {type(self.tokeniser).__name__}; take another start")

    def _load_labels(self, saved: Path, report: Report) -> None:
        """The labels of texts, the most frequent first; or the kinds of keyphrases."""
        if not saved.exists():
            found: Counter[str] = Counter()
            if self.recipe.task == "classify":
                found.update(row.label for row in self._rows(report))
            elif self.recipe.task == "extract" and self.settings.typed:
                found.update(mark.kind for row in self._rows(report) for mark in marks_of(row))
            names = [label for label, _ in found.most_common()]
            saved.write_text(json.dumps(names or ["KEY"], ensure_ascii=False), encoding="utf-8")
        self.labels = tuple(json.loads(saved.read_text(encoding="utf-8")))
        if self.recipe.task == "classify" and len(self.labels) < 2:
            raise DataError(f"the training rows have {len(self.labels)} label; a classifier needs two at least")

    def _examples(self, rows: Iterator[Any], report: Report) -> Iterator[Example]:
        head = self._head()
        numbers = {label: place for place, label in enumerate(self.labels)}
        while chunk := list(islice(rows, CHUNK)):
            pairs = [head.pair(row, self.settings) for row in chunk]
            wide = self.settings.windows()
            made = windows(pairs, self.tokeniser, wide, words=head.words, first_only=head.first_only)
            for row, some in zip(chunk, made, strict=True):
                for window, target in self._targets(row, some, numbers, report):
                    yield window.example._replace(target=target)

    def _targets(
        self, row: Any, some: Sequence[Window], numbers: dict[str, int], report: Report
    ) -> Iterator[tuple[Window, list[int]]]:
        if isinstance(row, Document):
            marks = marks_of(row)
            yield from ((window, bio_target(window, marks, self.labels)) for window in some)
        elif isinstance(row, Question):
            span = None if row.impossible or not row.answers else answer_span(row)
            if span is None and row.answers and not row.impossible:
                text = f"question {row.id!r} left out: its answer {row.answers[0].text!r:.40} is not in the passage"
                report({"kind": "bad row", "text": text})
                return
            yield from ((window, answer_target(window, span)) for window in some)
        else:
            yield from ((window, [numbers[row.label]]) for window in some)

    def _new(self) -> Hypernet:
        recipe = self.recipe
        values = {name: value for name, value in recipe.model.items() if name != "name"}
        count = len(self.labels) if recipe.task == "classify" else 1 + 2 * len(self.labels)
        fixed = {"asked": recipe.task, "labels": count, "longest": self.settings.source}
        torch.manual_seed(recipe.train.seed)
        if recipe.start:
            return _continued(recipe.start, {**values, "asked": recipe.task, "labels": count})
        sizes = backbone_sizes(recipe.backbone) if recipe.backbone and "width" not in values else {}
        model = Hypernet(from_dict(HypernetConfig, {**sizes, **fixed, **values, "vocab": self.tokeniser.size}))
        if recipe.backbone:
            start_reader(model, recipe.backbone, self.tokeniser)
        return model

    def _read_once(self, reading: Reading, path: Path, report: Report) -> Reading:
        """The states of all texts, as the frozen reader has them."""
        model = self.model
        assert model is not None
        size = 2 * len(reading.ids.flat) * model.config.width
        if size > MOST_STATES:
            report({"kind": "note", "text": f"states of {size / 2**30:.0f} GiB are not kept; each text is read again"})
            return reading
        text = f"reading {len(reading):,} windows once with the frozen backbone ({size / 2**20:,.0f} MiB)"
        report({"kind": "note", "text": text})
        return reading.with_states(path, model.config.width, fill=lambda whole, to: _fill(model, whole, to, report))


def learned_pieces(recipe: Recipe, texts: Iterator[str]) -> Any:
    """The pieces of the recipe's backbone, or new ones, for such texts."""
    wanted = recipe.tokeniser
    some = islice(texts, wanted.texts)
    if recipe.backbone:
        return backbone_pieces(recipe.backbone, some, least=wanted.least, singles=wanted.singles)
    return train_tokeniser("pieces", some, wanted.size, alphabet=wanted.alphabet, most=wanted.texts)


def summed_up(scored: Sequence[ScoredLabel], *, most: int = 5) -> Iterator[str]:
    """What a user should know of a classifier: its weakest labels, and which it takes for which."""
    weak = sorted(per_label(scored).items(), key=lambda one: one[1]["f1"])
    for label, found in weak[:most]:
        shown = "  ".join(f"{name} {found[name]:.2f}" for name in ("precision", "recall", "f1"))
        yield f"weakest: {label!r}  {shown}  of {found['n']:.0f} texts"
    mixed = Counter((one.gold, one.given) for one in scored if one.given and one.given != one.gold)
    for (gold, given), times in mixed.most_common(most):
        yield f"mixed up: {gold!r} taken for {given!r} {times} times"


@torch.no_grad()
def _fill(model: Hypernet, reading: Reading, states: NDArray[np.float16], report: Report, *, at_once: int = 32) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.eval().to(device)
    order = np.argsort(reading.ids.lengths(np.arange(len(reading))), kind="stable")
    for done in range(0, len(order), at_once):
        rows = order[done : done + at_once]
        batch = reading.collate(rows).to(device)
        found = model.states(batch).half().cpu().numpy()
        for row, start, length in zip(found, reading.ids.starts(rows), reading.ids.lengths(rows), strict=True):
            states[start : start + length] = row[:length]
        if done // at_once % 50 == 49:
            report({"kind": "note", "text": f"{done + at_once:,} of {len(order):,} windows read"})
    model.to("cpu")


def _continued(start: str, changes: dict[str, Any]) -> Hypernet:
    """The model of a bundle, with a new head where its labels are others."""
    older = load_bundle(start, dtype=torch.float32, device="cpu").model
    if not isinstance(older, Hypernet):
        raise ConfigError(f"start: {start} is no model that reads with a title; name one or leave it out")
    model = Hypernet(from_dict(HypernetConfig, {**to_dict(older.config), **changes}))
    own = model.state_dict()
    kept = {name: value for name, value in older.state_dict().items() if name in own and own[name].shape == value.shape}
    if lost := [name for name in own if name.startswith("reader.") and name not in kept]:
        raise ConfigError(
            f"start: {start} has a Transformer of other sizes ({lost[0]} differs); leave out model.width ..."
        )
    model.load_state_dict(kept, strict=False)
    return model
