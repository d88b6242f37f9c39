"""The model's part of replying: queries as ids in, candidates out.

ids --draw by chance, or beam search--> candidates --block list, no two alike--> --score, or a judge--> best first

A query's chances come from the seed and its own text: its replies never depend on its neighbours.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from tagsmith.config import check_positive
from tagsmith.data.batches import PairBatch, pad_ids
from tagsmith.decode import Constraint, Ends, Several, at_least, ban, beam, follow, no_repeat
from tagsmith.errors import ConfigError
from tagsmith.text.block_list import BlockList
from tagsmith.text.pieces import END, PAD, SEGMENT, SEPARATOR, TEXT, UNKNOWN, Pieces
from tagsmith.text.reading import reading
from tagsmith.text.spoken import spoken
from tagsmith.text.tokenise import words

ROUNDS = 4  # of drawing, while too few different replies were found
STEERED = 16  # candidates at least where topic words are asked for
ROWS = 16  # replies whose every token is scored at once
OWN_ROWS = 64  # replies, without a query
ENDS = Ends((END,))


@dataclass(frozen=True)
class ReplySettings:
    """How replies are found."""

    language: Literal["en", "zh"] = "en"
    source: int = 64  # tokens of a query that are read
    steps: int = 50  # tokens of a reply, at most
    top: int = 3  # replies returned, at most
    how: Literal["sample", "beam"] = "sample"
    draws: int = 0  # candidates drawn for a query; 0: as many as are returned
    top_k: int = 20  # tokens to draw from
    temperature: float = 1.0
    beam: int = 10
    no_repeat: int = 0  # no run of so many tokens twice; 0: as it comes
    never: tuple[str, ...] = ()  # pieces with one of these are not written: stand-ins of the training texts
    own_weight: float = 0.0  # of how likely a drawn reply is whatever the query: that counts against it
    about_bonus: float = 4.0  # added to the log-probability of a topic word that was asked for
    judge_draws: int = 50  # candidates for a judge to choose from
    judge_weight: float = 0.5  # of how likely the query is after the reply
    judge_length: float = 0.0  # added for each token of the reply
    direction: Literal["forward", "backward"] = "forward"  # backward: trained on swapped pairs, to judge

    def __post_init__(self) -> None:
        check_positive(self, "source", "steps", "top", "beam")
        if self.temperature <= 0:
            raise ConfigError(f"temperature must be above 0, not {self.temperature}; 1 leaves chances as they are")


@dataclass(frozen=True)
class Wish:
    """What one call asks for."""

    top: int
    seed: int
    steps: int
    about: tuple[tuple[str, tuple[int, ...]], ...] = ()  # words to steer towards, and their pieces
    blocked: BlockList | None = None
    banned: tuple[int, ...] = ()  # blocked words that are one piece
    evidence: bool = False


class Ready(NamedTuple):
    """A query made ready for the model."""

    ids: list[int]
    text: str  # as given


@dataclass(frozen=True)
class Candidate:
    """A reply as it was found."""

    ids: tuple[int, ...]  # without [END]
    text: str
    total: float  # log-probability
    ended: bool  # False: it was cut at the length limit
    score: float = field(default=0.0)


class ReplyFinder:
    """A model with its pieces, and a judge where there is one: finds different replies, best first."""

    def __init__(self, model: Any, pieces: Pieces, settings: ReplySettings, judge: Judge | None = None) -> None:
        self.model = model
        self.pieces = pieces
        self.settings = settings
        self.judge = judge
        vocabulary = pieces.vocabulary() if settings.never else []
        self._never = [id for id, piece in enumerate(vocabulary) if any(word in piece for word in settings.never)]

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def draws(self, wish: Wish) -> int:
        """Candidates drawn for a query in one round."""
        least = self.settings.judge_draws if self.judge else self.settings.draws
        return max(wish.top, least, STEERED, 4 * wish.top) if wish.about else max(wish.top, least)

    @torch.inference_mode()
    def find(self, ready: Sequence[Ready], wish: Wish) -> list[list[Candidate]]:
        """At most `wish.top` different replies for each query."""
        pools: list[dict[str, Candidate]] = [{} for _ in ready]
        lacking = list(range(len(ready)))
        for number in range(ROUNDS if self.settings.how == "sample" else 1):
            some = [ready[place] for place in lacking]
            found = self._drawn(some, wish, number) if self.settings.how == "sample" else self._searched(some, wish)
            for place, candidates in zip(lacking, found, strict=True):
                for one in candidates:
                    if one.text and not (wish.blocked and wish.blocked.blocks(one.text)):
                        pools[place].setdefault(_mark(one.text), one)
            lacking = [place for place in lacking if len(pools[place]) < wish.top]
            if not lacking:
                break
        lists = [list(pool.values()) for pool in pools]
        own = self._own_likeliness(lists)
        return [self._ranked(*each, wish) for each in zip(ready, lists, own, strict=True)]

    def _own_likeliness(self, lists: Sequence[Sequence[Candidate]]) -> list[list[float]]:
        """How likely each candidate is by itself, where that counts."""
        if not self._counts_own:
            return [[0.0] * len(each) for each in lists]
        every = sorted({one.ids for each in lists for one in each}, key=len)
        found: dict[tuple[int, ...], float] = {}
        for start in range(0, len(every), OWN_ROWS):
            some = every[start : start + OWN_ROWS]
            texts, lengths = pad_ids([list(ids) for ids in some], longest=len(some[-1]))
            found.update(zip(some, self.model.own_likeliness(texts.to(self.device), lengths.to(self.device)).tolist()))
        return [[found[one.ids] for one in each] for each in lists]

    @property
    def _counts_own(self) -> bool:
        """Only a language model, which learns its queries too, knows how likely a text is by itself."""
        drawn = self.settings.how == "sample" and self.judge is None
        return drawn and self.settings.own_weight > 0 and hasattr(self.model, "own_likeliness")

    def rules(self, wish: Wish) -> list[Constraint]:
        """What may be written."""
        rules = [ban([PAD, UNKNOWN, SEPARATOR, TEXT, SEGMENT, *self._never, *wish.banned]), at_least(1, [END])]
        if self.settings.no_repeat:
            rules.append(no_repeat(self.settings.no_repeat))
        if wish.about:
            rules.append(towards([ids for _, ids in wish.about], self.settings.about_bonus))
        return rules

    def walk(self, ready: Sequence[Ready], wish: Wish, *, draws: int, number: int = 0) -> Any:
        """Token by token; rows are the draws of the first query, then of the second..."""
        source, lengths = self._padded(ready)
        chances = torch.cat([chances_of(one.text, wish, draws=draws, number=number) for one in ready])
        return follow(
            Several(self.model.stepper(source, lengths), draws),
            chances.to(self.device),
            ends=ENDS,
            top_k=self.settings.top_k,
            temperature=self.settings.temperature,
            constraints=self.rules(wish),
        )

    def candidate(self, ids: Sequence[int], total: float, *, ended: bool) -> Candidate:
        """Ids as a reply."""
        return Candidate(tuple(ids), spoken(self.pieces.join(ids)), total, ended)

    def _drawn(self, ready: Sequence[Ready], wish: Wish, number: int) -> list[list[Candidate]]:
        draws = self.draws(wish)
        steps = list(self.walk(ready, wish, draws=draws, number=number))
        written = torch.stack([step.tokens for step in steps], dim=1)  # (rows, length)
        lengths = ENDS.lengths(written[:, None])[:, 0].tolist()
        totals, done = steps[-1].total.tolist(), steps[-1].done.tolist()
        every = [
            self.candidate(row[:length], total, ended=ended)
            for row, length, total, ended in zip(written.tolist(), lengths, totals, done, strict=True)
        ]
        return [every[start : start + draws] for start in range(0, len(every), draws)]

    def _searched(self, ready: Sequence[Ready], wish: Wish) -> list[list[Candidate]]:
        source, lengths = self._padded(ready)
        width = max(self.settings.beam, wish.top)
        found = beam(
            self.model.stepper(source, lengths), width=width, ends=ENDS, steps=wish.steps, constraints=self.rules(wish)
        )
        lists = []
        for rows, scores, sizes in zip(
            found.tokens.tolist(), found.scores.tolist(), found.lengths.tolist(), strict=True
        ):
            whole = zip(rows, scores, sizes, strict=True)
            lists.append(
                [self.candidate(row[:size], score, ended=END in row) for row, score, size in whole if score > -math.inf]
            )
        return lists

    def _ranked(self, ready: Ready, pool: list[Candidate], own: list[float], wish: Wish) -> list[Candidate]:
        """Best first: those about what was asked for, then whole ones, then by their worth."""
        if not pool:
            return []
        if self.judge is None and self.settings.how == "sample":  # by the mean chance of a token
            lengths = [len(one.ids) + one.ended for one in pool]
            scores = [math.exp(one.total / length) for one, length in zip(pool, lengths, strict=True)]
            against = (self.settings.own_weight * each for each in own)
            values = [(one.total - less) / length for one, less, length in zip(pool, against, lengths, strict=True)]
        else:  # by the whole; a score is the share among the candidates
            values = self._worth(ready, pool)
            scores = torch.tensor(values).softmax(0).tolist()
        said = [sum(_says(one.text, word) for word, _ in wish.about) for one in pool]
        order = sorted(range(len(pool)), key=lambda at: (-said[at], not pool[at].ended, -values[at], pool[at].text))
        best = (pool[at] for at in order[: wish.top])
        return [
            Candidate(one.ids, one.text, one.total, one.ended, scores[at])
            for one, at in zip(best, order[: wish.top], strict=True)
        ]

    def _worth(self, ready: Ready, pool: Sequence[Candidate]) -> list[float]:
        if self.judge is None:
            return [one.total for one in pool]
        back = self.judge.likely(ready.text, [one.text for one in pool])
        weight, each = self.settings.judge_weight, self.settings.judge_length
        return [one.total + weight * other + each * len(one.ids) for one, other in zip(pool, back, strict=True)]

    def _padded(self, ready: Sequence[Ready]) -> tuple[Tensor, Tensor]:
        source, lengths = pad_ids([one.ids for one in ready], longest=self.settings.source)
        return source.to(self.device), lengths.to(self.device)


class Judge:
    """A model of swapped pairs (MMI): how likely is the query after the reply?"""

    def __init__(self, model: Any, pieces: Pieces, settings: ReplySettings) -> None:
        if settings.direction != "backward":
            raise ConfigError(
                "the judge was trained on queries and replies in their order; it must be trained on swapped pairs, "
                'with direction = "backward" under [pipeline]'
            )
        self.model = model
        self.pieces = pieces
        self.settings = settings

    def likely(self, query: str, replies: Sequence[str]) -> list[float]:
        """The log-probability of the query after each reply."""
        own = self.pieces.ids([reading(query)])[0]
        said = self.pieces.ids([reading(reply) for reply in replies])
        sums, _ = log_probabilities(self.model, said, [own] * len(replies), self.settings)
        return sums.tolist()


@torch.inference_mode()
def log_probabilities(
    model: Any, sources: Sequence[list[int]], targets: Sequence[list[int]], settings: ReplySettings
) -> tuple[Tensor, Tensor]:
    """The summed log-probability of each target with its [END], and how many tokens that are.  -> (rows,), (rows,)"""
    device = next(model.parameters()).device
    sums, counts = [], []
    for start in range(0, len(sources), ROWS):
        some = slice(start, start + ROWS)
        source, lengths = pad_ids([ids or [UNKNOWN] for ids in sources[some]], longest=settings.source)
        closed = [[*ids[: settings.steps - 1], END] for ids in targets[some]]
        target, target_lengths = pad_ids(closed, longest=settings.steps)
        batch = PairBatch(source, lengths, target, target_lengths).to(device)
        logs = model(batch).scores.float().log_softmax(-1).gather(2, batch.target[:, :, None])[:, :, 0]
        sums.append((logs * (batch.target != PAD)).sum(1).double().cpu())
        counts.append(target_lengths)
    return torch.cat(sums), torch.cat(counts)


def chances_of(text: str, wish: Wish, *, draws: int, number: int) -> Tensor:
    """Numbers in 0..1 for each token of each draw, from the seed, the text and the round.  -> (draws, steps)"""
    mark = hashlib.blake2b(f"{wish.seed} {number} {text}".encode("utf-8", "surrogatepass"), digest_size=7).digest()
    chance = torch.Generator().manual_seed(int.from_bytes(mark))
    return torch.rand(draws, wish.steps, generator=chance)


def towards(names: Sequence[Sequence[int]], bonus: float) -> Constraint:
    """Make some words likelier, each until it was written: its first piece anywhere, the others where they go on."""

    def constraint(written: Tensor, scores: Tensor) -> Tensor:
        scores = scores.clone()
        for ids in names:
            open_still = ~_written(written, ids)
            for known, piece in enumerate(ids):
                scores[..., piece] += bonus * (open_still & _ends_with(written, ids[:known]))
        return scores

    return constraint


def _written(written: Tensor, ids: Sequence[int]) -> Tensor:
    """Do the ids stand somewhere?  (batch, beam, length) -> (batch, beam)"""
    found = torch.zeros(written.shape[:2], dtype=torch.bool, device=written.device)
    wanted = torch.tensor(ids, device=written.device)
    for start in range(written.shape[2] - len(ids) + 1):
        found |= (written[:, :, start : start + len(ids)] == wanted).all(-1)
    return found


def _ends_with(written: Tensor, ids: Sequence[int]) -> Tensor:
    if len(ids) > written.shape[2]:
        return torch.zeros(written.shape[:2], dtype=torch.bool, device=written.device)
    last = written[:, :, written.shape[2] - len(ids) :]
    return (last == torch.tensor(ids, dtype=torch.long, device=written.device)).all(-1)


def _mark(text: str) -> str:
    """What two replies share that say the same: their words without marks."""
    return " ".join(word for word in words(text.lower()) if word[0].isalnum()) or text


def _says(text: str, phrase: str) -> bool:
    return BlockList([phrase]).blocks(text)
