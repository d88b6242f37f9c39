"""Training a model that writes hashtags: sub-words with frequent tags whole, pairs of post and tags, a search."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tagsmith.bundle import Bundle, load_bundle
from tagsmith.config import from_dict
from tagsmith.data.batches import ROUND
from tagsmith.data.corpus import Corpus
from tagsmith.errors import ConfigError
from tagsmith.models import find_model
from tagsmith.models.distil import Distilled
from tagsmith.pipelines.evaluate import choose_cuts
from tagsmith.pipelines.tag import Tagger
from tagsmith.pipelines.write import TagSettings, Writer
from tagsmith.recipe.finish import dev_scores, finished
from tagsmith.recipe.posts import Report, dev_sample, frequent_tags, spellings, tag_words, train_posts
from tagsmith.recipe.settings import Recipe
from tagsmith.records import Post
from tagsmith.text.pieces import SEPARATOR, Pieces
from tagsmith.text.reading import reading
from tagsmith.text.symbols import train_tokeniser


class HashtagJob:
    """Tokeniser, corpus and usual spellings of one recipe."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.settings = from_dict(TagSettings, recipe.pipeline)
        self.pieces: Any = None
        self.spellings: Mapping[str, str] = {}

    def forget(self, out: Path) -> None:
        """Take away what an older run prepared: its posts may have been others."""
        for name in ("tokeniser.json", "spellings.json"):
            (out / name).unlink(missing_ok=True)

    def prepare(self, out: Path, report: Report) -> Corpus:
        """Made once and found again."""
        recipe = self.recipe
        cache = Path(recipe.data.cache) if recipe.data.cache else out
        cache.mkdir(parents=True, exist_ok=True)
        self._load_pieces(cache / "tokeniser.json", report)
        ready = cache / "spellings.json"  # written last
        if ready.exists():
            self.spellings = json.loads(ready.read_text(encoding="utf-8"))
            return Corpus.open(cache / "corpus")
        pairs = ((reading(post.text), tag_words(post)) for post in train_posts(recipe, report))
        done = lambda count: report({"kind": "note", "text": f"{count:,} posts tokenised"})  # noqa: E731
        corpus = Corpus.build(
            pairs,
            self.pieces.ids,
            cache / "corpus",
            tokenise_tags=self.pieces.tag_ids,
            separator=SEPARATOR,
            on_progress=done,
        )
        self.spellings = {**self.spellings, **spellings(train_posts(recipe, report))}
        ready.write_text(json.dumps(self.spellings, ensure_ascii=False), encoding="utf-8")
        return corpus

    def _load_pieces(self, saved: Path, report: Report) -> None:
        recipe = self.recipe
        if recipe.start:
            start = load_bundle(recipe.start)
            self.pieces, self.spellings = start.tokeniser, start.spellings
            return
        if not saved.exists():
            report({"kind": "note", "text": "learning sub-words"})
            texts = (text for post in train_posts(recipe, report) for text in (reading(post.text), *tag_words(post)))
            size, alphabet = recipe.tokeniser.size, recipe.tokeniser.alphabet
            learned = train_tokeniser("pieces", texts, size, alphabet=alphabet, most=recipe.tokeniser.texts)
            assert isinstance(learned, Pieces)
            learned.with_names(frequent_tags(train_posts(recipe, report), recipe.tokeniser.names)).save(saved)
        self.pieces = Pieces.load(saved)

    def dev(self, report: Report) -> list[Post]:
        """Posts to choose by."""
        return dev_sample(self.recipe, report)

    def build(self) -> Any:
        """A new model, or the one to start from."""
        recipe = self.recipe
        model: Any
        if recipe.start:
            model = load_bundle(recipe.start, dtype=torch.float32, device="cpu").model
        else:
            values = dict(recipe.model)
            model_class = find_model(values.pop("name", "segtrm"))
            torch.manual_seed(recipe.train.seed)
            model = model_class(from_dict(model_class.Config, {**values, "vocab": self.pieces.size}))
        check_lengths(
            model.config.longest,
            {
                "batches.source": recipe.batches.source,
                "batches.target": recipe.batches.target,
                "pipeline.source": self.settings.source,
                "pipeline.steps": self.settings.steps,
            },
        )
        return model

    def taught(self, model: Any) -> nn.Module:
        """The student with the teacher it learns from, which must write the same pieces."""
        if not self.recipe.teacher:
            return model
        teacher = load_bundle(self.recipe.teacher, dtype=torch.float32, device="cpu")
        theirs: Any = teacher.tokeniser
        if theirs.size != self.pieces.size or theirs.names != self.pieces.names:
            raise ConfigError(f"the teacher {self.recipe.teacher} writes other pieces; train both with one data.cache")
        return Distilled(model, teacher.model, share=self.recipe.teacher_share)

    def evaluate(self, model: Any, dev: Sequence[Post]) -> dict[str, float]:
        """The dev scores of a model in training."""
        quick = replace(self.settings, beam=min(self.settings.beam, 4))
        return dev_scores(Tagger(Writer(model, self.pieces), self.pieces, quick), dev)

    def bundle(self, model: Any, dev: Sequence[Post], corpus: Corpus) -> tuple[Bundle, dict[str, float]]:
        """Choose the threshold and measure."""
        tagger = Tagger(Writer(model, self.pieces), self.pieces, self.settings, spellings=self.spellings)
        cuts = choose_cuts(tagger, dev)
        tagger.settings = replace(self.settings, keep=cuts.keep, least=cuts.least)
        return finished(self.recipe, tagger, model, dev)


def check_lengths(longest: int, asked: Mapping[str, int]) -> None:
    """Nothing may be asked for that is longer than the model's places."""
    for name, tokens in asked.items():
        if -(-tokens // ROUND) * ROUND > longest:  # as padded
            raise ConfigError(f"{name} is {tokens}, the model has {longest} places; lower it or raise model.longest")
