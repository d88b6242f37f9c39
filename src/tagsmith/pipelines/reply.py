"""A query to its replies.

text --reading, pieces--> ids --finder: draws or searches replies--> candidates --evidence--> Replies
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from tagsmith.bundle import Bundle, load_bundle
from tagsmith.config import from_dict
from tagsmith.data.batches import PairBatch, pad_ids
from tagsmith.errors import BundleError, ConfigError, DataError
from tagsmith.pipelines.replies import Candidate, Judge, Ready, ReplyFinder, ReplySettings, Wish
from tagsmith.pipelines.run import run, stream
from tagsmith.pipelines.tag import DIGITS, problem
from tagsmith.records import Pair, Post, Replies, Reply, Segment
from tagsmith.text.block_list import BlockList
from tagsmith.text.normalise import lone_surrogate
from tagsmith.text.pieces import END, UNKNOWN, Pieces
from tagsmith.text.reading import aligned_reading, reading
from tagsmith.text.stopwords import STOP_WORDS
from tagsmith.text.tokenise import word_spans

MOST_ATTENDED = 3  # query words shown as evidence
MOST_TOPICS = 5
_LAST_WORD = re.compile(r"\s*[^\W_]+(?:['’-][^\W_]*)*\Z")
_BLANK = "▁"
Block = BlockList | Sequence[str] | None


@dataclass(frozen=True)
class Raw:
    """What was found for one query."""

    candidates: list[Candidate]
    weights: list[list[float]] | None = None  # of each candidate: how much each query token was attended to
    topics: tuple[str, ...] | None = None


class Replier:
    """Queries in, `Replies` out: same length, same order."""

    reads = "pairs"

    def __init__(self, finder: ReplyFinder) -> None:
        self.finder = finder
        self._vocabulary = finder.pieces.vocabulary()

    @classmethod
    def of(cls, bundle: Bundle) -> Replier:
        """From a loaded bundle; in full precision, so that a draw does not hang on how many share a pass."""
        settings = from_dict(ReplySettings, bundle.pipeline)
        if not isinstance(bundle.tokeniser, Pieces):
            raise BundleError(f"{bundle.name} reads no sub-words and cannot write replies; train it again")
        return cls(ReplyFinder(bundle.model.float(), bundle.tokeniser, settings))

    @property
    def settings(self) -> ReplySettings:
        return self.finder.settings

    def judged_by(self, name: str) -> Replier:
        """The same, its candidates ranked with a model of swapped pairs (MMI)."""
        bundle = load_bundle(name)
        if bundle.task != "reply" or not isinstance(bundle.tokeniser, Pieces):
            raise ConfigError(f"{name} is for the task {bundle.task!r}; a judge is a reply model of swapped pairs")
        judge = Judge(bundle.model.float(), bundle.tokeniser, from_dict(ReplySettings, bundle.pipeline))
        return Replier(ReplyFinder(self.finder.model, self.finder.pieces, self.settings, judge))

    def searching(self, beam: int) -> Replier:
        """The same, by beam search instead of chance."""
        settings = replace(self.settings, how="beam", beam=beam)
        return Replier(ReplyFinder(self.finder.model, self.finder.pieces, settings, self.finder.judge))

    def reply(
        self,
        queries: Sequence[str | Pair | Post],
        *,
        top: int | None = None,
        seed: int | None = None,
        about: Sequence[str] = (),
        block: Block = None,
        longest: int | None = None,
        evidence: bool = False,
    ) -> list[Replies]:
        """At most `top` different replies to each query.

        The same `seed` gives the same replies; without one they are new every time. `about` are topic words to steer
        towards, `block` words and phrases that no reply says, `longest` the most words (Chinese: characters) of a
        reply; `evidence` adds the query words attended to most and the topic words inferred.
        """
        wish = self.wish(top=top, seed=seed, about=about, block=block, longest=longest, evidence=evidence)
        return run(_ReplyRun(self, wish), [as_pair(query) for query in queries])

    def stream(
        self,
        queries: Iterable[str | Pair | Post],
        *,
        top: int | None = None,
        seed: int | None = None,
        about: Sequence[str] = (),
        block: Block = None,
        longest: int | None = None,
        evidence: bool = False,
    ) -> Iterator[tuple[Pair, Replies]]:
        """The same for any number of queries, in bounded memory."""
        wish = self.wish(top=top, seed=seed, about=about, block=block, longest=longest, evidence=evidence)
        return stream(_ReplyRun(self, wish), map(as_pair, queries))

    def stages(self, **asked: Any) -> _ReplyRun:
        """The three stages of `reply`, whose options it takes, for those who run them by themselves."""
        return _ReplyRun(self, self.wish(**asked))

    def stream_words(
        self,
        query: str,
        *,
        seed: int | None = None,
        about: Sequence[str] = (),
        block: Block = None,
        longest: int | None = None,
    ) -> Iterator[str]:
        """One reply drawn by chance, a word at a time; joined it is what was drawn first for that seed."""
        wish = self.wish(top=1, seed=seed, about=about, block=block, longest=longest)
        (ready,) = self.ready([Pair(query)])
        if ready is None:
            raise DataError(problem(query) or "the text has nothing that can be read; give words")
        return self._words(ready, wish)

    def _words(self, ready: Ready, wish: Wish) -> Iterator[str]:
        ids: list[int] = []
        given = ""
        with torch.inference_mode():
            for step in self.finder.walk([ready], wish, draws=1):
                ended = bool(step.done[0])
                ids += [] if ended else [int(step.tokens[0])]
                text = self.finder.candidate(ids, 0.0, ended=ended).text
                if wish.blocked and wish.blocked.blocks(text):
                    return
                whole = text if ended or len(ids) == wish.steps else _LAST_WORD.sub("", text)
                if len(whole) > len(given) and whole.startswith(given):
                    yield whole[len(given) :]
                    given = whole

    def wish(
        self,
        *,
        top: int | None = None,
        seed: int | None = None,
        about: Sequence[str] = (),
        block: Block = None,
        longest: int | None = None,
        evidence: bool = False,
    ) -> Wish:
        """What is asked for, checked."""
        for name, value in (("top", top), ("longest", longest)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, not {value}")
        blocked = BlockList(block) if block is not None and not isinstance(block, BlockList) else block
        return Wish(
            top=top or self.settings.top,
            seed=secrets.randbits(48) if seed is None else seed,
            steps=min(self.settings.steps, longest or self.settings.steps),
            about=tuple(self._steer(word) for word in about),
            blocked=blocked,
            banned=self._banned(blocked),
            evidence=evidence,
        )

    def _steer(self, word: str) -> tuple[str, tuple[int, ...]]:
        """A topic word and its pieces; one that cannot be written is an error."""
        ids = self._written(word) if lone_surrogate(word) is None else ()
        if not ids or UNKNOWN in ids:
            raise ConfigError(f"the word {word!r} to talk about is not in the model's vocabulary; take another word")
        return word, ids

    def _banned(self, blocked: BlockList | None) -> tuple[int, ...]:
        """Blocked words that are one piece: these are not even drawn."""
        single = [" ".join(phrase) for phrase in blocked.phrases if len(phrase) == 1] if blocked else []
        found = [self._written(word) for word in single if lone_surrogate(word) is None]
        return tuple(ids[0] for ids in found if len(ids) == 1 and ids[0] != UNKNOWN)

    def _written(self, word: str) -> tuple[int, ...]:
        """The pieces of a word, without a blank of its own before ideographs."""
        ids = self.finder.pieces.ids([word])[0]
        return tuple(one for one in ids if self._vocabulary[one] != _BLANK)

    def ready(self, pairs: Sequence[Pair]) -> list[Ready | None]:
        """The first tokens of each query; None for one that cannot be read."""
        good = [place for place, pair in enumerate(pairs) if problem(pair.query) is None]
        ids = self.finder.pieces.ids([reading(pairs[place].query) for place in good])
        found: list[Ready | None] = [None] * len(pairs)
        for place, row in zip(good, ids, strict=True):
            if row:
                found[place] = Ready(row[: self.settings.source], pairs[place].query)
        return found

    @torch.inference_mode()
    def raws(self, ready: Sequence[Ready], wish: Wish) -> list[Raw]:
        """Candidates for each query, with their evidence where it is asked for."""
        found = self.finder.find(ready, wish)
        if not wish.evidence:
            return [Raw(candidates) for candidates in found]
        topics = self._topics(ready)
        return [
            Raw(candidates, self._weights(one, candidates), words)
            for one, candidates, words in zip(ready, found, topics, strict=True)
        ]

    def _topics(self, ready: Sequence[Ready]) -> list[tuple[str, ...]]:
        """The likeliest words of each query's topic distribution."""
        model = self.finder.model
        scores = None
        if hasattr(model, "topic_scores"):
            source, lengths = pad_ids([one.ids for one in ready], longest=self.settings.source)
            scores = model.topic_scores(source.to(self.finder.device), lengths.to(self.finder.device))
        if scores is None:
            return [()] * len(ready)
        best = scores.topk(min(100, scores.shape[1])).indices.tolist()
        named = ([word for one in row if (word := self._topic_word(one))] for row in best)
        return [tuple(words[:MOST_TOPICS]) for words in named]

    def _topic_word(self, number: int) -> str:
        """A piece that is a word of its own and tells something; else nothing."""
        piece = self._vocabulary[number]
        word = piece.removeprefix(_BLANK)
        begins = piece.startswith(_BLANK) and len(word) > 2 if word.isascii() else len(word) == 1
        return word if begins and word.isalpha() and word not in STOP_WORDS else ""

    def _weights(self, ready: Ready, candidates: Sequence[Candidate]) -> list[list[float]]:
        """How much each query token was attended to while each reply was written."""
        model = self.finder.model
        if not candidates or not hasattr(model, "salience"):
            return [[]] * len(candidates)
        source, lengths = pad_ids([ready.ids] * len(candidates), longest=self.settings.source)
        closed = [[*one.ids, END] if one.ended else list(one.ids) for one in candidates]
        target, target_lengths = pad_ids(closed, longest=max(map(len, closed)))
        found = model.salience(PairBatch(source, lengths, target, target_lengths).to(self.finder.device))
        return [[]] * len(candidates) if found is None else found.tolist()

    def answer(self, pair: Pair, raw: Raw | None, wish: Wish) -> Replies:
        """The replies as records."""
        if raw is None:
            reason = problem(pair.query) or "the text has nothing that can be read; give words"
            return Replies(id=pair.id, error=reason)
        places = self._word_places(pair.query) if wish.evidence else []
        replies = []
        for number, one in enumerate(raw.candidates):
            attended = None
            if raw.weights is not None:
                attended = _attended(places, raw.weights[number])
            replies.append(Reply(one.text, round(min(one.score, 1.0), DIGITS), attended))
        return Replies(tuple(replies), id=pair.id, topics=raw.topics)

    def _word_places(self, query: str) -> list[tuple[int, int, list[int]]]:
        """The words of a query: where they stand in the given text, and which tokens they are made of."""
        text, origins = aligned_reading(query)
        spans = self.finder.pieces.spans(text)[: self.settings.source]
        found = []
        for word, start, end in word_spans(text):
            own = [place for place, (first, last) in enumerate(spans) if first < end and last > start]
            if own and word[0].isalnum():
                after = next((place for place in origins[end:] if place > origins[end - 1]), origins[-1])
                found.append((origins[start], after, own))
        return found


