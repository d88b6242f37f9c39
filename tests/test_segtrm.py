"""SEGTRM: the battery for every variant, and the grid, masks and selection against worked examples."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from battery import check_all, random_batch
from tagsmith.decode import Ends, beam, enough
from tagsmith.models.segtrm import SIZES, SegTrm, SegTrmConfig, lay_grid
from tagsmith.text.pieces import END

TINY = {
    "vocab": 40,
    "width": 16,
    "heads": 2,
    "inner": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "dropout": 0.0,
    "longest": 64,
}
VARIANTS = {
    "transabs": {"segments": False},
    "softbase": {"segment_size": 3},
    "hardbase": {"segment_size": 3, "reach": "segments"},
    "soft": {"segment_size": 3, "top": 2},
    "hard": {"segment_size": 3, "top": 2, "reach": "segments"},
    "soft-scale": {"segment_size": 3, "top": 2, "gradient": "scale"},
    "soft-scale-many": {"segment_size": 3, "top": 6, "gradient": "scale"},  # more than most posts have
    "soft-straight-cosine": {"segment_size": 3, "top": 2, "gradient": "straight", "similarity": "cosine"},
    "soft-mahalanobis": {"segment_size": 3, "top": 2, "gradient": "scale", "similarity": "mahalanobis"},
    "post-norm-copy": {"segment_size": 3, "top": 2, "norm": "post", "copy": True},
    "transabs-copy": {"segments": False, "copy": True},
    "block": {"segment_size": 3, "view": "block", "similarity": "euclidean", "top": 3},
}


def build(variant: str) -> SegTrm:
    torch.manual_seed(1)
    model = SegTrm(SegTrmConfig(**TINY, **VARIANTS[variant])).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.2)  # far from the start, where little depends on anything
    return model


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_passes_the_battery(variant, tmp_path):
    check_all(lambda: build(variant), tmp_path)


def test_the_grid_heads_each_segment_and_masks_the_empty_ones():
    ids, filled = lay_grid(torch.tensor([[7, 8, 9, 10, 0, 0, 0]]), 3)
    assert ids.tolist() == [[[5, 7, 8, 9], [5, 10, 0, 0], [5, 0, 0, 0]]]
    assert filled.tolist() == [[[True] * 4, [True, True, False, False], [False] * 4]]


def test_a_post_that_ends_on_a_segment_boundary_has_no_ghost_segment():
    model, batch = build("softbase"), random_batch(1, source=6)
    memory = model.encode(batch.source, batch.source_lengths)
    longer = model.encode(torch.nn.functional.pad(batch.source, (0, 3)), batch.source_lengths)
    assert memory.mask.sum() == longer.mask.sum() == 1 + 2 * 4


def test_selection_keeps_k_segments_in_text_order():
    model, lengths = build("soft"), torch.tensor([12, 7, 2])
    source = torch.arange(6, 18).repeat(3, 1).masked_fill(torch.arange(12) >= lengths[:, None], 0)
    memory = model.encode(source, lengths)
    assert memory.chosen.sum(1).tolist() == [2, 2, 1]
    for ids, mask, chosen in zip(memory.ids, memory.mask[:, 0], memory.chosen, strict=True):
        kept = [token for token in ids[mask].tolist() if token > 5]
        assert kept == sorted(kept)
        assert {(token - 6) // 3 for token in kept} == set(chosen.nonzero()[:, 0].tolist())


def test_selecting_every_segment_is_the_base_model():
    base, soft = build("softbase"), SegTrm(SegTrmConfig(**TINY, segment_size=3, top=99)).eval()
    soft.load_state_dict(base.state_dict())
    batch = random_batch()
    assert_close(soft(batch).scores, base(batch).scores)


@pytest.mark.parametrize(("gradient", "moves"), [("none", False), ("scale", True), ("straight", True)])
def test_the_gradient_reaches_the_scores_only_where_asked(gradient, moves):
    torch.manual_seed(1)
    config = SegTrmConfig(**TINY, segment_size=3, top=2, gradient=gradient, similarity="mahalanobis")
    model = SegTrm(config)
    model.loss(random_batch()).backward()
    reached = model.selector.measure.diagonal.grad is not None
    assert reached is moves


def test_straight_through_does_not_change_the_answer():
    batch = random_batch()
    plain, straight = build("soft"), SegTrm(SegTrmConfig(**TINY, segment_size=3, top=2, gradient="straight")).eval()
    straight.load_state_dict(plain.state_dict())
    assert_close(straight(batch).scores, plain(batch).scores)


def test_a_copying_model_gives_distributions():
    logs = build("post-norm-copy")(random_batch()).scores
    assert_close(logs.exp().sum(-1), torch.ones(logs.shape[:2]), atol=1e-3, rtol=0)


def test_the_decoder_begins_with_the_vector_of_the_text():
    model, batch = build("soft"), random_batch()
    memory = model.encode(batch.source, batch.source_lengths)
    assert_close(memory.begin, memory.states[:, 0])


@pytest.mark.parametrize("variant", ["soft-scale", "post-norm-copy", "transabs-copy"])
def test_a_beam_told_the_best_tokens_writes_what_one_with_all_scores_writes(variant):
    model, batch, ends = build(variant), random_batch(), Ends((END,))
    found = beam(model.stepper(batch.source, batch.source_lengths), width=4, ends=ends, steps=6)
    memory = model.encode(batch.source, batch.source_lengths)
    chosen = beam(model.chooser(memory, keep=enough(4, ends)), width=4, ends=ends, steps=6)
    assert chosen.tokens.tolist() == found.tokens.tolist()
    assert_close(chosen.scores, found.scores, atol=1e-4, rtol=0)


def test_named_sizes_are_whole():
    assert SIZES["segtrm-paper"].encoder_layers == 12
    assert sum(weight.numel() for weight in SegTrm(SIZES["segtrm-tiny"]).parameters()) > 0
