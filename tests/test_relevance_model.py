"""The relevance-promoting language model: the battery for each variant, layout, losses, and its parts alone."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from battery import check_all, random_batch
from tagsmith.data.batches import PairBatch
from tagsmith.data.replies import ReplyBatch
from tagsmith.models.relevance import (
    Relevance,
    RelevanceConfig,
    at_most,
    attention_loss,
    next_tokens,
    topic_loss,
)
from tagsmith.nn.masks import causal
from tagsmith.text.pieces import PAD, SEPARATOR

SMALL = {"vocab": 40, "width": 24, "heads": 2, "inner": 48, "layers": 2, "dropout": 0.0, "longest": 48}
VARIANTS = {
    "tfm-lm": {"source_attention": "none", "topics": False},
    "shared-layer": {"source_attention": "shared_layer"},
    "sublayer": {"source_attention": "sublayer"},
    "sublayer-own-pre": {"source_attention": "sublayer", "source_weights": "own", "norm": "pre", "tied": True},
    "shared-layer-pre": {"source_attention": "shared_layer", "norm": "pre", "query_loss": 0.0},
    "topics-only": {"source_attention": "none", "tied": True},
}


def build(**settings) -> Relevance:
    torch.manual_seed(1)
    return Relevance(RelevanceConfig(**{**SMALL, **settings})).eval()


@pytest.mark.parametrize("name", ["shared-layer", "sublayer", "sublayer-own-pre", "shared-layer-pre"])
def test_battery(name, tmp_path):
    check_all(lambda: build(**VARIANTS[name]), tmp_path)


def test_two_padded_blocks_are_one_plain_sequence():
    """The layout of query and reply against one row without padding, through plain attention."""
    model = build(source_attention="none", topics=False)
    batch = random_batch(3, source=9, target=5)
    found = model(batch).scores
    for row in range(3):
        query = batch.source[row, : batch.source_lengths[row]]
        reply = batch.target[row, : batch.target_lengths[row]]
        whole = torch.cat([query, torch.tensor([SEPARATOR]), reply[:-1]])[None]
        states = model.embed(whole)
        mask = causal(whole.shape[1])
        for layer in model.layers:
            states = layer.residuals[0](states, lambda x, layer=layer, mask=mask: layer.look_back.plain(x, x, mask))
            states = layer.residuals[1](states, layer.forward_part)
        wanted = model.scores(model.head(states))[0, len(query) :]
        assert_close(found[row, : len(reply)], wanted, atol=1e-5, rtol=1e-4)


def test_the_loss_of_query_tokens_does_not_see_ahead():
    """Where query tokens are predicted, neither the topic vector nor later tokens may come in."""
    model = build()
    batch = random_batch(2, source=8, target=4)
    query, _, _ = model._pass(batch)
    changed = batch.source.clone()
    changed[:, 5] = 39 - changed[:, 5] % 2
    other, _, _ = model._pass(batch._replace(source=changed))
    assert_close(other[:, :5], query[:, :5])


def test_next_tokens_end_in_the_separator():
    source = torch.tensor([[7, 8, 9, PAD], [7, PAD, PAD, PAD]])
    assert next_tokens(source, torch.tensor([3, 1])).tolist() == [[8, 9, SEPARATOR, PAD], [SEPARATOR, PAD, PAD, PAD]]


def reply_batch(batch: PairBatch) -> ReplyBatch:
    informative = torch.zeros_like(batch.source, dtype=torch.bool)
    informative[:, 1] = True
    topics = torch.zeros(len(batch.source), 4, dtype=torch.long)
    topics[:, 0] = 11
    return ReplyBatch(*batch, informative=informative, topics=topics)


def test_the_attention_loss_is_the_papers():
    weights = torch.tensor([[[0.5, 0.5, 0.0], [0.1, 0.9, 0.0], [1.0, 0.0, 0.0]]])
    batch = ReplyBatch(
        source=torch.tensor([[7, 8, PAD]]),
        source_lengths=torch.tensor([2]),
        target=torch.tensor([[6, 2, PAD]]),
        target_lengths=torch.tensor([2]),
        informative=torch.tensor([[False, True, False]]),
        topics=torch.zeros(1, 4, dtype=torch.long),
    )
    assert at_most(weights, batch.target_lengths).tolist() == [[0.5, pytest.approx(0.9), 0.0]]  # padding is left out
    assert float(attention_loss(weights, batch)) == pytest.approx((0.5**2 + 0.1**2) / 2)
    none = batch._replace(informative=torch.zeros(1, 3, dtype=torch.bool))
    assert float(attention_loss(weights, none)) == 0.0


def test_the_topic_loss_is_a_mean_over_words():
    logs = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]]).log()
    topics = torch.tensor([[2, 3, PAD], [PAD, PAD, PAD]])
    wanted = -(logs[0, 2] + logs[0, 3]) / 2
    assert_close(topic_loss(logs, topics), wanted)


@pytest.mark.parametrize("name", ["shared-layer", "sublayer"])
def test_auxiliary_losses_move_attention_and_topics(name):
    model = build(**VARIANTS[name]).train()
    batch = reply_batch(random_batch(8, seed=5))
    before = float(model.salience(batch)[:, 1].mean().detach())
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        model.loss(batch).backward()
        optimiser.step()
        optimiser.zero_grad()
    model.eval()
    assert model.salience(batch)[:, 1].mean() > max(0.6, before)
    assert (model.topic_scores(batch.source, batch.source_lengths).argmax(-1) == 11).all()


def test_the_loss_reads_nothing_back():
    """CUDA graphs want a loss that never asks the device for a number: on the meta device there is none to give."""
    batch = reply_batch(random_batch(4))
    for settings in VARIANTS.values():
        model = build(**settings).to("meta")
        assert model.loss(batch.to("meta")).shape == ()


def test_gradients_reach_every_weight():
    for settings in VARIANTS.values():
        model = build(**settings).train()
        model.loss(reply_batch(random_batch(4))).backward()
        assert [name for name, weight in model.named_parameters() if weight.grad is None] == []
