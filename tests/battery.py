"""The checks every sequence model passes; a model's own test calls `check_all(build)`.

`build()` gives a new tiny model in eval mode whose vocabulary has at least 40 ids.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tagsmith.bundle import pack, unpack
from tagsmith.data.batches import PairBatch
from tagsmith.decode import Ends, beam, greedy
from tagsmith.text.pieces import END, PAD
from tagsmith.train.checkpoint import load_weights, save_weights

Build = Callable[[], Any]


def random_batch(rows: int = 5, *, source: int = 11, target: int = 6, seed: int = 0) -> PairBatch:
    """Posts of different lengths."""
    chance = torch.Generator().manual_seed(seed)
    source_lengths = torch.randint(3, source + 1, (rows,), generator=chance)
    target_lengths = torch.randint(2, target + 1, (rows,), generator=chance)
    source_lengths[0], target_lengths[0] = source, target
    sources = torch.randint(6, 40, (rows, source), generator=chance)
    targets = torch.randint(6, 40, (rows, target), generator=chance)
    targets[torch.arange(rows), target_lengths - 1] = END
    sources[torch.arange(source) >= source_lengths[:, None]] = PAD
    targets[torch.arange(target) >= target_lengths[:, None]] = PAD
    return PairBatch(sources, source_lengths, targets, target_lengths)


def padded(batch: PairBatch, *, source: int, target: int) -> PairBatch:
    """The same batch with more padding."""
    return PairBatch(
        nn.functional.pad(batch.source, (0, source), value=PAD),
        batch.source_lengths,
        nn.functional.pad(batch.target, (0, target), value=PAD),
        batch.target_lengths,
    )


def rows_of(batch: PairBatch, places: list[int]) -> PairBatch:
    return PairBatch(*(part[places] for part in batch))


def real_scores(model: Any, batch: PairBatch) -> list[Tensor]:
    """The scores at real target places of each row."""
    scores = model(batch).scores
    return [row[:length] for row, length in zip(scores, batch.target_lengths.tolist(), strict=True)]


def check_padding(build: Build) -> None:
    """Padding changes nothing."""
    model, batch = build(), random_batch()
    for seen, more in zip(
        real_scores(model, batch), real_scores(model, padded(batch, source=13, target=3)), strict=True
    ):
        assert_close(more, seen, atol=1e-5, rtol=1e-4)


def check_order(build: Build) -> None:
    """Batch order changes nothing, and a post alone scores as in company."""
    model, batch = build(), random_batch()
    seen = real_scores(model, batch)
    turned = real_scores(model, rows_of(batch, [4, 3, 2, 1, 0]))
    for place in range(5):
        assert_close(turned[4 - place], seen[place], atol=1e-5, rtol=1e-4)
        assert_close(real_scores(model, rows_of(batch, [place]))[0], seen[place], atol=1e-5, rtol=1e-4)


def check_no_look_ahead(build: Build) -> None:
    """A later target token does not change earlier scores; an earlier one does change later scores."""
    model, batch = build(), random_batch()
    seen = model(batch).scores
    changed = batch.target.clone()
    changed[:, 3] = 39
    other = model(batch._replace(target=changed)).scores
    assert_close(other[:, :4], seen[:, :4])
    assert not torch.allclose(other[0, 4], seen[0, 4])


def check_learns(build: Build) -> None:
    """Ten examples are learned by heart."""
    torch.manual_seed(0)
    model, batch = build().train(), random_batch(10, seed=3)
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(250):
        loss = model.loss(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        if loss < 0.05:
            break
    model.eval()
    found = greedy(model.stepper(batch.source, batch.source_lengths), ends=Ends((END,)), steps=8)
    for written, length, wanted, wanted_length in zip(
        found.tokens[:, 0].tolist(),
        found.lengths[:, 0].tolist(),
        batch.target.tolist(),
        batch.target_lengths.tolist(),
        strict=True,
    ):
        assert written[:length] == wanted[: wanted_length - 1]


def check_steps(build: Build) -> None:
    """One token at a time with a cache scores as the whole target at once."""
    model, batch = build(), random_batch()
    whole = model(batch).scores
    stepper = model.stepper(batch.source, batch.source_lengths)
    scores, cache = stepper.start()
    for place in range(batch.target.shape[1]):
        assert_close(scores[:, 0].log_softmax(-1), whole[:, place].log_softmax(-1), atol=1e-5, rtol=1e-4)
        scores, cache = stepper.step(batch.target[:, place : place + 1], cache)


def check_search_alone(build: Build) -> None:
    """Beam search finds for a post alone what it finds for it in a batch."""
    model, batch = build(), random_batch()
    together = beam(model.stepper(batch.source, batch.source_lengths), width=3, ends=Ends((END,)), steps=5)
    for place in range(5):
        one = rows_of(batch, [place])
        alone = beam(model.stepper(one.source, one.source_lengths), width=3, ends=Ends((END,)), steps=5)
        assert_close(alone.scores[0], together.scores[place], atol=1e-4, rtol=1e-4)
        length = min(alone.tokens.shape[2], together.tokens.shape[2])
        assert alone.tokens[0, :, :length].tolist() == together.tokens[place, :, :length].tolist()


def check_compiled(build: Build) -> None:
    """What is worth compiling is traced whole, without a break, and then gives the same loss and gradients."""
    plain, traced, batch = build().train(), build().train(), random_batch()
    torch.compiler.reset()
    for part in traced.repeated_parts():
        part.compile(dynamic=True, fullgraph=True, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracer's own
        losses = [model.loss(batch) for model in (plain, traced)]
    assert_close(losses[1], losses[0])
    for loss in losses:
        loss.backward()
    for own, other in zip(plain.parameters(), traced.parameters(), strict=True):
        assert_close(other.grad, own.grad)


def check_save(build: Build, folder: Path) -> None:
    """Saving and loading is exact; packing to int8 stays close."""
    model, other, batch = build(), build(), random_batch()
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(1.0)
    save_weights(folder / "weights.safetensors", model)
    load_weights(folder / "weights.safetensors", other)
    assert_close(other(batch).scores, model(batch).scores, atol=0, rtol=0)
    unpack(pack(model), other, dtype=torch.float32, folder=folder)
    assert_close(other(batch).scores, model(batch).scores, atol=0.1, rtol=0.1)


def check_all(build: Build, folder: Path) -> None:
    """The whole battery."""
    for check in (check_padding, check_order, check_no_look_ahead, check_steps, check_search_alone, check_compiled):
        check(build)
    check_learns(build)
    check_save(build, folder)
