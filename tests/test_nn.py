"""The parts models are made of, against worked examples, their slow twins and float64 gradients."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.nn.functional import cross_entropy, linear
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from tagsmith.errors import ConfigError
from tagsmith.nn.attention import EVEN, Attention, as_bias
from tagsmith.nn.copying import Pointer
from tagsmith.nn.embed import TokenEmbedding, sinusoids, waves_at
from tagsmith.nn.linear import Linear, can_pack
from tagsmith.nn.losses import TokenLoss
from tagsmith.nn.masks import causal, padding, segment_view, window
from tagsmith.nn.positions import RelativeBias, RelativeWaves
from tagsmith.nn.recurrent import AdditiveAttention, RecurrentDecoder, RecurrentEncoder
from tagsmith.nn.select import Grid, Mahalanobis, SegmentSelector, cosine, euclidean, manhattan
from tagsmith.nn.sparse import SparseView
from tagsmith.nn.transformer import Encoder, EncoderLayer

CELLS = ("gru", "lstm")
LOOSE = {"atol": 0.03, "rtol": 0.03}  # of half precision
# who may look at whom in [S] [SEG] a b [SEG] c d, a row for each query
VIEWS = {
    "full": ["1111111"] * 7,
    "seg_row": ["1111111", "0111000", "1111111", "1111111", "0000111", "1111111", "1111111"],
    "seg_row_col": ["1111111", "1111000", "1111011", "1111011", "1000111", "1011111", "1011111"],
    "block": ["1111111", "1111000", "1111000", "1111000", "1000111", "1000111", "1000111"],
}


def drawn(mask: Tensor) -> list[str]:
    return ["".join("01"[seen] for seen in row) for row in mask.int().tolist()]


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def shaken(part: nn.Module) -> nn.Module:
    """With weights far from zero, so that everything depends on everything."""
    chance = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for weight in part.parameters():
            weight.copy_(torch.randn(weight.shape, generator=chance) * 0.5)
    return part.eval()


def check_gradient(part: nn.Module, run, *inputs: Tensor) -> None:
    """The gradient of every input and weight is that of small steps."""
    weights = [weight for weight in part.double().parameters() if weight.requires_grad]
    leaves = [one.double().requires_grad_() for one in inputs]
    assert gradcheck(lambda *_: run(*leaves), (*leaves, *weights), eps=1e-6, atol=1e-6)


def test_padding_hides_what_lies_beyond_the_length():
    mask = padding(torch.tensor([2, 3]), 3)
    assert mask.shape == (2, 1, 3)
    assert drawn(mask[:, 0]) == ["110", "111"]


def test_causal_sees_itself_and_the_past_and_a_window_its_neighbours():
    assert drawn(causal(3)) == ["100", "110", "111"]
    assert drawn(window(4, 1)) == ["1100", "1110", "0111", "0011"]
    assert drawn(window(3, 0)) == ["100", "010", "001"]


def test_masks_compose():
    both = padding(torch.tensor([2]), 3) & causal(3)
    assert drawn(both[0]) == ["100", "110", "110"]


@pytest.mark.parametrize("view", VIEWS)
def test_a_segment_view_is_the_papers_matrix(view):
    assert drawn(segment_view(2, 2, view=view)) == VIEWS[view]


def attention(positions: bool) -> Attention:
    return shaken(Attention(8, 2, positions=RelativeBias(2, reach=2) if positions else None))


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_fused_attention_is_the_plain_one(positions, masked):
    layer, query, memory = attention(positions), random(2, 4, 8), random(2, 6, 8, seed=1)
    mask = random(2, 4, 6, seed=2) > -0.5 if masked else None
    assert_close(layer(query, memory, mask), layer.plain(query, memory, mask))
    weights = layer.weights(query, memory, mask)
    assert_close(weights.sum(-1), torch.ones(2, 2, 4))
    if mask is not None:
        assert weights.masked_select(~mask[:, None].expand_as(weights)).eq(0).all()


@pytest.mark.parametrize("positions", [False, True])
def test_a_row_that_sees_nothing_gives_zeros_and_finite_gradients(positions):
    layer, states = attention(positions), random(2, 4, 8).requires_grad_()
    mask = torch.ones(2, 4, 4, dtype=torch.bool)
    mask[0, 1] = False
    for run in (layer, layer.plain):
        found = run(states, states, mask)
        assert_close(found[0, 1], layer.out.bias)  # nothing mixed: only the output's bias is left
        (gradient,) = torch.autograd.grad(found.square().sum(), states)
        assert gradient.isfinite().all()


def test_a_memory_projected_once_is_looked_at_as_a_new_one():
    layer, query, memory = attention(False), random(2, 3, 8), random(2, 5, 8, seed=1)
    assert_close(layer(query, layer.remember(memory)), layer(query, memory))
    first, second = layer.remember(memory[:, :2]), layer.remember(memory[:, 2:])
    assert_close(layer(query, first.extend(second)), layer(query, memory))
    turned = torch.tensor([1, 0])
    assert_close(layer(query[turned], layer.remember(memory).rows(turned)), layer(query, memory)[turned])


def test_attention_has_the_papers_gradient():
    layer, mask = attention(True), random(2, 3, 3, seed=4) > -0.5
    run = lambda query, memory: layer.plain(query, memory, mask)  # noqa: E731
    check_gradient(layer, run, random(2, 3, 8), random(2, 3, 8, seed=1))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [5, 16, 23])
def test_a_mask_made_into_numbers_once_is_the_mask(length, kind):
    encoder = shaken(Encoder([EncoderLayer(Attention(8, 2), 8, 16) for _ in range(2)], 8)).to(kind)
    states, mask = random(3, length, 8).to(kind), padding(torch.tensor([length, 3, 1]), length) & causal(length)
    assert as_bias(mask, states).shape[-1] % EVEN == 0
    slow = states
    for layer in encoder.layers:
        slow = layer(slow, mask)
    assert_close(encoder(states, mask), encoder.norm(slow), **({} if kind == torch.float32 else LOOSE))


def test_heads_must_divide_the_width():
    with pytest.raises(ConfigError, match="width 10 is not a multiple of heads 4"):
        Attention(10, 4)


def test_a_relative_bias_depends_on_the_distance_alone_and_stops_at_its_reach():
    bias = shaken(RelativeBias(2, reach=2))
    keys = random(1, 2, 6, 4)
    whole = bias(keys, keys, first=0, project=None)  # (heads, query, key)
    assert_close(whole[:, :-1, :-1], whole[:, 1:, 1:])
    assert_close(whole[:, 0, 2], whole[:, 0, 5])
    assert whole[0, 0, 1] != whole[0, 1, 0]
    assert_close(bias(keys[:, :, -1:], keys, first=5, project=None), whole[:, -1:])  # a cached step


def test_a_relative_bias_has_the_right_gradient():
    bias = shaken(RelativeBias(2, reach=1))
    keys = random(1, 2, 3, 2, dtype=torch.float64)
    check_gradient(bias, lambda: bias(keys, keys, first=0, project=None).square())


def relative() -> Attention:
    return shaken(Attention(8, 2, positions=RelativeWaves(8, 2)))


def test_relative_attention_is_the_papers_equation():
    layer, states = relative(), random(1, 5, 8)
    queries = layer._split(layer.query(states))[0]
    keys = layer._split(layer.key_value(states)[..., :8])[0]
    wanted = torch.empty(2, 5, 5)
    for head in range(2):
        own = layer.key_value.weight[4 * head : 4 * head + 4]  # W_k of this head
        for i in range(5):
            for j in range(5):
                distance = own @ waves_at(torch.tensor([i - j]), 8)[0]
                content, place = layer.positions.to_content[head], layer.positions.to_distance[head]
                query, key = queries[head, i], keys[head, j]
                wanted[head, i, j] = (query @ key + query @ distance + content @ key + place @ distance) / 2
    assert_close(layer.weights(states, states)[0], wanted.softmax(-1))
    assert_close(layer(states, states), layer.plain(states, states))


def test_relative_attention_knows_direction_and_forgets_place():
    layer, states = relative(), random(1, 6, 8)
    weights = layer.weights(states, states)
    assert_close(weights, layer.weights(states, states, torch.ones(1, 6, 6, dtype=torch.bool)))
    turned = layer.weights(states.flip(1), states.flip(1)).flip(-1, -2)
    assert not torch.allclose(turned, weights)  # left is not right
    last = layer.weights(states[:, -1:], states)
    assert_close(last, weights[:, :, -1:])  # a cached step stands at the last key
    shifted = torch.cat([random(1, 3, 8, seed=5), states], dim=1)
    hidden = torch.ones(1, 9, 9, dtype=torch.bool)
    hidden[:, :, :3] = False
    assert_close(layer.weights(shifted, shifted, hidden)[..., 3:, 3:], weights)


def test_relative_attention_has_the_right_gradient():
    layer, mask = relative(), random(2, 3, 3, seed=4) > -0.5
    check_gradient(layer, lambda states: layer.plain(states, states, mask), random(2, 3, 8))


def sparse(**kinds: int) -> Attention:
    return shaken(Attention(8, 2, view=SparseView(**kinds), positions=RelativeWaves(8, 2)))


def test_a_view_by_place_is_lead_and_neighbours():
    layer, states = sparse(lead=1, near=1), random(1, 5, 8)
    seen = layer.weights(states, states)[0, 0] > 0
    assert drawn(seen) == ["11111", "11100", "11110", "10111", "10011"]
    assert_close(layer(states, states), layer.plain(states, states))


def test_a_view_by_strength_keeps_the_highest_scores_of_each_head():
    layer, states = sparse(strong=2), random(2, 6, 8)
    full = Attention(8, 2, positions=RelativeWaves(8, 2)).eval()
    full.load_state_dict(layer.state_dict())
    everything = full.weights(states, states)
    best = everything.topk(2, dim=-1)
    wanted = torch.zeros_like(everything).scatter(-1, best.indices, best.values)
    assert_close(layer.weights(states, states), wanted / wanted.sum(-1, keepdim=True))
    valid = padding(torch.tensor([6, 3]), 6)
    weights = layer.weights(states, states, valid)
    assert (weights[1, ..., 3:] == 0).all()
    assert ((weights > 0).sum(-1) == 2).all()


def test_views_join_and_padding_cuts_them():
    layer, states = sparse(near=1, strong=1), random(2, 6, 8)
    weights = layer.weights(states, states, padding(torch.tensor([6, 4]), 6))
    count = (weights > 0).sum(-1)
    assert min(count[0].min(), count[1, :, :4].min()) >= 2  # of the real queries
    assert count.max() <= 4
    assert (weights[1, ..., 4:] == 0).all()


def test_long_texts_are_read_in_blocks_to_the_same_end(monkeypatch):
    layer, states = sparse(lead=2, near=3, strong=2), random(2, 50, 8)
    mask = padding(torch.tensor([50, 37]), 50) & window(50, 30)
    whole = layer(states, states, mask)
    monkeypatch.setattr("tagsmith.nn.attention.BLOCK", 16)
    assert_close(layer(states, states, mask), whole)
    assert_close(layer(states, states), layer.plain(states, states))


def test_a_text_of_twenty_thousand_words_never_meets_its_square():
    layer, states = shaken(Attention(8, 2, view=SparseView(lead=4, near=8))), random(1, 20_000, 8)
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal largest
            out = function(*args, **(kwargs or {}))
            largest = max(
                [
                    largest,
                    *(part.numel() for part in (out if isinstance(out, tuple) else (out,)) if isinstance(part, Tensor)),
                ]
            )
            return out

    with torch.no_grad(), Watch():
        assert layer(states, states).isfinite().all()
    assert largest < 20_000 * 20_000 / 8


def test_a_view_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="a view needs near or strong above 0"):
        SparseView(lead=3)


def test_waves_begin_with_zeros_and_ones():
    waves = sinusoids(9, 6)
    assert waves.shape == (9, 6)
    assert waves[0].tolist() == [0, 0, 0, 1, 1, 1]
    assert_close(waves[4, 0], torch.tensor(4.0).sin())
    assert sinusoids(5, 7).shape == (5, 7)


def test_an_embedding_continues_where_the_text_stands():
    part = TokenEmbedding(nn.Embedding(10, 4), longest=8, dropout=0.0)
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    assert_close(part(ids[:, 3:], start=3), part(ids)[:, 3:])
    assert not torch.allclose(part(ids[:, 3:]), part(ids)[:, 3:])


@pytest.mark.parametrize("cell", CELLS)
def test_a_recurrent_encoder_ignores_padding(cell):
    torch.manual_seed(0)
    encoder = RecurrentEncoder(4, 3, layers=2, cell=cell).eval()
    vectors, lengths = random(3, 5, 4), torch.tensor([5, 2, 4])
    states, last = encoder(vectors, lengths)
    changed = vectors.masked_fill((torch.arange(5) >= lengths[:, None])[..., None], 9.0)
    again, last_again = encoder(changed, lengths)
    assert_close(last_again, last)
    assert_close(again, states)
    assert states[1, 2:].eq(0).all()
    alone, last_alone = encoder(vectors[1:2, :2], lengths[1:2])
    assert_close(alone[0], states[1, :2])
    assert_close(last_alone[0], last[1])


@pytest.mark.parametrize("cell", CELLS)
def test_a_recurrent_encoder_is_torchs_own_of_packed_rows(cell):
    torch.manual_seed(0)
    encoder = RecurrentEncoder(4, 3, layers=2, cell=cell).eval()
    twin = {"gru": nn.GRU, "lstm": nn.LSTM}[cell](4, 3, 2, batch_first=True, bidirectional=True)
    own = dict(encoder.named_parameters())
    with torch.no_grad():
        for name, weight in twin.named_parameters():
            kind, layer = name.removesuffix("_reverse").rsplit("_l", 1)
            way = "back" if name.endswith("_reverse") else "ahead"
            weight.copy_(own[f"layers.{layer}.{way}.{kind}_l0"])
    vectors, lengths = random(3, 5, 4), torch.tensor([5, 2, 4])
    packed, last = twin(pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False))
    states, ends = encoder(vectors, lengths)
    assert_close(states, pad_packed_sequence(packed, batch_first=True)[0])
    both = last if cell == "gru" else last[0]
    assert_close(ends, torch.cat([both[-2], both[-1]], dim=-1))


def test_a_recurrent_decoder_steps_as_it_runs():
    torch.manual_seed(0)
    decoder = RecurrentDecoder(4, 6, 5).eval()
    vectors, last, memory, lengths = random(2, 3, 4), random(2, 6), random(2, 4, 6), torch.tensor([4, 2])
    outs, looks = decoder(vectors, last, memory, lengths)
    assert_close(looks.sum(-1), torch.ones(2, 3))
    assert looks[1, :, 2:].eq(0).all()
    state, mask, keys = decoder.start(last), padding(lengths, 4), decoder.attention.remember(memory)
    for place in range(3):
        out, weights, state = decoder.step(vectors[:, place], state, keys, memory, mask)
        assert_close(out, outs[:, place])
        assert_close(weights, looks[:, place])


def test_additive_attention_has_the_right_gradient():
    part, mask = shaken(AdditiveAttention(3, 4, 5)), torch.tensor([[[True, True, False]]])

    def contexts(states: Tensor, memory: Tensor) -> Tensor:
        return part(states, part.remember(memory), memory, mask)[0]

    check_gradient(part, contexts, random(1, 2, 3), random(1, 3, 4, seed=1))


@pytest.mark.parametrize("extra", [0, 3])
def test_a_pointer_gives_distributions_with_weight_on_what_it_copies(extra):
    pointer = shaken(Pointer(4))
    scores, states = random(2, 3, 6), random(2, 3, 4)
    weights = random(2, 3, 5).softmax(-1)
    source = torch.tensor([[1, 1, 2, 3, 5 + extra], [0, 4, 4, 4, 5 + extra]])
    found = pointer(scores, states, weights, source, extra=extra).exp()
    assert found.shape == (2, 3, 6 + extra)
    assert_close(found.sum(-1), torch.ones(2, 3))
    write = pointer.gate(states).sigmoid()
    copied = found - nn.functional.pad(scores.softmax(-1) * write, (0, extra))
    assert_close(copied[0, :, 1], weights[0, :, :2].sum(-1) * (1 - write[0, :, 0]))
    assert_close(copied[1, :, 5 + extra], weights[1, :, 4] * (1 - write[1, :, 0]))
    assert copied[0, :, 4].abs().max() < 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_a_pointer_knows_its_best_tokens_without_the_whole_mixture(seed):
    pointer = shaken(Pointer(4))
    scores, states = random(2, 3, 300, seed=seed) * 3, random(2, 3, 4, seed=seed)
    weights = random(2, 3, 6, seed=seed).softmax(-1)
    source = torch.tensor([[1, 1, 2, 3, 150, 1], [0, 4, 4, 299, 4, 0]])
    source[0, 2:4] = scores[0].sum(0).topk(2).indices  # copied words that the vocabulary likes too
    logs, ids = pointer.best(scores, states, weights, source, keep=7)
    wanted, places = pointer(scores, states, weights, source).topk(7)
    assert_close(logs, wanted)
    assert ids.tolist() == places.tolist()


def test_a_pointer_has_the_right_gradient():
    pointer, source = shaken(Pointer(3)), torch.tensor([[0, 2, 2, 5]])
    run = lambda scores, states, raw: pointer(scores, states, raw.softmax(-1), source, extra=2)  # noqa: E731
    check_gradient(pointer, run, random(1, 2, 4), random(1, 2, 3), random(1, 2, 4, seed=1))


@pytest.mark.parametrize("measure", [euclidean, manhattan, cosine, shaken(Mahalanobis(5, rank=2))])
def test_a_similarity_is_largest_for_the_same_and_has_the_right_gradient(measure):
    text, segments = random(2, 5), random(2, 3, 5, seed=1)
    segments[:, 1] = text
    assert measure(text, segments).argmax(1).tolist() == [1, 1]
    part = measure if isinstance(measure, nn.Module) else nn.Module()
    check_gradient(part, measure, random(2, 5), random(2, 3, 5, seed=2))


def test_a_new_mahalanobis_distance_is_nearly_the_euclidean_one():
    torch.manual_seed(0)
    text, segments = random(2, 64), random(2, 3, 64, seed=1)
    assert_close(Mahalanobis(64)(text, segments), euclidean(text, segments), rtol=0.02, atol=0)


def grid(*real: int, segments: int = 4, size: int = 2, width: int = 6) -> Grid:
    """Texts of so many real segments each."""
    filled = torch.arange(segments) < torch.tensor(real)[:, None]
    return Grid(
        random(len(real), width),
        random(len(real), segments, 1 + size, width, seed=1),
        filled[:, :, None].expand(-1, -1, 1 + size),
    )


def selector(**options) -> SegmentSelector:
    given = {"top": 2, "similarity": "manhattan", "reach": "tokens", **options}
    return SegmentSelector(6, **given)


def test_the_selector_chooses_the_most_similar_and_gives_empty_segments_no_weight():
    given = grid(4, 3)
    found = selector()(given)
    likeness = manhattan(given.text, given.blocks[:, :, 0])
    for row, real in enumerate((4, 3)):
        assert found.places[row].tolist() == sorted(likeness[row, :real].topk(2).indices.tolist())
    assert_close(found.weights.sum(1), torch.ones(2))
    assert found.weights[1, 3] == 0


def test_hard_selection_hands_on_the_segment_marks_alone():
    given = grid(4)
    soft, hard = selector()(given), selector(reach="segments")(given)
    assert soft.states.shape == (1, 1 + 2 * 3, 6)
    assert hard.states.shape == (1, 1 + 2, 6)
    assert_close(hard.states[0, 1:], given.blocks[0, hard.places[0], 0])
    assert_close(hard.states[:, 0], given.text)


def test_more_places_than_segments_choose_each_once_and_mask_the_rest():
    found = selector(top=3)(grid(1, 4))
    assert found.chosen.sum(1).tolist() == [1, 3]
    assert found.mask[:, 0].sum(1).tolist() == [1 + 3, 1 + 3 * 3]
    assert selector(top=9)(grid(4)).chosen.all()


def test_scaling_multiplies_the_chosen_by_their_share():
    given = grid(4)
    plain, scaled = selector()(given), selector(gradient="scale")(given)
    share = scaled.weights.gather(1, scaled.places) * 2
    assert_close(scaled.states[0, 1:4], plain.states[0, 1:4] * share[0, 0])
    assert_close(scaled.states[0, 4:], plain.states[0, 4:] * share[0, 1])


def test_all_segments_may_be_kept_and_scaled():
    given = grid(4)
    plain, scaled = selector(top=0)(given), selector(top=0, gradient="scale")(given)
    assert scaled.chosen.all()
    assert_close(scaled.states[:, 0], plain.states[:, 0])
    blocks = [found.states[0, 1:].unflatten(0, (4, 3)) for found in (plain, scaled)]
    assert_close(blocks[1], blocks[0] * (scaled.weights[0] * 4)[:, None, None])


def test_noise_draws_segments_in_training_alone_and_by_their_weights():
    torch.manual_seed(1)
    given = Grid(*(part.expand(4000, *part.shape[1:]) for part in grid(3)))
    drawing = selector(top=1, noise=1.0)
    found = drawing(given)
    assert not found.chosen[:, 3].any()  # an empty segment is never drawn
    assert_close(found.chosen.float().mean(0), found.weights[0], atol=0.03, rtol=0)
    assert (drawing.eval()(given).chosen == selector(top=1)(given).chosen).all()


def test_the_token_loss_is_cross_entropy_without_the_padding():
    states, table, bias = random(2, 3, 4), random(7, 4, seed=1), random(7, seed=2)
    target = torch.tensor([[3, 5, 2], [6, 2, 0]])
    loss = TokenLoss(smoothing=0.1, pad=0)
    scores = linear(states, table, bias)
    wanted = cross_entropy(torch.cat([scores[0], scores[1, :2]]), torch.tensor([3, 5, 2, 6, 2]), label_smoothing=0.1)
    assert_close(loss(states, table, bias, target), wanted)
    changed = states.clone()
    changed[1, 2] = 99.0
    assert_close(loss(changed, table, bias, target), wanted)
    plain = cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=0)
    assert_close(loss.eval()(states, table, bias, target), plain)  # smoothing is for training alone


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("lead", [0, 3])
def test_a_view_by_place_reads_a_long_text_near_by_near_as_all_at_once(monkeypatch, relative, lead):
    torch.manual_seed(0)
    positions = RelativeWaves(8, 2) if relative else None
    attention = Attention(8, 2, positions=positions, view=SparseView(lead=lead, near=2)).eval()
    with torch.no_grad():
        for weight in attention.parameters():
            weight.normal_(std=0.5)
    states, mask = torch.randn(2, 23, 8), padding(torch.tensor([23, 17]), 23)
    whole = attention(states, states, mask)
    monkeypatch.setattr("tagsmith.nn.attention.BLOCK", 5)
    torch.testing.assert_close(attention(states, states, mask), whole, atol=1e-5, rtol=1e-4)
    every = mask.expand(-1, 23, -1)  # a mask for each query
    torch.testing.assert_close(attention(states, states, every), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.skipif(not can_pack(), reason="this processor or this torch has no packed matrices")
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_a_packed_matrix_multiplies_as_the_plain_one(rows):
    layer, states = shaken(Linear(24, 33)).to(torch.bfloat16), random(rows, 2, 24).to(torch.bfloat16)
    for given in (states, states.transpose(0, 1), states[:, :1]):
        with torch.inference_mode():
            packed = layer(given)
        assert layer.packing._kept is not None
        assert_close(packed, linear(given, layer.weight, layer.bias), **LOOSE)


def test_a_matrix_that_has_changed_is_packed_again():
    layer, states = shaken(Linear(8, 8)).to(torch.bfloat16), random(3, 8).to(torch.bfloat16)
    for change in (lambda: layer.weight.mul_(2), lambda: setattr(layer, "weight", nn.Parameter(layer.weight * 3))):
        with torch.inference_mode():
            layer(states)
        with torch.no_grad():
            change()
            wanted = linear(states, layer.weight, layer.bias)
        with torch.inference_mode():
            assert_close(layer(states), wanted, **LOOSE)
    assert copy.deepcopy(layer).packing._kept is None


def test_outside_inference_a_matrix_stays_plain():
    layer = Linear(8, 8).to(torch.bfloat16)
    layer(random(3, 8).to(torch.bfloat16)).sum().backward()
    assert layer.packing._kept is None
    assert layer.weight.grad is not None
    with torch.inference_mode():
        layer.float()(random(3, 8))
    assert layer.packing._kept is None
