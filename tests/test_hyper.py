"""The LSTM whose weights another network writes, and the CRF: each against something simpler."""

from __future__ import annotations

import copy
from itertools import pairwise, product

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tagsmith.nn.crf import CRF, bio_moves
from tagsmith.nn.hyper import HyperLSTM
from tagsmith.nn.recurrent import TwoWays


def layer(*, constant: bool = True, dtype: torch.dtype = torch.float32) -> HyperLSTM:
    torch.manual_seed(1)
    made = HyperLSTM(5, 4, 3, constant=constant).to(dtype)
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(3.0)
    return made


@pytest.mark.parametrize("constant", [True, False])
def test_place_after_place_is_as_the_library_does_it(constant):
    made = layer(constant=constant)
    states, codes = torch.randn(6, 7, 5), torch.randn(6, 3)
    together = made(states, codes)
    for row in range(6):
        alone = made(states[row : row + 1], codes[row : row + 1])  # fused
        assert_close(alone[0], together[row], atol=1e-5, rtol=1e-5)
        with torch.no_grad():
            assert_close(made(states, codes)[row], together[row], atol=1e-5, rtol=1e-5)  # text after text
        weights = made.generate(codes[row : row + 1])
        assert_close(made.steps(states[row : row + 1], weights)[0], together[row], atol=1e-5, rtol=1e-5)


def test_one_code_for_all_is_an_ordinary_lstm():
    made, codes = layer(), torch.randn(1, 3)
    weights = made.generate(codes)
    plain = nn.LSTM(5, 4, batch_first=True)
    with torch.no_grad():
        plain.weight_ih_l0.copy_(weights.inward[0])
        plain.weight_hh_l0.copy_(weights.recurrent[0])
        plain.bias_ih_l0.copy_(weights.bias[0])
        plain.bias_hh_l0.zero_()
    states = torch.randn(3, 6, 5)
    assert_close(made(states, codes.expand(3, -1)), plain(states)[0], atol=1e-5, rtol=1e-5)


def test_a_code_of_zero_leaves_the_constant_part_or_nothing():
    states, codes = torch.randn(2, 6, 5), torch.zeros(2, 3)
    assert layer(constant=True)(states, codes).abs().sum() > 0
    assert layer(constant=False)(states, codes).abs().sum() == 0


def test_later_places_change_nothing():
    made, codes = layer(), torch.randn(2, 3)
    states = torch.randn(2, 6, 5)
    assert_close(made(states, codes)[:, :4], made(states[:, :4], codes))


@pytest.mark.parametrize("rows", [1, 2])
def test_gradients_are_right_in_double(rows):
    made = layer(dtype=torch.float64)
    states = torch.randn(rows, 3, 5, dtype=torch.float64, requires_grad=True)
    codes = torch.randn(rows, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s, c: made(s, c), (states, codes))
    names = [name for name, _ in made.named_parameters()]

    def by_weights(*values):
        return torch.func.functional_call(made, dict(zip(names, values, strict=True)), (states, codes))

    assert torch.autograd.gradcheck(by_weights, tuple(made.parameters()))


def test_gradients_stay_finite_however_long_the_text():
    made = layer()
    with torch.no_grad():
        made.recurrent.bias.mul_(20.0)  # a state is pushed harder at each place
        made.inward.bias.mul_(0.02)
        made.bias.bias.zero_()
    made(torch.randn(2, 600, 5), torch.randn(2, 3)).sum().backward()
    assert all(weight.grad.isfinite().all() for weight in made.parameters())


# reading both ways


def test_padding_changes_nothing_for_the_one_that_reads_both_ways():
    torch.manual_seed(0)
    both = TwoWays(5, 4, cell="lstm")
    states = torch.randn(1, 5, 5)
    padded = torch.cat([states, torch.randn(1, 3, 5)], dim=1)
    seen = both(states, torch.tensor([5]))
    assert_close(both(padded, torch.tensor([5]))[:, :5], seen)
    assert seen.shape == (1, 5, 8)
    library = nn.LSTM(5, 4, batch_first=True, bidirectional=True)
    pairs = {"ahead": "", "back": "_reverse"}
    library.load_state_dict(
        {
            f"{name}{way}": value
            for part, way in pairs.items()
            for name, value in getattr(both, part).state_dict().items()
        }
    )
    assert_close(library(states)[0], seen)


# conditional random field


