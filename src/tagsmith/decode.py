"""Search: from a model that scores next tokens to whole sequences. Knows steps and scores, no model.

A batch has several texts, each with a beam of hypotheses: tokens are (batch, beam), scores (batch, beam, vocab).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from tagsmith.errors import ConfigError
from tagsmith.nn.best import Best, best_of, top_of

State = TypeVar("State")
SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # texts that go on together
Constraint = Callable[[Tensor, Tensor], Tensor]  # tokens so far (batch, beam, written), scores -> scores


class Ends(NamedTuple):
    """What ends a sequence: tokens that say so, and ids from `whole` on, each a whole sequence or the end of one."""

    tokens: tuple[int, ...]
    whole: int = 2**62

    def match(self, ids: Tensor) -> Tensor:
        """True where an id ends its sequence."""
        ended = ids >= self.whole
        for token in self.tokens:
            ended = ended | (ids == token)
        return ended

    def lengths(self, written: Tensor) -> Tensor:
        """Tokens that count: those before an end token, and a whole one itself.  (batch, n, length) -> (batch, n)"""
        places = torch.arange(written.shape[2], device=written.device)
        own = torch.where(written >= self.whole, places + 1, places)
        return torch.where(self.match(written), own, written.shape[2]).amin(-1)


class Stepper(Protocol[State]):
    """What search asks of a model: begin, go on, and follow the hypotheses that live."""

    def start(self) -> tuple[Tensor, State]: ...  # -> (batch, 1, vocab)
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]: ...  # (batch, beam) -> (batch, beam, vocab)
    def reorder(self, state: State, parents: Tensor) -> State: ...  # (batch, beam) of the beam before
    def narrow(self, state: State, texts: Tensor) -> State: ...  # only these texts of the batch go on


class Chooser(Protocol[State]):
    """The same of a model that tells the likeliest tokens alone, which is all a beam without constraints asks for."""

    def start(self) -> tuple[Best, State]: ...
    def step(self, tokens: Tensor, state: State) -> tuple[Best, State]: ...
    def reorder(self, state: State, parents: Tensor) -> State: ...
    def narrow(self, state: State, texts: Tensor) -> State: ...


class Found(NamedTuple):
    """Sequences, best first; unused places hold the pad token and a score of minus infinity."""

    tokens: Tensor  # (batch, n, length), with their end token
    scores: Tensor  # (batch, n) log-probability, divided by length ** alpha where asked
    lengths: Tensor  # (batch, n) tokens before the end token


Pick = Callable[[Tensor], Tensor]  # log-probabilities (batch, vocab) -> tokens (batch,)


def greedy(stepper: Stepper[State], *, ends: Ends, steps: int, constraints: Sequence[Constraint] = ()) -> Found:
    """The best token at each step."""
    return _walk(stepper, lambda logs: logs.argmax(-1), ends=ends, steps=steps, constraints=constraints)


def _walk(
    stepper: Stepper[State],
    pick: Pick,
    *,
    ends: Ends,
    steps: int,
    temperature: float = 1.0,
    constraints: Sequence[Constraint] = (),
) -> Found:
    """One sequence for each text, token by token."""
    scores, state = stepper.start()
    written = scores.new_zeros((scores.shape[0], 1, 0), dtype=torch.long)
    total = scores.new_zeros(scores.shape[:2], dtype=torch.float32)
    done = torch.zeros_like(total, dtype=torch.bool)
    for step in range(steps):
        logs = _log_softmax(scores / temperature, written, constraints)
        tokens = pick(logs[:, 0])[:, None].masked_fill(done, 0)  # (batch, 1)
        total = total + logs.gather(2, tokens[:, :, None])[:, :, 0].masked_fill(done, 0.0)
        written = torch.cat([written, tokens[:, :, None]], dim=2)
        done = done | ends.match(tokens)
        if step + 1 == steps or bool(done.all()):
            break
        scores, state = stepper.step(tokens, state)
    return Found(written, total, ends.lengths(written))


class _Beam(NamedTuple):
    """Hypotheses that go on, best first, and the best that have ended."""

    written: Tensor  # (batch, beam, length)
    scores: Tensor  # (batch, beam)
    ended: Tensor  # (batch, n, length)
    ended_scores: Tensor  # (batch, n)

    def rows(self, places: Tensor) -> _Beam:
        """The same for some texts of the batch."""
        return _Beam(*(part[places] for part in self))


def enough(width: int, ends: Ends) -> int:
    """How many of the likeliest tokens a beam asks for: those that go on, and those that end."""
    return width + len(ends.tokens)


def beam(
    stepper: Stepper[State] | Chooser[State],
    *,
    width: int,
    ends: Ends,
    steps: int,
    alpha: float = 0.0,
    share: float = 0.0,
    constraints: Sequence[Constraint] = (),
) -> Found:
    """The `width` best sequences by summed log-probability; each text's search ends on its own evidence.

    Hypotheses below `share` of the best ended sequence's probability are not pursued (0: all are). Texts whose list
    can no longer change leave the batch, and hypotheses that can enter no list leave the beam.
    """
    scores, state = stepper.start()
    if constraints and isinstance(scores, Best):
        raise ConfigError("constraints ask for the scores of all tokens; give a stepper, not a chooser")
    beams = _first_beam(scores.ids if isinstance(scores, Best) else scores, width)
    texts = torch.arange(len(beams.scores), device=beams.scores.device)  # which texts are still in the batch
    settled: list[tuple[Tensor, _Beam]] = []
    for step in range(1, steps + 1):
        beams, parents = _grow(
            beams, scores, ends, width=width, alpha=alpha, last=step == steps, constraints=constraints
        )
        hopeful = beams.scores / steps**alpha > _bar(beams, share)  # (batch, beam)
        alive = hopeful.any(1)
        if step == steps or not bool(alive.any()):
            break
        size = next((size for size in SIZES if size >= int(alive.sum())), len(alive))
        if size < len(alive):  # few sizes, so that few shapes occur: some settled texts may stay, which changes nothing
            stay = torch.zeros_like(alive).scatter(0, alive.int().argsort(descending=True, stable=True)[:size], True)
            settled.append((texts[~stay], beams.rows(~stay)))
            kept = stay.nonzero()[:, 0]
            texts, beams, parents, hopeful = texts[kept], beams.rows(kept), parents[kept], hopeful[kept]
            state = stepper.narrow(state, kept)
        wide = int(hopeful.sum(1).max())
        beams = beams._replace(written=beams.written[:, :wide], scores=beams.scores[:, :wide])
        scores, state = stepper.step(beams.written[:, :, -1], stepper.reorder(state, parents[:, :wide]))
    return _gather_found([*settled, (texts, beams)], ends)


def sample(
    stepper: Stepper[State],
    *,
    generator: torch.Generator,
    ends: Ends,
    steps: int,
    top_k: int = 0,
    top_p: float = 1.0,
    temperature: float = 1.0,
    constraints: Sequence[Constraint] = (),
) -> Found:
    """Tokens drawn by chance from the `top_k` likeliest, or from the smallest set that holds `top_p` of the weight."""

    def pick(logs: Tensor) -> Tensor:
        return draw(logs, top_k=top_k, top_p=top_p, generator=generator)

    return _walk(stepper, pick, ends=ends, steps=steps, temperature=temperature, constraints=constraints)


def draw(logs: Tensor, *, top_k: int, top_p: float, generator: torch.Generator) -> Tensor:
    """One token for each row of log-probabilities.  (batch, vocab) -> (batch,)"""
    ordered, ids = logs.sort(-1, descending=True)
    weights = ordered.exp()
    before = weights.cumsum(-1) - weights
    keep = before < top_p  # the likeliest is always kept
    if top_k:
        keep = keep & (torch.arange(logs.shape[-1], device=logs.device) < top_k)
    place = torch.multinomial(weights * keep, 1, generator=generator)
    return ids.gather(1, place)[:, 0]


class Followed(NamedTuple):
    """One more token of every text, and where that leaves them."""

    tokens: Tensor  # (batch,); 0 for texts that had ended
    total: Tensor  # (batch,) log-probability so far, by the model itself
    done: Tensor  # (batch,)


def follow(
    stepper: Stepper[State],
    chances: Tensor,
    *,
    ends: Ends,
    top_k: int = 0,
    temperature: float = 1.0,
    constraints: Sequence[Constraint] = (),
) -> Iterator[Followed]:
    """Draw token by token with given chances (batch, steps) in 0..1: a text's tokens depend on its own row alone.

    Neither temperature nor constraints change what a token counts: its log-probability is the model's.
    """
    scores, state = stepper.start()
    written = scores.new_zeros((scores.shape[0], 1, 0), dtype=torch.long)
    total = scores.new_zeros(scores.shape[0], dtype=torch.float32)
    done = torch.zeros_like(total, dtype=torch.bool)
    rows = torch.arange(len(total), device=total.device)  # of the texts that go on
    for step, chance in enumerate(chances.unbind(1), start=1):
        plain = scores[:, 0].float().log_softmax(-1)
        logs = _log_softmax(scores / temperature, written, constraints)[:, 0]
        tokens = draw_at(logs, chance[rows], top_k=top_k).masked_fill(done[rows], 0)
        told = plain.gather(1, tokens[:, None])[:, 0].masked_fill(done[rows], 0.0)
        every = torch.zeros_like(done, dtype=torch.long).index_copy(0, rows, tokens)
        total = total.index_add(0, rows, told)
        done = done | ends.match(every)
        yield Followed(every, total, done)
        if step == chances.shape[1] or bool(done.all()):  # the model may have no place for one token more
            return
        written = torch.cat([written, tokens[:, None, None]], dim=2)
        going = (~done[rows]).nonzero()[:, 0]
        if 2 * len(going) <= len(rows):  # narrowing copies what the model remembers: now and then
            state, written, tokens, rows = stepper.narrow(state, going), written[going], tokens[going], rows[going]
        scores, state = stepper.step(tokens[:, None], state)


def draw_at(logs: Tensor, chance: Tensor, *, top_k: int) -> Tensor:
    """The token at which the summed weight of the `top_k` likeliest (0: of all) passes `chance`.

    (batch, vocab), (batch,) -> (batch,)
    """
    ordered, ids = top_of(logs, min(top_k or logs.shape[-1], logs.shape[-1]))
    weights = (ordered - ordered[:, :1]).double().exp()
    sums = weights.cumsum(-1)
    place = (sums <= chance.double()[:, None] * sums[:, -1:]).sum(-1)
    return ids.gather(1, place.clamp(max=ids.shape[1] - 1)[:, None])[:, 0]


class Several:
    """A stepper that writes `count` sequences for each text, each a text of its own; texts are read once."""

    def __init__(self, stepper: Any, count: int) -> None:
        self.stepper = stepper
        self.count = count
        self.step, self.reorder, self.narrow = stepper.step, stepper.reorder, stepper.narrow

    def start(self) -> tuple[Tensor, Any]:
        """(batch * count, 1, vocab)"""
        scores, state = self.stepper.start()
        rows = torch.arange(len(scores), device=scores.device).repeat_interleave(self.count)
        return scores[rows], self.stepper.narrow(state, rows)


def ban(ids: Sequence[int]) -> Constraint:
    """Never write these tokens."""
    banned = list(ids)

    def constraint(written: Tensor, scores: Tensor) -> Tensor:
        scores[..., banned] = -math.inf
        return scores

    return constraint


def at_least(count: int, ends: Sequence[int]) -> Constraint:
    """Do not end before `count` tokens are written."""
    stops = list(ends)

    def constraint(written: Tensor, scores: Tensor) -> Tensor:
        if written.shape[2] < count:
            scores[..., stops] = -math.inf
        return scores

    return constraint


def no_repeat(size: int) -> Constraint:
    """Write no run of `size` tokens twice."""

    def constraint(written: Tensor, scores: Tensor) -> Tensor:
        if written.shape[2] < size:
            return scores
        runs = written.unfold(2, size, 1)  # (batch, beam, places, size)
        last = written[:, :, None, written.shape[2] - size + 1 :]
        again = (runs[..., :-1] == last).all(-1)
        most = torch.where(again, -math.inf, math.inf).to(scores.dtype)
        return scores.scatter_reduce(2, runs[..., -1], most, "amin")

    return constraint


def _grow(
    beams: _Beam,
    scores: Tensor | Best,
    ends: Ends,
    *,
    width: int,
    alpha: float,
    last: bool,
    constraints: Sequence[Constraint],
) -> tuple[_Beam, Tensor]:
    """Add one token to every hypothesis; those that end leave the beam."""
    length = beams.written.shape[2] + 1
    logs, ids = _best(scores, beams.written, constraints, enough(width, ends))
    batch, live, keep = ids.shape
    totals = (beams.scores[:, :, None] + logs).flatten(1)
    ids = ids.flatten(1)
    parents = torch.arange(live, device=ids.device).repeat_interleave(keep).expand(batch, -1)
    ending = ends.match(ids) | last
    ended_scores, ended_places = (
        (totals / length**alpha).masked_fill(~ending, -math.inf).topk(min(width, totals.shape[1]))
    )
    ended = _extend(beams.written, parents.gather(1, ended_places), ids.gather(1, ended_places))
    pool = torch.cat([torch.nn.functional.pad(beams.ended, (0, 1)), ended], dim=1)
    pool_scores, order = torch.cat([beams.ended_scores, ended_scores], dim=1).topk(width)
    pool = pool.gather(1, order[:, :, None].expand(-1, -1, length))
    live_scores, places = totals.masked_fill(ending, -math.inf).topk(min(width, totals.shape[1]))
    parents = parents.gather(1, places)
    written = _extend(beams.written, parents, ids.gather(1, places))
    return _Beam(written, live_scores, pool, pool_scores), parents


def _first_beam(scores: Tensor, width: int) -> _Beam:
    batch = len(scores)
    return _Beam(
        written=scores.new_zeros((batch, 1, 0), dtype=torch.long),
        scores=scores.new_zeros((batch, 1), dtype=torch.float32),
        ended=scores.new_zeros((batch, width, 0), dtype=torch.long),
        ended_scores=scores.new_full((batch, width), -math.inf, dtype=torch.float32),
    )


def _extend(written: Tensor, parents: Tensor, ids: Tensor) -> Tensor:
    past = written.gather(1, parents[:, :, None].expand(-1, -1, written.shape[2]))
    return torch.cat([past, ids[:, :, None]], dim=2)


def _bar(beams: _Beam, share: float) -> Tensor:
    """What a hypothesis must be able to exceed to matter: log-probabilities only fall.  -> (batch, 1)"""
    bar = beams.ended_scores[:, -1:]
    if share > 0:
        bar = torch.maximum(bar, beams.ended_scores[:, :1] + math.log(share))
    return bar


def _gather_found(groups: list[tuple[Tensor, _Beam]], ends: Ends) -> Found:
    """The ended sequences of all texts, in the order of the batch."""
    length = max(beams.ended.shape[2] for _, beams in groups)
    order = torch.cat([texts for texts, _ in groups]).argsort()
    tokens = [torch.nn.functional.pad(beams.ended, (0, length - beams.ended.shape[2])) for _, beams in groups]
    ended = torch.cat(tokens)[order]
    return Found(ended, torch.cat([beams.ended_scores for _, beams in groups])[order], ends.lengths(ended))


def _best(scores: Tensor | Best, written: Tensor, constraints: Sequence[Constraint], keep: int) -> Best:
    """The likeliest tokens of each hypothesis, `keep` of them unless there are fewer."""
    if isinstance(scores, Best):
        return scores
    keep = min(keep, scores.shape[2])
    if constraints:
        return Best(*_log_softmax(scores, written, constraints).topk(keep))
    return best_of(scores, keep)


def _log_softmax(scores: Tensor, written: Tensor, constraints: Sequence[Constraint]) -> Tensor:
    """What a constraint bars gets no weight, the rest keeps its own."""
    logs = scores.float().log_softmax(-1)
    for constraint in constraints:
        logs = constraint(written, logs)
    return logs
