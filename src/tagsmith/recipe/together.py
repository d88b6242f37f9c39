"""Several readers trained together on one Transformer; each has a body and a head of its own.

    parts --ReadJob of each--> batches --mixed as their epochs say--> Together.loss --> a bundle of each

The first part's bundle holds the reader and the tokeniser, the others share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from tagsmith.bundle import Bundle
from tagsmith.data.batches import prefetch
from tagsmith.data.reading import ReadBatch, ReadBatches
from tagsmith.errors import ConfigError
from tagsmith.models.hypernet import Hypernet
from tagsmith.recipe.posts import Report
from tagsmith.recipe.reading import ReadJob, learned_pieces
from tagsmith.recipe.settings import Recipe
from tagsmith.text.symbols import load_tokeniser

READER = ("vocab", "width", "heads", "inner", "reader_layers", "reader_norm", "places", "longest", "freeze")


class Together(nn.Module):
    """Models with one reader; a batch says which of them it is for."""

    models: Any  # nn.ModuleList of Hypernet, which types cannot say

    def __init__(self, models: Sequence[Hypernet], weigh: Sequence[float]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.weigh = tuple(weigh)

    def loss(self, batch: ReadBatch) -> Tensor:
        """That of the model the batch is for."""
        place = len(batch.which)
        loss: Tensor = self.weigh[place] * self.models[place].loss(batch)
        return loss

    def repeated_parts(self) -> list[nn.Module]:
        """What is worth compiling: all have the same."""
        parts: list[nn.Module] = self.models[0].repeated_parts()
        return parts


class Mixed:
    """Steps of one or more batches: each source gives all of its epochs, spread evenly over the run."""

    def __init__(self, sources: Sequence[ReadBatches], epochs: Sequence[float]) -> None:
        self.sources, self.epochs = list(sources), list(epochs)
        self.counts = [max(1, round(many * one.steps(0))) for one, many in zip(sources, epochs, strict=True)]

    def shard(self, rank: int, world: int) -> Mixed:
        """The share of one of several processes."""
        return Mixed([one.shard(rank, world) for one in self.sources], self.epochs)

    def steps(self, epoch: int) -> int:
        """As many as the source with most batches has of them; there is one epoch."""
        return max(self.counts)

    def epoch(self, number: int, *, skip: int = 0) -> Iterator[list[ReadBatch]]:
        """The steps themselves, made ahead by a thread."""
        return prefetch(self._made(skip), pin=torch.cuda.is_available())

    def _made(self, skip: int) -> Iterator[list[ReadBatch]]:
        plans: dict[tuple[int, int], list[Any]] = {}
        total = max(self.counts)
        for step in range(skip, total):
            made = []
            for place, (source, count) in enumerate(zip(self.sources, self.counts, strict=True)):
                due = step * count // total
                if due == (step + 1) * count // total:
                    continue
                epoch, number = divmod(due, source.steps(0))
                if (place, epoch) not in plans:
                    plans = {key: plan for key, plan in plans.items() if key[0] != place}
                    plans[place, epoch] = source.plan(epoch)
                made += [
                    batch._replace(which=torch.zeros(place)) for batch in source.collated(plans[place, epoch][number])
                ]
            yield made


class TogetherJob:
    """The jobs of all parts, with one tokeniser and one reader."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.jobs = [ReadJob(_own(recipe, part)) for part in recipe.parts]

    def forget(self, out: Path) -> None:
        """Take away what an older run prepared."""
        (out / "tokeniser.json").unlink(missing_ok=True)
        for job in self.jobs:
            job.forget(out / job.recipe.name)

    def prepare(self, out: Path, report: Report) -> Mixed:
        """The batches of all parts."""
        cache = Path(self.recipe.data.cache) if self.recipe.data.cache else out
        cache.mkdir(parents=True, exist_ok=True)
        tokeniser = self._tokeniser(cache / "tokeniser.json", report)
        sources = []
        for job in self.jobs:
            job.tokeniser = tokeniser
            sources.append(job.prepare(out / job.recipe.name, report))
        first = self._models()[0]
        for job, model in zip(self.jobs, self._models(), strict=True):
            if other := [name for name in READER if getattr(model.config, name) != getattr(first.config, name)]:
                raise ConfigError(f"{job.recipe.name} has another reader than the first part: model.{other[0]} differs")
            model.reader = first.reader
        return Mixed(sources, [job.recipe.train.epochs for job in self.jobs])

    def dev(self, report: Report) -> list[Any]:
        """The rows to choose by, a list for each part."""
        return [job.dev(report) for job in self.jobs]

    def build(self) -> Together:
        """All models, on one reader."""
        return Together(self._models(), self.recipe.weigh or [1.0] * len(self.jobs))

    def taught(self, model: Any) -> nn.Module:
        """Without a teacher."""
        return model

    def evaluate(self, model: Any, dev: Sequence[Any]) -> dict[str, float]:
        """The scores of each part under its name, and the `mean` of those that each is judged by."""
        found: dict[str, float] = {}
        main: list[float] = []
        for job, own, rows in zip(self.jobs, model.models, dev, strict=True):
            scores = job.evaluate(own, rows)
            found |= {f"{job.recipe.name}_{name}": value for name, value in scores.items()}
            main.append(scores[job.recipe.train.metric])
        return {**found, "mean": mean(main)}

    def bundles(
        self, model: Any, dev: Sequence[Any], folder: Path
    ) -> Iterator[tuple[Recipe, Path, Bundle, dict[str, float]]]:
        """The bundle of each part and where it goes."""
        lender = self.jobs[0].recipe.name
        for job, own, rows in zip(self.jobs, model.models, dev, strict=True):
            bundle, scores = job.bundle(own, rows, None)
            first = job.recipe.name == lender
            bundle = replace(bundle, lends=first, shares="" if first else lender)
            yield job.recipe, folder / job.recipe.name, bundle, scores

    def bundle(self, model: Any, dev: Sequence[Any], corpus: Any) -> tuple[Bundle, dict[str, float]]:
        """The first of them."""
        _, _, bundle, scores = next(self.bundles(model, dev, Path()))
        return bundle, scores

    def _models(self) -> list[Hypernet]:
        return [job.build() for job in self.jobs]

    def _tokeniser(self, saved: Path, report: Report) -> Any:
        if not saved.exists():
            report({"kind": "note", "text": "learning pieces"})
            learned_pieces(self.recipe, (text for job in self.jobs for text in job.texts(report))).save(saved)
        return load_tokeniser(saved)


def _own(recipe: Recipe, part: Recipe) -> Recipe:
    """A part with what holds for all."""
    cache = str(Path(recipe.data.cache) / part.name) if recipe.data.cache else ""
    data = replace(part.data, root=recipe.data.root, cache=cache)
    return replace(part, data=data, backbone=recipe.backbone, weights=recipe.weights)
