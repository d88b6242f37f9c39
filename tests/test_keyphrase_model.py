"""Keyphrase models: the battery for every variant; nested phrases, copying and exclusion against worked examples."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from battery import check_all, random_batch
from tagsmith.data.batches import PairBatch
from tagsmith.models.keyphrase import Keyphrase, KeyphraseConfig, earlier_beginnings
from tagsmith.nn.masks import phrase_view
from tagsmith.text.terms import ABSENT, PRESENT
from tagsmith.text.vocabulary import END, SEP

TINY = {
    "vocab": 40,
    "width": 16,
    "heads": 2,
    "inner": 32,
    "reader_layers": 1,
    "writer_layers": 1,
    "hidden": 16,
    "dropout": 0.0,
    "longest": 64,
}
VARIANTS = {
    "tf": {},
    "tf-flat": {"phrases": "flat"},
    "tf-chunks": {"chunk": 4},
    "tf-sparse": {"lead": 2, "near": 2, "strong": 2},
    "tf-relative": {"places": "relative"},
    "tf-both": {"near": 2, "places": "relative"},
    "tf-gru": {"writer": "gru"},
    "rnn": {"reader": "gru", "writer": "gru"},
    "catseq": {"reader": "gru", "writer": "gru", "phrases": "flat"},
    "soft-exclusion": {"exclusion": 1.0},
}


def build(variant: str, **changes: object) -> Keyphrase:
    torch.manual_seed(1)
    model = Keyphrase(KeyphraseConfig(**{**TINY, **VARIANTS[variant], **changes})).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.25)
    return model


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_passes_the_battery(variant, tmp_path):
    check_all(lambda: build(variant), tmp_path)


def rows_with_phrases() -> PairBatch:
    """Two documents; 40 and 41 are words that only the first one knows."""
    source = torch.tensor([[7, 40, 8, 41, 9, 40], [7, 8, 9, 10, 0, 0]])
    target = torch.tensor(
        [
            [PRESENT, 7, 40, SEP, PRESENT, 41, SEP, ABSENT, 12, 13, SEP, END],
            [PRESENT, 8, SEP, ABSENT, 12, SEP, END, 0, 0, 0, 0, 0],
        ]
    )
    return PairBatch(source, torch.tensor([6, 4]), target, torch.tensor([12, 7]))


def test_nested_phrases_see_their_own_words_and_the_places_that_closed_others():
    begins = torch.tensor([[True, False, False, True, False]])  # [SEP] a b [SEP] c
    assert phrase_view(begins)[0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],  # closes the first phrase, so it sees all of it
        [1, 0, 0, 1, 1],
    ]
    assert phrase_view(begins, last=1)[0].tolist() == phrase_view(begins)[0, -1:].tolist()


@pytest.mark.parametrize("variant", ["tf", "tf-both", "rnn"])
def test_nested_phrases_word_by_word_are_as_all_at_once(variant):
    model, batch = build(variant, extra=4), rows_with_phrases()
    whole = model(batch).scores
    stepper = model.stepper(batch.source, batch.source_lengths)
    scores, state = stepper.start()
    for place in range(batch.target.shape[1] - 1):
        assert_close(scores[:, 0], whole[:, place], atol=1e-4, rtol=1e-4)
        scores, state = stepper.step(batch.target[:, place, None], state)


@pytest.mark.parametrize("variant", ["tf", "rnn", "catseq"])
def test_unknown_words_are_copied_from_their_own_document_alone(variant):
    scores = build(variant, extra=4)(rows_with_phrases()).scores.exp()
    assert scores.shape == (2, 12, 44)
    assert (scores[0, :, 40:42] > 1e-6).all()
    assert (scores[1, :, 40:] <= 1e-9).all()  # the second document has no unknown words
    assert_close(scores.sum(-1), torch.ones(2, 12), atol=1e-5, rtol=0)


@pytest.mark.parametrize("variant", ["tf", "catseq"])
def test_the_loss_is_the_surprise_at_the_targets(variant):
    model, batch = build(variant, extra=4), rows_with_phrases()
    logs = model(batch).scores.gather(2, batch.target[:, :, None])[:, :, 0]
    real = batch.target != 0
    assert_close(model.loss(batch), -logs[real].mean(), atol=1e-5, rtol=1e-5)


def test_the_beginnings_to_avoid():
    target = torch.tensor([[PRESENT, 7, 9, SEP, PRESENT, 8, SEP, ABSENT, 7, SEP, END, 0]])
    before, barred = earlier_beginnings(target, 2)
    assert before[0, 5].tolist() == [7, 0]  # the second phrase must not begin like the first
    assert before[0, 8].tolist() == [8, 0]  # the third begins with 7 itself, so only 8 is barred
    assert barred[0, 8].tolist() == [True, False]
    assert int(barred.sum()) == 2


def test_exclusion_adds_the_surprise_of_not_repeating():
    batch = rows_with_phrases()
    plain, soft = build("tf", extra=4), build("soft-exclusion", extra=4)
    scores = plain(batch).scores.exp()
    # first row: 41 after 7, 12 after 41 and 7; second row: 12 after 8
    again = torch.stack([scores[0, 5, 7], scores[0, 8, 41], scores[0, 8, 7], scores[1, 4, 8]])
    extra = -torch.log1p(-again).sum() / 19
    assert_close(soft.loss(batch), plain.loss(batch) + extra, atol=1e-5, rtol=1e-5)


def test_a_chunk_is_read_as_if_it_were_alone():
    model, batch = build("tf-chunks"), random_batch(1, source=8)
    memory = model.encode(batch.source, batch.source_lengths)
    alone = model.encode(batch.source[:, 4:], torch.tensor([4]))
    assert_close(memory.states[:, 4:], alone.states, atol=1e-5, rtol=1e-4)


def test_a_reader_with_relative_places_takes_any_length():
    model = build("tf-both", longest=16)
    source = torch.randint(6, 40, (1, 1500))
    memory = model.encode(source, torch.tensor([1500]))
    assert memory.states.isfinite().all()
