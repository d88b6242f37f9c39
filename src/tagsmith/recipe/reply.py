"""Training a model that replies: sub-words, pairs with their informative words and topics, drawn replies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tagsmith.bundle import Bundle, load_bundle
from tagsmith.config import from_dict, to_dict
from tagsmith.data.replies import ReplyCorpus, ReplyRow
from tagsmith.errors import ConfigError
from tagsmith.models import find_model
from tagsmith.pipelines.evaluate_replies import dev_loss, evaluate_replier
from tagsmith.pipelines.replies import ReplyFinder, ReplySettings
from tagsmith.pipelines.reply import Replier
from tagsmith.recipe.hashtag import check_lengths
from tagsmith.recipe.informative import Relations, chunks, topics_of
from tagsmith.recipe.pairs import dev_pairs, train_pairs
from tagsmith.recipe.posts import Report
from tagsmith.recipe.settings import Recipe
from tagsmith.records import Pair
from tagsmith.text.keywords import Keywords, keywords_of
from tagsmith.text.pieces import SEPARATOR, UNKNOWN, Pieces
from tagsmith.text.symbols import train_tokeniser

CHUNK = 5000  # pairs tokenised at a time
SCORED = 500  # dev queries answered for the scores of a bundle


class ReplyJob:
    """Sub-words and corpus of one recipe."""

    def __init__(self, recipe: Recipe) -> None:
        if recipe.teacher:
            raise ConfigError("a replier has no teacher; leave out `teacher`")
        if recipe.tokeniser.kind != "pieces":
            raise ConfigError(f"replies are written with tokeniser.kind 'pieces', not {recipe.tokeniser.kind!r}")
        if recipe.batches.targets != "one":
            raise ConfigError(
                f"replies are learned one at a time: batches.targets is 'one', not {recipe.batches.targets!r}"
            )
        self.recipe = recipe
        self.settings = from_dict(ReplySettings, recipe.pipeline)
        self.pieces: Any = None

    def forget(self, out: Path) -> None:
        """Take away what an older run prepared: its pairs may have been others."""
        for name in ("tokeniser.json", "corpus/corpus.json"):
            (out / name).unlink(missing_ok=True)

    def prepare(self, out: Path, report: Report) -> ReplyCorpus:
        """Made once and found again."""
        recipe = self.recipe
        cache = Path(recipe.data.cache) if recipe.data.cache else out
        cache.mkdir(parents=True, exist_ok=True)
        self._load_pieces(cache / "tokeniser.json", report)
        if (cache / "corpus" / "corpus.json").exists():  # written last
            return ReplyCorpus.open(cache / "corpus")
        report({"kind": "note", "text": "counting keywords"})
        responses = (response for pair in train_pairs(recipe, report) for response in pair.responses)
        keywords = keywords_of(self.settings.language, responses)
        relations = Relations.count(train_pairs(recipe, report), keywords)
        done = lambda count: report({"kind": "note", "text": f"{count:,} queries tokenised"})  # noqa: E731
        return ReplyCorpus.write(
            self._rows(train_pairs(recipe, report), relations, keywords),
            cache / "corpus",
            separator=SEPARATOR,
            on_progress=done,
        )

    def dev(self, report: Report) -> list[Pair]:
        """Pairs to choose by."""
        return dev_pairs(self.recipe, report)

    def build(self) -> Any:
        """A new model, or the one to start from."""
        recipe = self.recipe
        if recipe.start:
            model: Any = load_bundle(recipe.start, dtype=torch.float32, device="cpu").model
        else:
            values = dict(recipe.model)
            model_class = find_model(values.pop("name", "relevance"))
            torch.manual_seed(recipe.train.seed)
            model = model_class(from_dict(model_class.Config, {**values, "vocab": self.pieces.size}))
        source, target = recipe.batches.source, recipe.batches.target
        pipeline = self.settings
        if hasattr(model, "salience"):  # one row of places for query and reply
            asked = {
                "batches.source with batches.target": source + target,
                "pipeline.source with pipeline.steps": pipeline.source + pipeline.steps,
            }
        else:
            asked = {"batches.source": source, "batches.target": target}
            asked |= {"pipeline.source": pipeline.source, "pipeline.steps": pipeline.steps}
        check_lengths(model.config.longest, asked)
        return model

    def taught(self, model: Any) -> nn.Module:
        """There is no teacher."""
        return model

    def evaluate(self, model: Any, dev: Sequence[Pair]) -> dict[str, float]:
        """Mean surprise at a token of the responses."""
        return {"loss": dev_loss(model, self.pieces, dev, self.settings)}

    def bundle(self, model: Any, dev: Sequence[Pair], corpus: Any) -> tuple[Bundle, dict[str, float]]:
        """Measure, on some of the dev queries."""
        made = Bundle(
            name=self.recipe.name,
            task="reply",
            language=self.settings.language,
            model=model,
            tokeniser=self.pieces,
            pipeline=to_dict(self.settings),
        )
        some = dev[:: -(-len(dev) // SCORED)]
        replier = Replier(ReplyFinder(model, self.pieces, self.settings))
        scores = evaluate_replier(replier, some)
        found = {name: value for name, value in scores.items() if name != "parts"}
        return made, {**found, **self.evaluate(model, dev)}

    def _load_pieces(self, saved: Path, report: Report) -> None:
        recipe = self.recipe
        if recipe.start:
            self.pieces = load_bundle(recipe.start).tokeniser
            return
        if not saved.exists():
            report({"kind": "note", "text": "learning sub-words"})
            texts = (text for pair in train_pairs(recipe, report) for text in (pair.query, *pair.responses))
            wanted = recipe.tokeniser
            train_tokeniser("pieces", texts, wanted.size, alphabet=wanted.alphabet, most=wanted.texts).save(saved)
        self.pieces = Pieces.load(saved)

    def _rows(self, pairs: Iterator[Pair], relations: Relations, keywords: Keywords) -> Iterator[ReplyRow]:
        """Every query with its responses as ids, and its marks."""
        blank = next((number for number, piece in enumerate(self.pieces.vocabulary()) if piece == "▁"), UNKNOWN)
        for some in chunks(pairs, CHUNK):
            queries = self.pieces.ids([pair.query for pair in some])
            responses = iter(self.pieces.ids([response for pair in some for response in pair.responses]))
            answers = [[keywords.keywords(response) for response in pair.responses] for pair in some]
            topics = [topics_of(own, language=self.settings.language) for own in answers]
            names = iter(self.pieces.ids([word for own in topics for word in own]))
            for pair, query, answered, own in zip(some, queries, answers, topics, strict=True):
                places = self._places(pair, answered, relations, keywords)
                marks = [[place for place in found if query[place] != blank] for found in places]
                known = dict.fromkeys(one for _ in own for one in next(names) if one not in (UNKNOWN, blank))
                yield ReplyRow(query, [next(responses) for _ in pair.responses], marks, list(known))

    def _places(
        self, pair: Pair, answers: Sequence[Sequence[str]], relations: Relations, keywords: Keywords
    ) -> list[list[int]]:
        """For each response, the tokens of the query that belong to its informative words.

        For a response without keywords these are the query's own keywords.
        """
        words = keywords.words(pair.query)
        if not words:
            return [[] for _ in answers]
        spans = self.pieces.spans(pair.query)
        found = []
        for answered in answers:
            chosen = relations.informative([word.text for word in words], answered) if answered else None
            chosen = set(keywords.keywords(pair.query)) if chosen is None else chosen
            runs = [(word.start, word.end) for word in words if word.text in chosen]
            inside = (any(start < last and end > first for first, last in runs) for start, end in spans)
            found.append([place for place, marked in enumerate(inside) if marked])
        return found
