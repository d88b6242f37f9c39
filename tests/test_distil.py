"""Distillation: the student nears its teacher, which stays as it is."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from battery import padded, random_batch
from tagsmith.models.distil import Distilled
from tagsmith.models.segtrm import SegTrm, SegTrmConfig

TINY = SegTrmConfig(vocab=40, width=16, heads=2, inner=32, encoder_layers=1, decoder_layers=1, dropout=0.0, longest=64)


def pair(share: float) -> tuple[Distilled, SegTrm]:
    torch.manual_seed(3)
    teacher = SegTrm(TINY)
    with torch.no_grad():
        for weight in teacher.parameters():
            weight.normal_(std=0.3)
    return Distilled(SegTrm(TINY), teacher, share=share), teacher


def test_the_student_comes_to_believe_what_the_teacher_does():
    model, teacher = pair(share=1.0)
    batch = random_batch(20)
    before = {name: weight.clone() for name, weight in teacher.named_parameters()}
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    first = model.loss(batch).item()
    for _ in range(150):
        model.loss(batch).backward()
        optimiser.step()
        optimiser.zero_grad()
    assert model.loss(batch).item() < 0.1 * first
    for name, weight in teacher.named_parameters():
        assert_close(weight, before[name], atol=0, rtol=0)


def test_without_a_share_the_loss_is_the_students_own():
    model, _ = pair(share=0.0)
    batch = random_batch()
    assert_close(model.loss(batch), model.student.loss(batch))


def test_a_student_like_its_teacher_has_nothing_to_learn():
    model, teacher = pair(share=1.0)
    model.student.load_state_dict(teacher.state_dict())
    assert_close(model.loss(random_batch()), torch.tensor(0.0), atol=1e-5, rtol=0)


def test_padding_does_not_count():

    model, _ = pair(share=1.0)
    batch = random_batch()
    assert_close(model.loss(padded(batch, source=4, target=5)), model.loss(batch), atol=1e-5, rtol=1e-4)


def test_the_teacher_is_not_a_part_of_the_model():
    model, teacher = pair(share=0.5)
    assert len(list(model.parameters())) == len(list(teacher.parameters()))
