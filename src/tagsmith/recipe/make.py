"""From a recipe to a bundle: the course of every run. What differs between tasks is a job.

job.prepare --> corpus --batches--> fit(job.build, job.evaluate) --> job.bundle --> OUT/bundle
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from tagsmith.bundle import Bundle, save_bundle
from tagsmith.config import to_dict
from tagsmith.data.batches import Batches
from tagsmith.data.corpus import Corpus
from tagsmith.data.replies import ReplyBatches, ReplyCorpus
from tagsmith.recipe.hashtag import HashtagJob
from tagsmith.recipe.keyphrase import KeyphraseJob
from tagsmith.recipe.posts import Report
from tagsmith.recipe.rank import RankJob
from tagsmith.recipe.reading import ReadJob
from tagsmith.recipe.reply import ReplyJob
from tagsmith.recipe.settings import Recipe
from tagsmith.recipe.together import TogetherJob
from tagsmith.train.loop import BatchSource, fit
from tagsmith.train.plot import plot_losses

MAKES = {
    "hashtag": "Hashtags for posts",
    "rank": "Known tags for posts",
    "keyphrase": "Keyphrases for documents",
    "classify": "Labels for texts",
    "answer": "Answers to questions about a passage",
    "extract": "Keyphrases that stand in documents",
    "read": "Several readers on one Transformer",
    "reply": "Replies to short texts",
}
WAIT = timedelta(hours=12)  # other processes wait so long for the first, which prepares the data


class Job(Protocol):
    """What a task adds to the course of a run."""

    def forget(self, out: Path) -> None: ...  # what an older run prepared there
    def prepare(self, out: Path, report: Report) -> Any: ...  # a corpus of posts or replies, or batches of its own
    def dev(self, report: Report) -> list[Any]: ...  # posts or documents to choose by
    def build(self) -> Any: ...  # the model to train
    def taught(self, model: Any) -> nn.Module: ...  # the same, or the same beside its teacher
    def evaluate(self, model: Any, dev: Sequence[Any]) -> dict[str, float]: ...
    def bundle(self, model: Any, dev: Sequence[Any], corpus: Any) -> tuple[Bundle, dict[str, float]]: ...


JOBS: dict[str, type[HashtagJob | RankJob | KeyphraseJob | ReadJob | ReplyJob | TogetherJob]] = {
    "hashtag": HashtagJob,
    "rank": RankJob,
    "keyphrase": KeyphraseJob,
    "classify": ReadJob,
    "answer": ReadJob,
    "extract": ReadJob,
    "read": TogetherJob,
    "reply": ReplyJob,
}


def job_of(recipe: Recipe) -> Job:
    """The job of the recipe's task."""
    return JOBS[recipe.task](recipe)


def make(recipe: Recipe, out: Path, *, resume: bool = False, report: Report = lambda event: None) -> Path:
    """Train and leave a bundle in `out/bundle`; returns its folder. Of several processes the first writes the files.

    A recipe with parts leaves a bundle of each in `out/bundle`.
    """
    from accelerate import PartialState  # seconds to import, and only training needs it

    job = job_of(recipe)
    team = PartialState(cpu=not torch.cuda.is_available(), timeout=WAIT)
    report = report if team.is_main_process else lambda event: None
    out.mkdir(parents=True, exist_ok=True)
    with team.main_process_first():
        if team.is_main_process and not resume and not recipe.data.cache:
            job.forget(out)
        corpus = job.prepare(out, report)
    model = job.build()
    dev = job.dev(report)

    def evaluate(trained: nn.Module) -> dict[str, float]:
        return job.evaluate(getattr(trained, "student", trained), dev)

    batches: BatchSource = corpus
    if isinstance(corpus, ReplyCorpus):
        batches = ReplyBatches(corpus, recipe.batches)
    elif isinstance(corpus, Corpus):
        batches = Batches(corpus, recipe.batches)
    progress = fit(job.taught(model), batches, recipe.train, out, evaluate=evaluate, resume=resume, report=report)
    if team.is_main_process:
        _plot(out, report)
        steps = {"steps": progress.step, "best_step": progress.best_step}
        made = (
            job.bundles(model.eval(), dev, out / "bundle")
            if isinstance(job, TogetherJob)
            else [(recipe, out / "bundle", *job.bundle(model.eval(), dev, corpus))]
        )
        for own, folder, bundle, scores in made:
            bundle = replace(bundle, card=card(own, bundle, scores), weights=recipe.weights)
            save_bundle(bundle, folder, measured={"dev": scores, **steps})
    team.wait_for_everyone()
    return out / "bundle"


def card(recipe: Recipe, bundle: Bundle, scores: dict[str, float]) -> str:
    """A first model card; shipped models have a fuller one."""
    files = {"train": recipe.data.train, "dev": recipe.data.dev}  # not where they lie: that is the user's own business
    settings = {"data": files, "model": recipe.model, "train": to_dict(recipe.train)}
    shown = {name: round(value, 4) for name, value in scores.items() if isinstance(value, float)}
    return (
        f"# {recipe.name}\n\n{MAKES[recipe.task]}, {bundle.language}, trained by `tagsmith train`.\n\n"
        f"Dev scores: `{json.dumps(shown)}`\n\nSettings:\n\n```json\n{json.dumps(settings, indent=1)}\n```\n"
    )


def _plot(out: Path, report: Report) -> None:
    try:
        plot_losses(out / "metrics.jsonl", out / "loss.png")
    except ImportError:
        report({"kind": "note", "text": "no loss plot: matplotlib is not installed"})