class _ReplyRun:
    """prepare, forward, finish for one call's wish."""

    def __init__(self, replier: Replier, wish: Wish) -> None:
        self.replier = replier
        self.wish = wish

    def prepare(self, pairs: Sequence[Pair]) -> list[Ready | None]:
        return self.replier.ready(pairs)

    @property
    def batch(self) -> int:
        rows = 64 if self.replier.finder.device.type == "cpu" else 2048
        return max(1, rows // self.replier.finder.draws(self.wish))

    def shape(self, ready: Ready) -> int:
        return -(-len(ready.ids) // 8)

    def tokens(self, ready: Ready) -> int:
        return len(ready.ids)

    def forward(self, ready: Sequence[Ready]) -> list[Raw]:
        return self.replier.raws(ready, self.wish)

    def finish(self, pairs: Sequence[Pair], raws: Sequence[Raw | None]) -> list[Replies]:
        return [self.replier.answer(pair, raw, self.wish) for pair, raw in zip(pairs, raws, strict=True)]


def as_pair(given: str | Pair | Post) -> Pair:
    """A text on its own, or a post, is a query without responses."""
    if isinstance(given, Pair):
        return given
    return Pair(given) if isinstance(given, str) else Pair(given.text, id=given.id, parts=given.parts)


def _attended(places: Sequence[tuple[int, int, list[int]]], weights: Sequence[float]) -> tuple[Segment, ...]:
    """The query words attended to most, best first."""
    if not weights:
        return ()
    every = [Segment(start, end, round(max(weights[one] for one in own), DIGITS)) for start, end, own in places]
    return tuple(sorted(every, key=lambda one: (-one.score, one.start))[:MOST_ATTENDED])
