"""Training a model that writes keyphrases: terms or sub-words, documents with their phrases in order, a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tagsmith.bundle import Bundle, load_bundle
from tagsmith.config import from_dict, to_dict
from tagsmith.data.corpus import CHUNK, Corpus, Row
from tagsmith.errors import ConfigError
from tagsmith.models import find_model
from tagsmith.pipelines.evaluate_documents import choose_keep, evaluate_documents
from tagsmith.pipelines.keyphrase import KeyphraseTagger
from tagsmith.pipelines.phrases import KeyphraseSettings, finder_of
from tagsmith.pipelines.tag import whole
from tagsmith.recipe.backbone import backbone_pieces, start_reader
from tagsmith.recipe.documents import dev_documents, train_documents
from tagsmith.recipe.posts import Report
from tagsmith.recipe.settings import Recipe
from tagsmith.records import Document
from tagsmith.text.symbols import load_tokeniser, train_tokeniser
from tagsmith.text.terms import Coder, coder_of, targets_of
from tagsmith.text.vocabulary import SEP


class KeyphraseJob:
    """Tokeniser and corpus of one recipe."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.settings = from_dict(KeyphraseSettings, recipe.pipeline)
        self.tokeniser: Any = None

    def forget(self, out: Path) -> None:
        """Take away what an older run prepared: its documents may have been others."""
        for name in ("tokeniser.json", "corpus/corpus.json"):
            (out / name).unlink(missing_ok=True)

    def prepare(self, out: Path, report: Report) -> Corpus:
        """Made once and found again."""
        recipe = self.recipe
        cache = Path(recipe.data.cache) if recipe.data.cache else out
        cache.mkdir(parents=True, exist_ok=True)
        self._load_tokeniser(cache / "tokeniser.json", report)
        if (cache / "corpus" / "corpus.json").exists():  # written last
            return Corpus.open(cache / "corpus")
        rows = self._rows(train_documents(recipe, report), coder_of(self.tokeniser))
        done = lambda count: report({"kind": "note", "text": f"{count:,} documents tokenised"})  # noqa: E731
        return Corpus.write(rows, cache / "corpus", separator=SEP, on_progress=done)

    def dev(self, report: Report) -> list[Document]:
        """Documents to choose by."""
        return dev_documents(self.recipe, report)

    def build(self) -> Any:
        """A new model, or the one to start from."""
        recipe = self.recipe
        if recipe.start:
            return load_bundle(recipe.start, dtype=torch.float32, device="cpu").model
        values = dict(recipe.model)
        model_class = find_model(values.pop("name", "keyphrase"))
        sizes = {"vocab": self.tokeniser.size, "extra": coder_of(self.tokeniser).extra}
        torch.manual_seed(recipe.train.seed)
        model = model_class(from_dict(model_class.Config, {**values, **sizes}))
        if recipe.backbone:
            start_reader(model, recipe.backbone, self.tokeniser)
        return model

    def taught(self, model: Any) -> nn.Module:
        """Without a teacher."""
        return model

    def evaluate(self, model: Any, dev: Sequence[Document]) -> dict[str, float]:
        """The dev scores of a model in training."""
        scores = evaluate_documents(self._tagger(model), dev, intervals=False)
        return {name: value for name, value in scores.items() if name != "parts"}

    def bundle(self, model: Any, dev: Sequence[Document], corpus: Corpus) -> tuple[Bundle, dict[str, float]]:
        """The model with its settings, the threshold chosen where slots always have something to say."""
        tagger = self._tagger(model)
        if tagger.finder.parallel:
            self.settings = replace(self.settings, keep=choose_keep(tagger, dev))
        made = Bundle(
            name=self.recipe.name,
            task=self.recipe.task,
            language=self.settings.language,
            model=model,
            tokeniser=self.tokeniser,
            pipeline=to_dict(self.settings),
            spellings={},
        )
        return made, self.evaluate(model, dev)

    def _tagger(self, model: Any) -> KeyphraseTagger:
        coder = coder_of(self.tokeniser)
        return KeyphraseTagger(finder_of(model, coder), coder, self.settings)

    def _rows(self, documents: Iterator[Document], coder: Coder) -> Iterator[Row]:
        longest = self.settings.words
        while chunk := list(islice(documents, CHUNK)):
            for document, text in zip(chunk, coder.read([whole(one) for one in chunk]), strict=True):
                written = coder.write(text, targets_of(whole(document), document.keyphrases, longest=longest))
                yield text.ids, written if self.settings.kinds else [ids[1:] for ids in written]

    def _load_tokeniser(self, saved: Path, report: Report) -> None:
        recipe, wanted = self.recipe, self.recipe.tokeniser
        if recipe.start:
            self.tokeniser = load_bundle(recipe.start).tokeniser
            return
        if not saved.exists():
            report({"kind": "note", "text": f"learning {wanted.kind}"})
            self._learn(report).save(saved)
        self.tokeniser = load_tokeniser(saved)

    def _learn(self, report: Report) -> Any:
        wanted = self.recipe.tokeniser
        texts = (
            text
            for document in train_documents(self.recipe, report)
            for text in (whole(document), *document.keyphrases)
        )
        if self.recipe.backbone:
            phrases = (phrase for document in train_documents(self.recipe, report) for phrase in document.keyphrases)
            some = islice(texts, wanted.texts)
            return backbone_pieces(self.recipe.backbone, some, phrases=phrases, least=wanted.least)
        if wanted.kind not in ("terms", "pieces"):
            raise ConfigError(f"keyphrases are written with tokeniser.kind 'terms' or 'pieces', not {wanted.kind!r}")
        return train_tokeniser(
            wanted.kind, texts, wanted.size, alphabet=wanted.alphabet, most=wanted.texts, extra=wanted.extra
        )