def path_score(crf: CRF, scores: torch.Tensor, path: tuple[int, ...]) -> torch.Tensor:
    total = crf.begin[path[0]] + crf.end[path[-1]]
    total = total + sum(scores[place, label] for place, label in enumerate(path))
    return total + sum((crf.move[one, two] for one, two in pairwise(path)), torch.tensor(0.0))


@pytest.fixture
def crf():
    torch.manual_seed(2)
    made = CRF(3)
    with torch.no_grad():
        for weight in made.parameters():
            weight.normal_()
    return made


LENGTHS = torch.tensor([4, 2, 1])


def test_the_sum_over_all_paths_is_that_of_brute_force(crf):
    scores = torch.randn(3, 4, 3)
    for row, length in enumerate(LENGTHS.tolist()):
        every = [path_score(crf, scores[row], path) for path in product(range(3), repeat=length)]
        assert_close(crf.log_partition(scores, LENGTHS)[row], torch.stack(every).logsumexp(0))


def test_the_score_of_a_path_is_that_of_brute_force(crf):
    scores, labels = torch.randn(3, 4, 3), torch.randint(0, 3, (3, 4))
    found = crf.path_score(scores, labels, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        assert_close(found[row], path_score(crf, scores[row], tuple(labels[row, :length].tolist())))


def test_viterbi_finds_the_best_path_that_is_allowed(crf):
    for seed in range(20):
        scores = torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(seed)) * 2
        for allowed in (None, bio_moves(1)):
            found = crf.best(scores, LENGTHS, allowed=allowed)
            for row, length in enumerate(LENGTHS.tolist()):
                paths = [
                    path
                    for path in product(range(3), repeat=length)
                    if allowed is None or all(allowed[one, two] for one, two in zip((3, *path), path))
                ]
                assert found[row] == list(max(paths, key=lambda path: path_score(crf, scores[row], path)))


def test_forward_and_backward_meet_at_every_place(crf):
    scores = torch.randn(3, 4, 3)
    both = crf.forward_logs(scores, LENGTHS) + crf.backward_logs(scores, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        for place in range(length):
            assert_close(both[row, place].logsumexp(0), crf.log_partition(scores, LENGTHS)[row])


def test_what_lies_behind_the_end_does_not_matter(crf):
    scores, labels = torch.randn(3, 4, 3), torch.randint(0, 3, (3, 4))
    other = scores.clone()
    other[1, 2:] = 99.0
    assert_close(crf.loss(other, labels, LENGTHS), crf.loss(scores, labels, LENGTHS))
    assert crf.best(other, LENGTHS) == crf.best(scores, LENGTHS)


def test_the_crf_has_the_right_gradient():
    made = CRF(3).double()
    scores = torch.randn(3, 4, 3, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(0, 3, (3, 4))
    assert torch.autograd.gradcheck(lambda s: made.loss(s, labels, LENGTHS), (scores,))


def test_the_sum_over_all_paths_is_the_same_place_after_place(crf):
    scores, lengths = 3 * torch.randn(4, 37, 3), torch.tensor([37, 20, 2, 1])
    ahead = crf.forward_logs(scores, lengths)[:, -1]
    assert_close(crf.log_partition(scores, lengths), (ahead + crf.end).logsumexp(-1), atol=1e-4, rtol=1e-5)
    assert_close(crf.log_partition(scores[:, :1], lengths.clamp(max=1))[3], crf.log_partition(scores, lengths)[3])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("mixed", [False, True])
def test_a_gpu_does_the_same(mixed):
    torch.manual_seed(1)
    made = HyperLSTM(24, 32, 8)
    states, codes, upward = torch.randn(6, 40, 24), torch.randn(6, 8), torch.randn(6, 40, 32)
    found = []
    for device in ("cpu", "cuda"):
        twin = copy.deepcopy(made).to(device)
        given = [one.to(device).requires_grad_() for one in (states, codes)]
        with torch.autocast(device, torch.bfloat16, enabled=mixed and device == "cuda"):
            out = twin(*given)
        out.backward(upward.to(device, out.dtype))
        grads = [one.grad for one in (*given, *twin.parameters())]
        found.append([one.detach().float().cpu() for one in (out, *grads)])
    for plain, fast in zip(*found, strict=True):
        assert ((plain - fast).norm() / plain.norm()).item() < (0.03 if mixed else 1e-3)
