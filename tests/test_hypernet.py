"""The model that reads a body by the light of its title: every head, every way to read, frozen and not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from tagsmith.bundle import pack, unpack
from tagsmith.data.batches import BatchSettings
from tagsmith.data.reading import Example, ReadBatches, Reading, collated
from tagsmith.errors import ConfigError, TrainError
from tagsmith.models import find_model
from tagsmith.models.hypernet import Hypernet, HypernetConfig, pooled
from tagsmith.train.optimiser import weight_groups

SIZES = {"width": 16, "heads": 2, "inner": 32, "reader_layers": 1, "hidden": 8, "code": 3, "longest": 64}
ASKED = ("classify", "answer", "extract")
BODIES = ("hypernet", "plain", "bilstm", "tg")


def build(**changes: object) -> Hypernet:
    torch.manual_seed(5)
    return Hypernet(HypernetConfig(**{"vocab": 40, "labels": 3, "dropout": 0.0, **SIZES, **changes})).eval()


def examples(asked: str, *, count: int = 6) -> list[Example]:
    """Texts whose answer follows from their first word and their title."""
    chance = np.random.default_rng(4)
    made = []
    for number in range(count):
        meta = [4, *chance.integers(6, 40, 1 + number % 3).tolist()]
        body = chance.integers(6, 40, 4 + 3 * (number % 4)).tolist()
        ids = [*meta, 3, *body, 3]
        places = list(range(len(meta) + 1, len(ids) - 1))
        target = {
            "classify": [number % 3],
            "answer": [number % 3, number % 3 + (number % 3 > 0)],
            "extract": [(number + place) % 3 for place in range(len(body))],
        }[asked]
        made.append(Example(ids, len(meta), places, target))
    return made


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("body", BODIES)
def test_a_text_is_read_alone_as_among_others(asked, body):
    model, some = build(asked=asked, body=body, pool="mean"), examples(asked)
    together = model(collated(some)).scores
    for row, one in enumerate(some):
        alone = model(collated([one])).scores[0]
        real = len(one.body) + (asked == "answer") if asked != "classify" else len(alone)
        assert_close(alone[:real], together[row][:real], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("asked", "body"), [*((asked, "hypernet") for asked in ASKED), *(("extract", body) for body in BODIES[1:])]
)
def test_ten_texts_are_learned_by_heart(asked, body):
    model, some = build(asked=asked, body=body, constant=body != "hypernet" or asked != "classify"), examples(asked)
    batch = collated(some)
    optimiser = torch.optim.AdamW(model.train().parameters(), lr=2e-2)
    for _ in range(80):
        loss = model.loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    scores = model.eval()(batch).scores
    if asked == "classify":
        assert scores.argmax(-1).tolist() == [one.target[0] for one in some]
    elif asked == "answer":
        assert scores.argmax(1).tolist() == [one.target for one in some]
    else:
        assert model.crf.best(scores, batch.body_lengths) == [one.target for one in some]


@pytest.mark.parametrize("body", ["hypernet", "tg"])
def test_the_title_matters(body):
    model, one = build(asked="classify", body=body), examples("classify")[0]
    batch = collated([one])
    split = model.split(batch)
    _, seen = model.body(split)
    _, other = model.body(split._replace(meta=split.meta.flip(2) * 3))
    assert not torch.allclose(seen, other)


@pytest.mark.parametrize("ways", ["ahead", "both"])
def test_the_body_is_read_ahead_or_from_both_sides(ways):
    model = build(asked="extract", ways=ways)
    split = model.split(collated(examples("extract")))
    states, _ = model.body(split)
    assert states.shape[2] == model.body.width == (16 if ways == "both" else 8)
    later = split.body.clone()
    later[:, 3] += 1.0
    changed, _ = model.body(split._replace(body=later))
    assert_close(changed[:, :3, :8], states[:, :3, :8])
    assert torch.allclose(changed[:, :3], states[:, :3]) == (ways == "ahead")


def test_a_code_is_as_large_for_any_title(monkeypatch):
    """A code near zero writes nothing, and one that grows makes every step of training larger."""
    model, seen = build(), []
    generate = model.body.read[0].generate
    monkeypatch.setattr(model.body.read[0], "generate", lambda codes: seen.append(codes) or generate(codes))
    with torch.no_grad():
        for size in (1.0, 10.0, 100.0):
            model.body.code.weight.normal_(std=size, generator=torch.Generator().manual_seed(1))
            model(collated(examples("classify")))
    for codes in seen:
        assert_close(codes.square().mean(-1), torch.ones(6), atol=0.1, rtol=0.0)


def test_a_code_may_be_smaller():
    split = build().split(collated(examples("classify")))
    assert_close(build(code_scale=0.25).body.codes(split), 0.25 * build().body.codes(split))
    paper, other = (build(constant=False, code_scale=scale, code_dropout=0.9).train() for scale in (1.0, 0.25))
    assert_close(paper.body.codes(split), other.body.codes(split))  # as its equations have it


def test_in_training_some_texts_are_read_without_their_code():
    model, split = build(code_dropout=0.5), build().split(collated(examples("classify", count=60)))
    always = model.body.codes(split)
    assert_close(always, build().body.codes(split))
    torch.manual_seed(1)
    found = model.train().body.codes(split)
    heard = found.abs().sum(-1) > 0
    assert 15 < heard.sum() < 45
    assert_close(found[heard], always[heard])
    states, _ = model.body.eval()(split)
    assert not torch.allclose(states, build(code_scale=1e-9).body(split)[0])


def test_what_makes_the_code_may_learn_more_slowly():
    model = build()
    groups = weight_groups(model, 0.1, {"sum_up": 0.1, "code": 0.1})
    slow = {id(weight) for group in groups if group["factor"] == 0.1 for weight in group["params"]}
    assert slow == {id(weight) for part in (model.body.sum_up, model.body.code) for weight in part.parameters()}
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))


@pytest.mark.parametrize("wrong", [{"code_scale": 0.0}, {"code_dropout": 1.0}, {"code_dropout": -0.1}])
def test_codes_of_no_size_or_never_heard_are_refused(wrong):
    with pytest.raises(ConfigError, match="code_scale must be above 0 and code_dropout"):
        build(**wrong)


def test_with_no_code_the_body_is_read_as_by_an_ordinary_lstm():
    """The constant part alone is the body that the written one is compared with."""
    model, plain = build(asked="extract"), build(asked="extract", body="bilstm")
    with torch.no_grad():
        for written, usual in zip(model.body.read, (plain.body.read.ahead, plain.body.read.back), strict=True):
            for part in (written.recurrent, written.inward, written.bias):
                part.weight.zero_()
            usual.weight_hh_l0.copy_(written.recurrent.bias.view_as(usual.weight_hh_l0))
            usual.weight_ih_l0.copy_(written.inward.bias.view_as(usual.weight_ih_l0))
            usual.bias_ih_l0.copy_(written.bias.bias)
            usual.bias_hh_l0.zero_()
    split = model.split(collated(examples("extract")))
    seen, expected = model.body(split)[0], plain.body(split)[0]
    for row, length in enumerate(split.body_lengths.tolist()):
        assert_close(seen[row, :length], expected[row, :length], atol=1e-5, rtol=1e-5)


def test_both_ways_are_two_written_lstms():
    model = build(asked="extract", ways="both")
    split = model.split(collated(examples("extract")[:1]))
    states, _ = model.body(split)
    summed, _ = model.body.sum_up(split.meta)
    codes = model.body.even(model.body.code(pooled(summed, split.meta_lengths, "last")))
    length = int(split.body_lengths)
    ahead, back = model.body.read
    assert_close(states[:, :length, :8], ahead(split.body, codes)[:, :length])
    assert_close(states[:, :length, 8:], back(split.body[:, :length].flip(1), codes).flip(1))


@pytest.mark.parametrize("body", BODIES)
def test_the_size_of_a_backbones_states_does_not_matter(body):
    model, batch = build(asked="extract", body=body, freeze=True), collated(examples("extract"))
    states = 5 + torch.randn(*batch.ids.shape, 16)
    seen = model(batch._replace(states=states)).scores
    assert_close(model(batch._replace(states=20 * states)).scores, seen, atol=1e-3, rtol=1e-3)


def test_what_is_read_may_be_dropped_more_often_than_what_the_reader_made():
    model = build(dropout=0.1, body_dropout=0.5)
    assert model.dropout.p == 0.5
    assert {part.p for part in model.reader.modules() if isinstance(part, torch.nn.Dropout)} == {0.1}
    assert build(dropout=0.2).dropout.p == 0.2


def test_windows_without_an_answer_may_count_more():
    batch = collated(examples("answer"))
    none = batch.target[:, 0] == 0
    assert 0 < none.sum() < len(none)
    each = torch.stack([build(asked="answer").loss(collated([one])) for one in examples("answer")])
    expected = (each * torch.where(none, 4.0, 1.0)).sum() / torch.where(none, 4.0, 1.0).sum()
    assert_close(build(asked="answer", none=4.0).loss(batch), expected, atol=1e-4, rtol=1e-4)
    assert_close(build(asked="answer").loss(batch), each.mean(), atol=1e-4, rtol=1e-4)


def test_a_frozen_reader_is_read_once(tmp_path):
    model = build(asked="extract", freeze=True, dropout=0.5).train()
    assert not model.reader.training
    assert not any(weight.requires_grad for weight in model.reader.parameters())
    reading = Reading.pack(examples("extract"))
    batch = reading.collate(np.arange(6))

    def fill(whole, states):
        for row in range(len(whole)):
            one = whole.collate(np.array([row]))
            start = int(whole.ids.starts(np.array([row]))[0])
            states[start : start + int(one.lengths[0])] = model.states(one)[0, : int(one.lengths[0])].numpy()

    kept = reading.with_states(tmp_path / "states.bin", 16, fill=fill).collate(np.arange(6))
    assert kept.states.shape == (*batch.ids.shape, 16)
    model.eval()
    assert_close(model(kept).scores[0, :4], model(batch).scores[0, :4], atol=1e-2, rtol=1e-2)
    model.loss(kept).backward()
    assert model.reader.embed.table.weight.grad is None
    assert model.repeated_parts() == []


def test_saving_and_loading_keeps_the_scores(tmp_path):
    assert find_model("hypernet") is Hypernet
    model, other, batch = build(asked="answer"), build(asked="answer"), collated(examples("answer"))
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(1.0)
    unpack(pack(model, how="fp16"), other, dtype=torch.float32, folder=tmp_path)
    assert_close(other(batch).scores, model(batch).scores, atol=1e-2, rtol=1e-2)


def test_pooling_sees_real_places_only():
    states, lengths = torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([2])
    assert [pooled(states, lengths, how).item() for how in ("last", "mean", "max")] == [3.0, 2.0, 3.0]


# batches


def test_batches_are_of_few_shapes_where_asked():
    reading = Reading.pack(examples("extract", count=40))
    settings = BatchSettings(tokens=64 * 4, source=64, parts=2)
    fine, coarse = ReadBatches(reading, settings), ReadBatches(reading, settings, coarse=True, meta=8)
    shapes = {tuple(part.shape[1:] for part in batch) for step in coarse.epoch(0) for batch in step}
    assert len(shapes) == 1
    few = Reading.pack([Example([4, *range(6, 38), 3, *range(6, 38), 3], 33, [40, 50], [0, 1])])
    batch = few.collate(np.array([0]), coarse=True)  # a text of two words that are many pieces
    assert (batch.ids.shape[1], batch.body.shape[1], batch.target.shape[1]) == (96, 64, 64)
    assert all(part.shape[1] % 8 == 0 for step in fine.epoch(0) for batch in step for part in (batch.ids, batch.body))
    seen = sorted(int(row) for step in fine.plan(1) for part in step for row in part)
    assert seen == list(range(40))
    assert fine.steps(0) == 5
    assert len(list(fine.epoch(0, skip=3))) == 2


def test_examples_are_kept_in_a_file(tmp_path):
    reading = Reading.pack(examples("answer"))
    reading.save(tmp_path / "reading.npz")
    found = Reading.load(tmp_path / "reading.npz").collate(np.arange(6))
    for one, two in zip(found, reading.collate(np.arange(6)), strict=True):
        assert_close(one, two)
    (tmp_path / "reading.npz").write_bytes(b"x")
    with pytest.raises(TrainError, match="holds no examples"):
        Reading.load(tmp_path / "reading.npz")
    with pytest.raises(TrainError, match="no row to learn from"):
        Reading.pack([])


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("body", BODIES)
def test_the_loss_asks_the_device_for_nothing(asked, body):
    model = build(asked=asked, body=body, freeze=True).to("meta").train()  # tensors without numbers: asking would fail
    loss = model.loss(collated(examples(asked)).to("meta"))
    loss.backward()
    assert loss.shape == ()


def test_bfloat16_reads_about_the_same():
    model, some = build(asked="extract"), examples("extract")
    with torch.no_grad():
        exact = model(collated(some)).scores
        rough = build(asked="extract").bfloat16()(collated(some)).scores
    assert rough.dtype == torch.float32
    assert_close(rough[0, :4], exact[0, :4], atol=0.05, rtol=0.05)


@pytest.mark.parametrize("body", BODIES)
def test_training_in_bfloat16_has_about_the_same_gradient(body):
    found = []
    for rough in (False, True):
        model = build(asked="extract", body=body).train()
        with torch.autocast("cpu", torch.bfloat16, enabled=rough):
            loss = model.loss(collated(examples("extract")))
        loss.backward()
        found.append(torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]))
    assert torch.cosine_similarity(found[0], found[1], dim=0) > 0.98
