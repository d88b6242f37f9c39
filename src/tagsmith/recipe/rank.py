"""Training a model that ranks known tags: which tags, a tokeniser of any kind, calibration, room to learn more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tagsmith.bundle import Bundle, load_bundle
from tagsmith.config import from_dict
from tagsmith.data.batches import Batches
from tagsmith.data.corpus import Corpus
from tagsmith.errors import ConfigError
from tagsmith.models import find_model
from tagsmith.pipelines.evaluate import choose_cuts, choose_temperature
from tagsmith.pipelines.rank import Ranker, RankSettings
from tagsmith.pipelines.tag import Tagger
from tagsmith.recipe.finish import dev_scores, finished
from tagsmith.recipe.hashtag import check_lengths
from tagsmith.recipe.posts import Report, dev_sample, frequent_tags, spellings, tag_words, train_posts
from tagsmith.recipe.settings import Recipe
from tagsmith.records import Post
from tagsmith.text.hashtags import hashtag_of, key
from tagsmith.text.pieces import SEPARATOR
from tagsmith.text.reading import reading
from tagsmith.text.symbols import load_tokeniser, train_tokeniser

MEASURED = 100_000  # posts whose vectors tell how the rows of tags follow from them


class RankJob:
    """Tokeniser, tags and corpus of one recipe."""

    def __init__(self, recipe: Recipe) -> None:
        if recipe.teacher:
            raise ConfigError("a ranker has no teacher; leave out `teacher`")
        self.recipe = recipe
        self.settings = from_dict(RankSettings, recipe.pipeline)
        self.tokeniser: Any = None
        self.labels: list[str] = []
        self.spellings: Mapping[str, str] = {}

    def forget(self, out: Path) -> None:
        """Take away what an older run prepared: its posts may have been others."""
        for name in ("tokeniser.json", "labels.json", "spellings.json"):
            (out / name).unlink(missing_ok=True)

    def prepare(self, out: Path, report: Report) -> Corpus:
        """Made once and found again."""
        recipe = self.recipe
        cache = Path(recipe.data.cache) if recipe.data.cache else out
        cache.mkdir(parents=True, exist_ok=True)
        self._load_tokeniser(cache / "tokeniser.json", report)
        self._load_labels(cache / "labels.json", report)
        ready = cache / "spellings.json"  # written last
        if ready.exists():
            self.spellings = json.loads(ready.read_text(encoding="utf-8"))
            return Corpus.open(cache / "corpus")
        places = {key(words): place for place, words in enumerate(self.labels)}
        pairs = (
            (reading(post.text), [words for words in tag_words(post) if key(words) in places])
            for post in train_posts(recipe, report)
        )
        corpus = Corpus.build(
            pairs,
            self.tokeniser.ids,
            cache / "corpus",
            tokenise_tags=lambda tags: [[places[key(words)]] for words in tags],
            separator=SEPARATOR,
            on_progress=lambda count: report({"kind": "note", "text": f"{count:,} posts tokenised"}),
        )
        named = {mark: spelling for mark, spelling, words in self._names() if hashtag_of(words) != spelling}
        self.spellings = {**self.spellings, **spellings(train_posts(recipe, report)), **named}
        ready.write_text(json.dumps(self.spellings, ensure_ascii=False), encoding="utf-8")
        return corpus

    def _load_tokeniser(self, saved: Path, report: Report) -> None:
        recipe, wanted = self.recipe, self.recipe.tokeniser
        if recipe.start:
            start = load_bundle(recipe.start)
            self.tokeniser, self.spellings = start.tokeniser, start.spellings
            return
        if not saved.exists():
            report({"kind": "note", "text": f"learning {wanted.kind}"})
            texts = (reading(post.text) for post in train_posts(recipe, report))
            train_tokeniser(wanted.kind, texts, wanted.size, alphabet=wanted.alphabet, most=wanted.texts).save(saved)
        self.tokeniser = load_tokeniser(saved)

    def _load_labels(self, saved: Path, report: Report) -> None:
        if not saved.exists():
            wanted = self.recipe.labels
            found = frequent_tags(train_posts(self.recipe, report), wanted.most, least=wanted.least)
            if not found:
                raise ConfigError(f"no tag has {wanted.least} posts in data.train; lower labels.least")
            named = {mark: words for mark, _, words in self._names()}
            found = [named.get(key(words), words) for words in found]
            saved.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
        self.labels = json.loads(saved.read_text(encoding="utf-8"))

    def _names(self) -> list[tuple[str, str, str]]:
        """Key, spelling and words of the tags that the recipe's list names."""
        if not self.recipe.labels.names:
            return []
        path = Path(self.recipe.data.root) / self.recipe.labels.names
        try:
            rows = [line.split("\t")[:3] for line in path.read_text(encoding="utf-8").splitlines()]
            return [(key(tag), spelling, words) for tag, spelling, words in rows]
        except (OSError, ValueError) as wrong:
            raise ConfigError(f"labels.names: {path} is no list of tag, spelling, words: {wrong}") from None

    def dev(self, report: Report) -> list[Post]:
        """Posts to choose by."""
        return dev_sample(self.recipe, report)

    def build(self) -> Any:
        """A new model; with a start, its reader under a new list of tags."""
        recipe = self.recipe
        torch.manual_seed(recipe.train.seed)
        model: Any
        if recipe.start:
            start: Any = load_bundle(recipe.start, dtype=torch.float32, device="cpu").model
            model = type(start)(replace(start.config, tags=len(self.labels), learned=0))
            reader = {name: value for name, value in start.state_dict().items() if not name.startswith("head.")}
            model.load_state_dict(reader, strict=False)
        else:
            values = dict(recipe.model)
            model_class = find_model(values.pop("name", "quick"))
            sizes = {"vocab": self.tokeniser.size, "tags": len(self.labels)}
            model = model_class(from_dict(model_class.Config, {**values, **sizes}))
        check_lengths(
            model.config.longest,
            {"batches.source": recipe.batches.source, "pipeline.source": self.settings.source},
        )
        return model

    def taught(self, model: Any) -> nn.Module:
        """Without a teacher."""
        return model

    def evaluate(self, model: Any, dev: Sequence[Post]) -> dict[str, float]:
        """The dev scores of a model in training."""
        return dev_scores(self._tagger(model), dev)

    def bundle(self, model: Any, dev: Sequence[Post], corpus: Corpus) -> tuple[Bundle, dict[str, float]]:
        """Calibrate, choose the threshold, measure how rows follow from posts, and how good it all is."""
        self._measure(model, corpus)
        tagger = self._tagger(model)
        tagger.settings = replace(self.settings, temperature=choose_temperature(tagger, dev))
        cuts = choose_cuts(tagger, dev)
        tagger.settings = replace(tagger.settings, keep=cuts.keep, least=cuts.least)
        return finished(self.recipe, tagger, model, dev, labels=self.labels)

    def _tagger(self, model: Any) -> Tagger:
        return Tagger(Ranker(model, self.labels), self.tokeniser, self.settings, spellings=self.spellings)

    @torch.inference_mode()
    def _measure(self, model: Any, corpus: Corpus) -> None:
        settings = replace(self.recipe.batches, tokens=64 * (self.recipe.batches.source + 8), parts=4, target=8)
        device = model.head.center.device
        vectors, tags = [], []
        for posts in Batches(corpus, settings).plan(0)[: max(1, MEASURED // 256)]:
            for part in posts:
                batch = Batches(corpus, settings).collate(part, np.random.default_rng(0)).to(device)
                vectors.append(model.vector(batch.source, batch.source_lengths).float().cpu())
                tags.append(batch.target[:, 0].cpu())
        head = model.head.cpu()
        head.measure(torch.cat(vectors), torch.cat(tags))
        model.head = head.to(device)
