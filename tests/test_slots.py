"""Slots: phrases given to slots, written apart from each other, learned, and written one word at a time."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from torch.testing import assert_close

from tagsmith.data.batches import PairBatch
from tagsmith.models.slots import Slots, SlotsConfig, match, phrase_matrix
from tagsmith.pipelines.phrases import write_slots
from tagsmith.text.terms import ABSENT, PRESENT
from tagsmith.text.vocabulary import END, PAD, SEP, UNK

TINY = {
    "vocab": 30,
    "extra": 3,
    "width": 16,
    "heads": 2,
    "inner": 32,
    "reader_layers": 1,
    "writer_layers": 1,
    "dropout": 0.0,
    "longest": 32,
    "slots": 6,
    "words": 4,
}


def build(**changes: object) -> Slots:
    torch.manual_seed(1)
    return Slots(SlotsConfig(**{**TINY, **changes})).eval()


def documents() -> PairBatch:
    source = torch.tensor([[7, 30, 8, 31, 9, 30, 0], [7, 8, 9, 10, 11, 12, 13]])
    target = torch.tensor(
        [
            [PRESENT, 7, 30, SEP, PRESENT, 31, SEP, ABSENT, 12, 13, SEP, END],
            [PRESENT, 8, SEP, ABSENT, 12, SEP, END, 0, 0, 0, 0, 0],
        ]
    )
    return PairBatch(source, torch.tensor([6, 7]), target, torch.tensor([12, 7]))


def test_phrases_are_laid_out_by_kind():
    table = phrase_matrix(documents().target, 6, 4)
    assert table[0].tolist() == [[7, 30, SEP, 0], [31, SEP, 0, 0], [0] * 4, [12, 13, SEP, 0], [0] * 4, [0] * 4]
    assert table[1].tolist() == [[8, SEP, 0, 0], [0] * 4, [0] * 4, [12, SEP, 0, 0], [0] * 4, [0] * 4]


def test_phrases_that_do_not_fit_are_left_out():
    long = torch.tensor([[PRESENT, 7, 8, 9, 10, SEP, PRESENT, 11, SEP, PRESENT, 12, SEP, PRESENT, 13, SEP, END]])
    table = phrase_matrix(long, 4, 4)[0]  # two slots for present phrases; four words and [SEP] are one too many
    assert table.tolist() == [[0] * 4, [11, SEP, 0, 0], [0] * 4, [0] * 4]


def test_an_absent_phrase_alone_goes_to_the_second_half():
    table = phrase_matrix(torch.tensor([[ABSENT, 7, SEP, END]]), 4, 3)[0]
    assert table.tolist() == [[0] * 3, [0] * 3, [7, SEP, 0], [0] * 3]


def test_every_phrase_gets_one_slot():
    gain = torch.tensor([[[0.9, 0.8, 0.0], [0.7, 0.1, 0.0], [0.2, 0.3, 0.0]]])
    assert match(gain, torch.tensor([[True, True, False]])).tolist() == [[0, -1, 1]]
    assert match(gain, torch.tensor([[False, False, False]])).tolist() == [[-1, -1, -1]]


def test_the_match_is_nearly_the_best_one():
    torch.manual_seed(0)
    gain = torch.rand(200, 5, 5) ** 3  # sharp, as trained slots are
    chosen = match(gain, torch.ones(200, 5, dtype=torch.bool))
    assert all(sorted(row) == list(range(5)) for row in chosen.tolist())
    found = gain.gather(2, chosen[:, :, None]).sum()
    best = sum(max(sum(float(one[s, p]) for s, p in enumerate(way)) for way in permutations(range(5))) for one in gain)
    assert 0.95 * best <= float(found) <= best + 1e-4


def test_slots_are_given_all_phrases_and_the_rest_are_told_to_stop():
    model, batch = build(), documents()
    given = model.give(batch.target, model.encode(batch.source, batch.source_lengths))
    present = sorted(row for row in given[0, :3].tolist())
    assert present == sorted([[7, 30, SEP, 0], [31, SEP, 0, 0], [SEP, 0, 0, 0]])
    assert sorted(given[1, 3:].tolist()) == sorted([[12, SEP, 0, 0], [SEP, 0, 0, 0], [SEP, 0, 0, 0]])


def test_a_slot_does_not_see_the_others():
    model, batch = build(), documents()
    memory = model.encode(batch.source, batch.source_lengths)
    given = model.give(batch.target, memory)
    changed = given.clone()
    changed[:, 0, :2] = 20
    one, other = (model.write(model.inputs(each), memory)[0].unflatten(1, (6, 4)) for each in (given, changed))
    assert_close(other[:, 1:], one[:, 1:])
    assert not torch.allclose(other[:, 0], one[:, 0])


def test_word_by_word_is_as_all_at_once_and_padding_changes_nothing():
    model, batch = build(), documents()
    memory = model.encode(batch.source, batch.source_lengths)
    given = model.give(batch.target, memory)
    whole = model.scores(*model.write(model.inputs(given), memory), memory).unflatten(1, (6, 4))
    now, state = model.start(memory)
    for place in range(3):
        assert_close(model.scores(*now, memory), whole[:, :, place], atol=1e-5, rtol=1e-4)
        now, state = model.step(given[:, :, place], state, memory)
    wider = model.encode(torch.nn.functional.pad(batch.source, (0, 5)), batch.source_lengths)
    again = model.scores(*model.write(model.inputs(given), wider), wider).unflatten(1, (6, 4))
    assert_close(again, whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("changes", [{}, {"reader_norm": "post", "places": "learned"}])
def test_the_phrases_of_ten_documents_are_learned(changes):
    torch.manual_seed(0)
    chance = torch.Generator().manual_seed(5)
    source = torch.randint(6, 30, (10, 9), generator=chance)
    words = torch.randint(6, 30, (10, 2), generator=chance)
    target = torch.tensor([[PRESENT, int(s[2]), SEP, ABSENT, *w, SEP, END] for s, w in zip(source, words.tolist())])
    batch = PairBatch(source, torch.full((10,), 9), target, torch.full((10,), 8))
    model = build(**changes).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for _ in range(300):
        loss = model.loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    model.eval()
    memory = model.encode(batch.source, batch.source_lengths)
    first = model.scores(*model.start(memory)[0], memory).argmax(-1)  # (10, slots)
    for row, (written, given) in enumerate(zip(first.tolist(), target.tolist())):
        assert {word for word in written[:3] if word != SEP} == {given[1]}, row
        assert {word for word in written[3:] if word != SEP} == {given[4]}, row


@pytest.mark.parametrize("written", [0, 12])
def test_the_few_words_that_can_come_are_scored_as_among_all(written):
    model, batch = build(written=written), documents()
    memory = model.encode(batch.source, batch.source_lengths)
    now, _ = model.start(memory)
    every = model.scores(*now, memory)
    assert every.shape[-1] == 33
    if written:
        assert (every[0, :, 12:30] < -20).all()  # neither written nor in the first document
    best = model.best_words(now, memory, keep=3, never=[SEP, 7])
    every[..., [SEP, 7]] = -torch.inf
    logs, words = every.topk(3)
    assert_close(best.logs, logs, atol=1e-5, rtol=1e-4)
    assert best.ids.tolist() == words.tolist()


@torch.no_grad()
def test_phrases_are_written_as_each_would_be_by_itself():
    model, batch = build(), documents()
    model.out_bias[SEP] = 2.6
    memory = model.encode(batch.source, batch.source_lengths)
    written, logs = write_slots(model, memory)
    assert written.shape == (2, 12, 4)  # each slot begins in two ways
    ends = (written == SEP).int().argmax(-1)
    assert ends.min() < ends.max()  # some phrases end before others
    for text in range(2):
        expected = [plainly_written(model, memory, text, slot, way) for slot in range(6) for way in range(2)]
        found = zip(written[text].tolist(), logs[text].tolist())
        for (own, score), (words, total) in zip(sorted(found), sorted(expected)):
            assert own[: len(words)] == words
            assert score == pytest.approx(total, abs=1e-4)


def plainly_written(model, memory, text, slot, way):
    """A phrase of one slot, by whole passes."""
    given = torch.full((2, 6, 4), PAD)
    words, total = [], 0.0
    for place in range(4):
        scores = model.scores(*model.write(model.inputs(given), memory), memory)
        row = scores.unflatten(1, (6, 4))[text, slot, place]
        row[[PAD, UNK, END, PRESENT, ABSENT, *([] if place else [SEP])]] = -torch.inf
        found = row.topk(2)
        total += float(found.values[0 if place else way])
        words.append(SEP if place == 3 else int(found.indices[0 if place else way]))
        given[text, slot, : len(words)] = torch.tensor(words)
        if words[-1] == SEP:
            break
    return words, total


def test_some_slots_go_on_as_they_would_among_all():
    model, batch = build(), documents()
    memory = model.encode(batch.source, batch.source_lengths)
    words, places = torch.tensor([[7, 8, 9, 10, 11, 12]] * 2), torch.tensor([[4, 1], [0, 5]])
    _, state = model.start(memory)
    every, _ = model.step(words, state, memory)
    some, _ = model.step(words.gather(1, places), state.narrow(places), memory)
    expected = every.states.gather(1, places[:, :, None].expand(-1, -1, 16))
    assert_close(some.states, expected, atol=1e-5, rtol=1e-4)


def test_unneeded_slots_weigh_less():
    model = build()
    given = torch.tensor(
        [[[7, SEP, 0, 0], [SEP, 0, 0, 0], [SEP, 0, 0, 0], [SEP, 0, 0, 0], [8, 9, SEP, 0], [SEP] + [0] * 3]]
    )
    worth = model._worth(given)[0]
    assert worth[0].tolist() == [1, 1, 0, 0]
    assert worth[1].tolist() == pytest.approx([0.2, 0, 0, 0])
    assert worth[3].tolist() == pytest.approx([0.1, 0, 0, 0])
    assert worth[4].tolist() == [1, 1, 1, 0]
