"""Search against brute force on a small random table of next-token scores."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tagsmith.decode import Ends, at_least, ban, beam, draw, enough, greedy, no_repeat, sample
from tagsmith.errors import ConfigError
from tagsmith.nn.best import Best, best_of, top_of

END, VOCAB, STEPS = 1, 5, 4


class Table:
    """A stepper whose next scores depend on the text and on all that was written: a hash of the prefix seeds them."""

    def __init__(self, texts: int, *, seed: int = 0) -> None:
        self.texts, self.seed = texts, seed

    def scores_after(self, text: int, *prefix: int) -> Tensor:
        chance = torch.Generator().manual_seed(hash((self.seed, text, prefix)) % 2**31)
        return torch.randn(VOCAB, generator=chance) * 2

    def start(self) -> tuple[Tensor, list[list[tuple[int, ...]]]]:
        state: list[list[tuple[int, ...]]] = [[(text,)] for text in range(self.texts)]
        return self._scores(state), state

    def step(self, tokens, state):
        state = [
            [(*prefix, token) for prefix, token in zip(rows, row, strict=True)]
            for rows, row in zip(state, tokens.tolist(), strict=True)
        ]
        return self._scores(state), state

    def reorder(self, state, parents):
        return [[rows[place] for place in row] for rows, row in zip(state, parents.tolist(), strict=True)]

    def narrow(self, state, texts):
        return [state[text] for text in texts.tolist()]

    def _scores(self, state) -> Tensor:
        return torch.stack([torch.stack([self.scores_after(*prefix) for prefix in rows]) for rows in state])


class TableBest(Table):
    """The same, which tells the likeliest tokens alone."""

    def __init__(self, texts: int, *, keep: int) -> None:
        super().__init__(texts)
        self.keep = keep

    def _scores(self, state) -> Best:  # type: ignore[override]
        return best_of(super()._scores(state), min(self.keep, VOCAB))


def every_sequence(table: Table, text: int) -> list[tuple[float, tuple[int, ...]]]:
    """All sequences that end, or reach the last step, with their log-probability."""
    found = []
    for length in range(1, STEPS + 1):
        for tokens in product(range(VOCAB), repeat=length):
            ended = tokens[-1] == END
            if END in tokens[:-1] or (not ended and length < STEPS):
                continue
            total = sum(
                table.scores_after(text, *tokens[:place]).log_softmax(-1)[token].item()
                for place, token in enumerate(tokens)
            )
            found.append((total, tokens))
    return sorted(found, reverse=True)


def test_a_wide_beam_finds_the_best_sequences_of_all():
    table = Table(3)
    found = beam(table, width=200, ends=Ends((END,)), steps=STEPS)
    for text in range(3):
        wanted = every_sequence(table, text)[:20]
        assert_close(found.scores[text, :20], torch.tensor([score for score, _ in wanted]), atol=1e-4, rtol=1e-4)
        for place, (_, tokens) in enumerate(wanted[:5]):
            assert tuple(found.tokens[text, place, : len(tokens)].tolist()) == tokens


def test_a_beam_of_one_is_greedy():
    one, best = (
        beam(Table(4), width=1, ends=Ends((END,)), steps=STEPS),
        greedy(Table(4), ends=Ends((END,)), steps=STEPS),
    )
    assert_close(one.scores, best.scores)
    assert one.lengths.tolist() == best.lengths.tolist()
    for text, length in enumerate(best.lengths[:, 0].tolist()):
        assert one.tokens[text, 0, :length].tolist() == best.tokens[text, 0, :length].tolist()


def test_the_company_of_other_texts_changes_nothing():
    together = beam(Table(5), width=3, ends=Ends((END,)), steps=STEPS)
    alone = beam(Table(1), width=3, ends=Ends((END,)), steps=STEPS)
    assert_close(together.scores[0], alone.scores[0])


@pytest.mark.parametrize("width", [2, 3])
def test_a_beam_that_is_told_the_best_tokens_finds_what_it_finds_with_all_scores(width):
    ends = Ends((END,))
    chosen = beam(TableBest(6, keep=enough(width, ends)), width=width, ends=ends, steps=STEPS)
    for one, other in zip(chosen, beam(Table(6), width=width, ends=ends, steps=STEPS), strict=True):
        assert_close(one, other)


def test_constraints_ask_for_all_scores():
    with pytest.raises(ConfigError, match="give a stepper, not a chooser"):
        beam(TableBest(1, keep=3), width=2, ends=Ends((END,)), steps=STEPS, constraints=[ban([0])])


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_the_best_of_long_rows_are_the_best_log_probabilities(kind, monkeypatch):
    monkeypatch.setattr("tagsmith.nn.best.PART", 3000)  # three rows at a time
    scores = (torch.randn(4, 2, 1000, generator=torch.Generator().manual_seed(3)) * 3).to(kind)
    before = scores.clone()
    wanted, places = scores.float().log_softmax(-1).topk(5)
    logs, ids = best_of(scores, 5)
    assert_close(logs, wanted)
    assert_close(scores.gather(2, ids), scores.gather(2, places))  # equal ones may change places
    assert_close(scores, before, atol=0, rtol=0)


def test_a_share_leaves_out_only_what_lies_below_it():
    whole = beam(Table(30), width=8, ends=Ends((END,)), steps=STEPS)
    cut = beam(Table(30), width=8, ends=Ends((END,)), steps=STEPS, share=0.5)
    for text in range(30):
        strong = whole.scores[text][whole.scores[text] > whole.scores[text, 0] + math.log(0.5)]
        assert_close(cut.scores[text, : len(strong)], strong)
    assert (cut.scores == -math.inf).sum() >= (whole.scores == -math.inf).sum()


@pytest.mark.parametrize("rest", [0, 1, 100])
def test_top_of_long_rows_is_topk(rest):
    scores = torch.randn(70, 128 * 12 + rest, generator=torch.Generator().manual_seed(0))
    values, ids = top_of(scores, 6)
    wanted = scores.topk(6)
    assert_close(values, wanted.values)
    assert_close(scores.gather(1, ids), wanted.values)


def test_hypotheses_come_best_first_and_end_once():
    found = beam(Table(3), width=6, ends=Ends((END,)), steps=STEPS)
    assert (found.scores.diff(dim=1) <= 0).all()
    assert ((found.tokens == END).sum(-1) <= 1).all()


def test_a_length_norm_prefers_longer_sequences():
    plain = beam(Table(20), width=4, ends=Ends((END,)), steps=STEPS)
    normed = beam(Table(20), width=4, ends=Ends((END,)), steps=STEPS, alpha=1.0)
    assert normed.lengths[:, 0].float().mean() > plain.lengths[:, 0].float().mean()


def test_two_end_tokens_both_end():
    found = beam(Table(3), width=50, ends=Ends((END, 2)), steps=STEPS)
    ended = (found.tokens == END) | (found.tokens == 2)
    assert (ended.sum(-1) <= 1).all()
    assert (found.tokens == 2).any()
    assert (found.tokens == END).any()


def test_a_whole_token_ends_a_sequence_and_counts():
    found = beam(Table(5), width=50, ends=Ends((END,), whole=4), steps=STEPS)
    for tokens, length in zip(found.tokens.flatten(0, 1).tolist(), found.lengths.flatten().tolist(), strict=True):
        assert 4 not in tokens[: length - 1]
        assert length == STEPS or tokens[length - 1] == 4 or tokens[length] == END
    assert (found.tokens[:, 0] == 4).any()


def test_constraints_hold_everywhere():
    never = ban([0])
    assert not (beam(Table(3), width=4, ends=Ends((END,)), steps=STEPS, constraints=[never]).tokens[..., 0] == 0).any()
    found = greedy(Table(50), ends=Ends((END,)), steps=STEPS, constraints=[at_least(2, [END])])
    assert found.lengths.min() >= 2
    for row in beam(Table(10), width=4, ends=Ends((END,)), steps=STEPS, constraints=[no_repeat(1)]).tokens.flatten(
        0, 1
    ):
        written = [token for token in row.tolist() if token > END]
        assert len(written) == len(set(written))


def test_what_a_constraint_bars_gives_its_weight_to_nobody():
    plain = beam(Table(1), width=200, ends=Ends((END,)), steps=STEPS)
    barred = beam(Table(1), width=200, ends=Ends((END,)), steps=STEPS, constraints=[ban([3])])
    keep = {tuple(row): score for row, score in zip(plain.tokens[0].tolist(), plain.scores[0].tolist(), strict=True)}
    first = tuple(barred.tokens[0, 0].tolist())
    assert barred.scores[0, 0].item() == pytest.approx(keep[first], abs=1e-4)


def test_sampling_repeats_with_its_generator_and_keeps_to_the_top():
    def run(seed, **options):
        chance = torch.Generator().manual_seed(seed)
        return sample(Table(30), generator=chance, ends=Ends((END,)), steps=STEPS, **options)

    assert run(1).tokens.tolist() == run(1).tokens.tolist()
    assert run(1).tokens.tolist() != run(2).tokens.tolist()
    best = greedy(Table(30), ends=Ends((END,)), steps=STEPS)
    assert_close(run(3, top_k=1).scores, best.scores)
    assert_close(run(3, top_p=1e-6).scores, best.scores)


def test_draws_follow_the_probabilities():
    logs = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(20_000, -1)
    chance = torch.Generator().manual_seed(0)
    counts = draw(logs, top_k=0, top_p=1.0, generator=chance).bincount(minlength=4) / 20_000
    assert_close(counts, logs[0].exp(), atol=0.02, rtol=0)
    within = draw(logs, top_k=0, top_p=0.6, generator=chance).bincount(minlength=4) / 20_000
    assert within[2:].sum() == 0
    assert within[0].item() == pytest.approx(0.5 / 0.8, abs=0.02)
    assert math.isclose(draw(logs, top_k=3, top_p=1.0, generator=chance).max().item(), 2)
