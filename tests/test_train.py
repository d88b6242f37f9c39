"""The loop: schedules, exact resuming, stopping, accumulation, and two processes that stay one model."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.testing import assert_close

from battery import random_batch
from tagsmith.bundle import load_bundle
from tagsmith.data.batches import Batches, BatchSettings
from tagsmith.data.corpus import Corpus
from tagsmith.errors import OutputError, TrainError
from tagsmith.models.segtrm import SegTrm, SegTrmConfig
from tagsmith.text.pieces import SEPARATOR
from tagsmith.train.checkpoint import load_weights, save_weights
from tagsmith.train.loop import TrainSettings, fit
from tagsmith.train.plot import plot_losses
from tagsmith.train.schedule import factor

SETTINGS = TrainSettings(steps=12, learning_rate=5e-3, evaluate_every=4, log_every=2)
PNG = b"\x89PNG\r\n\x1a\n"


def model(**options) -> SegTrm:
    torch.manual_seed(1)
    sizes = {"width": 16, "heads": 2, "inner": 32, "encoder_layers": 1, "decoder_layers": 1, "longest": 32}
    return SegTrm(SegTrmConfig(**{"vocab": 40, **sizes, "segment_size": 3, "top": 2, "dropout": 0.2, **options}))


@pytest.fixture(scope="module")
def batches(tmp_path_factory) -> Batches:
    """Five steps an epoch of texts whose tag is their first letter, twice."""
    words = [f"{first}{second}{third}" for first in "abcd" for second in "efg" for third in "hijkl"]
    corpus = Corpus.build(
        ((word, [word[0] * 2]) for word in words),
        lambda texts: [[ord(letter) - 87 for letter in text] for text in texts],
        tmp_path_factory.mktemp("corpus"),
        separator=SEPARATOR,
    )
    made = Batches(corpus, BatchSettings(tokens=300, source=16, target=8))
    assert made.steps(0) == 5
    return made


class Rising:
    """A metric that rises with every evaluation; the `fails`-th one raises instead."""

    def __init__(self, *, start: int = 0, fails: int = 0) -> None:
        self.calls, self.fails = start, fails

    def __call__(self, trained: nn.Module) -> dict[str, float]:
        self.calls += 1
        if self.calls == self.fails:
            raise RuntimeError("the power went out")
        return {"f1@1": float(self.calls)}


def logged(folder) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def weights_of(trained: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in trained.named_parameters()}


def assert_same(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("schedule", ["cosine", "linear", "inverse_sqrt", "constant"])
def test_a_schedule_rises_in_the_warm_up_and_peaks_after_it(schedule):
    values = [factor(schedule, step, steps=100, warmup=10) for step in range(101)]
    assert values[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert max(values) == pytest.approx(1.0)
    assert all(later <= earlier for earlier, later in pairwise(values[10:]))


def test_schedules_end_where_they_say():
    def last(schedule):
        return factor(schedule, 100, steps=100, warmup=10)

    assert [last("cosine"), last("linear"), last("ratio")] == pytest.approx([0, 0, 0], abs=1e-9)
    assert last("constant") == 1
    assert last("inverse_sqrt") == pytest.approx((10 / 101) ** 0.5)
    assert factor("cosine", 55, steps=100, warmup=10) == pytest.approx(0.5)
    assert factor("linear", 55, steps=100, warmup=10) == pytest.approx(0.5)


def test_the_papers_schedule_starts_at_a_32nd_and_falls_as_if_it_had_no_warm_up():
    values = [factor("ratio", step, steps=100, warmup=10) for step in range(100)]
    assert values[0] == 1 / 32
    assert values[5] == pytest.approx((1 / 32 + 1) / 2)
    assert values[10] == pytest.approx(1 - 10 / 100)
    assert values[50] == pytest.approx(1 - 50 / 100)


def test_training_lowers_the_loss_and_tells_how(batches, tmp_path):
    events = []
    settings = replace(SETTINGS, steps=60, evaluate_every=0, log_every=5)
    progress = fit(model(), batches, settings, tmp_path, evaluate=Rising(), report=events.append)
    losses = [row["loss"] for row in logged(tmp_path) if "loss" in row]
    assert losses[-1] < losses[0] / 2
    assert progress.step == 60
    assert [event["step"] for event in events if event["kind"] == "step"] == list(range(5, 61, 5))
    assert [event["step"] for event in events if event["kind"] == "evaluation"] == list(range(5, 61, 5))  # each epoch


@pytest.mark.parametrize("killed", ["while it evaluates", "between two steps"])
def test_a_run_that_was_killed_goes_on_bit_for_bit(batches, tmp_path, killed):
    straight, resumed = tmp_path / "straight", tmp_path / "resumed"
    whole = model()
    fit(whole, batches, SETTINGS, straight, evaluate=Rising())
    if killed == "while it evaluates":
        source, evaluate = batches, Rising(fails=2)
    else:
        source, evaluate = Unplugged(batches, after=7), Rising()
    with pytest.raises(RuntimeError, match="the power went out"):
        fit(model(), source, SETTINGS, resumed, evaluate=evaluate)
    with (resumed / "metrics.jsonl").open("a") as log:
        log.write('{"step": 8, "lo')  # a line that was being written
    torch.manual_seed(99)  # whatever happened in between
    again = model()
    fit(again, batches, SETTINGS, resumed, evaluate=Rising(start=1), resume=True)
    assert_same(weights_of(again), weights_of(whole))
    ends = [(folder / "checkpoint.safetensors").read_bytes() for folder in (straight, resumed)]
    assert ends[0] == ends[1]  # weights, optimiser, chance and progress
    assert [(row["step"], row.get("loss")) for row in logged(resumed)] == [
        (row["step"], row.get("loss")) for row in logged(straight)
    ]


class Unplugged:
    """Batches that break off after so many."""

    def __init__(self, batches: Batches, *, after: int) -> None:
        self.batches, self.left = batches, after

    def shard(self, rank, world):
        return self

    def steps(self, epoch):
        return self.batches.steps(epoch)

    def epoch(self, number, *, skip=0):
        for batch in self.batches.epoch(number, skip=skip):
            if not self.left:
                raise RuntimeError("the power went out")
            self.left -= 1
            yield batch


def test_the_log_has_every_step_once(batches, tmp_path):
    with pytest.raises(RuntimeError):
        fit(model(), Unplugged(batches, after=11), SETTINGS, tmp_path, evaluate=Rising())
    fit(model(), batches, SETTINGS, tmp_path, evaluate=Rising(start=2), resume=True)
    rows = logged(tmp_path)
    assert [row["step"] for row in rows if "loss" in row] == [2, 4, 6, 8, 10, 12]
    assert [row["step"] for row in rows if "dev_f1@1" in row] == [4, 8, 12]


def test_a_reported_loss_is_the_mean_since_the_last_report_also_across_epochs(batches, tmp_path):
    steps = batches.steps(0) + 3
    for every in (1, steps):
        settings = replace(SETTINGS, steps=steps, evaluate_every=10_000, log_every=every)
        fit(model(), batches, settings, tmp_path / str(every))
    single = [row["loss"] for row in logged(tmp_path / "1") if "loss" in row]
    (mean,) = [row["loss"] for row in logged(tmp_path / str(steps)) if "loss" in row]
    assert mean == pytest.approx(sum(single) / len(single), rel=1e-4)


def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(batches, tmp_path):
    def interrupt(event):
        if event["kind"] == "step" and event["step"] == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(model(), batches, SETTINGS, tmp_path, report=interrupt)
    steps = []
    fit(model(), batches, SETTINGS, tmp_path, resume=True, report=lambda event: steps.append(event["step"]))
    assert steps == [8, 10, 12]


def test_a_finished_run_goes_on_when_more_steps_are_asked_for(batches, tmp_path):
    fit(model(), batches, SETTINGS, tmp_path)
    assert fit(model(), batches, SETTINGS, tmp_path, resume=True).step == 12
    assert fit(model(), batches, replace(SETTINGS, steps=16), tmp_path, resume=True).step == 16


def test_a_checkpoint_that_cannot_be_used_says_why(batches, tmp_path):
    with pytest.raises(TrainError, match=r"there is no checkpoint .*; start without --resume"):
        fit(model(), batches, SETTINGS, tmp_path, resume=True)
    fit(model(), batches, SETTINGS, tmp_path)
    for other in (model(width=8), model(decoder_layers=2)):
        with pytest.raises(TrainError, match=r"start anew without --resume|is of another model"):
            fit(other, batches, SETTINGS, tmp_path, resume=True)
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(TrainError, match=r"checkpoint.safetensors cannot be read \(.*\); start anew"):
        fit(model(), batches, SETTINGS, tmp_path, resume=True)


def test_a_disk_that_fails_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    first, second = model(), model(smoothing=0.1)
    save_weights(tmp_path / "weights.safetensors", first)

    def full(tensors, path, metadata=None):
        path.write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tagsmith.train.checkpoint.save_file", full)
    with pytest.raises(OutputError, match="No space left on device; free some space"):
        save_weights(tmp_path / "weights.safetensors", second)
    load_weights(tmp_path / "weights.safetensors", second)
    assert_same(weights_of(second), weights_of(first))
    assert [path.name for path in tmp_path.iterdir()] == ["weights.safetensors"]


def test_patience_ends_a_run_and_the_best_weights_win(batches, tmp_path):
    seen = []

    def evaluate(trained):
        seen.append(weights_of(trained))
        return {"f1@1": [0.1, 0.5, 0.3, 0.5, 0.9][len(seen) - 1]}

    trained = model()
    settings = replace(SETTINGS, steps=20, evaluate_every=2, patience=2, plateau=0.5)
    progress = fit(trained, batches, settings, tmp_path, evaluate=evaluate)
    assert (progress.step, progress.best_step, progress.best) == (8, 4, 0.5)
    assert progress.damping == 0.25  # halved at each evaluation that was no better
    assert_same(weights_of(trained), seen[1])


def test_a_small_change_lowers_the_rate_and_asks_for_a_smaller_one(batches, tmp_path):
    values = iter([0.5, 0.504, 0.508, 0.512, 0.8, 0.80001])
    settings = replace(
        SETTINGS, steps=12, evaluate_every=2, optimiser="nesterov", plateau=0.5, plateau_change=0.01, learning_rate=0.1
    )
    progress = fit(model(), batches, settings, tmp_path, evaluate=lambda trained: {"f1@1": next(values)})
    # 0.8 % is below 1 %, but not below 0.5 %; neither are the next two; 0.001 % is
    assert (progress.damping, progress.lowered) == (0.25, 2)
    assert progress.best == 0.80001


def test_nesterov_takes_the_steps_of_its_formula(tmp_path):
    settings = TrainSettings(
        steps=3, optimiser="nesterov", betas=(0.9, 0.0), schedule="constant", warmup=0.0, learning_rate=0.1, clip=1e9
    )
    line, slope, velocity = Line(), 0.5, 0.0
    fit(line, Given(*points(1.0, 2.0, 3.0)), replace(settings, weight_decay=0.0), tmp_path)
    for x in (1.0, 2.0, 3.0):
        gradient = 2 * slope * x * x
        velocity = 0.9 * velocity + gradient
        slope -= 0.1 * (gradient + 0.9 * velocity)
    assert line.slope.item() == pytest.approx(slope, rel=1e-4)


def test_a_metric_that_is_not_measured_is_an_error(batches, tmp_path):
    with pytest.raises(TrainError, match=r"the metric 'f2' is not among \['f1@1'\]; set train.metric"):
        fit(model(), batches, replace(SETTINGS, metric="f2"), tmp_path, evaluate=Rising())


def test_the_best_weights_of_an_older_run_are_not_taken(batches, tmp_path):
    fit(model(), batches, SETTINGS, tmp_path, evaluate=Rising())
    alone, again = model(), model()
    fit(alone, batches, replace(SETTINGS, seed=5), tmp_path / "new")
    fit(again, batches, replace(SETTINGS, seed=5), tmp_path)
    assert_same(weights_of(again), weights_of(alone))


class Given:
    """A list of steps, the same every epoch."""

    def __init__(self, *given) -> None:
        self.given = given

    def shard(self, rank, world):
        return self

    def steps(self, epoch):
        return len(self.given)

    def epoch(self, number, *, skip=0):
        yield from self.given[skip:]


def first_moments(folder) -> dict[str, Tensor]:
    """The gradient of a run of one step, up to a factor."""
    with safe_open(folder / "checkpoint.safetensors", framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys() if name.endswith("exp_avg")}  # noqa: SIM118


def test_two_half_batches_make_the_step_of_a_whole_one(tmp_path):
    whole = random_batch(4)
    whole = whole._replace(target=whole.target[:1].repeat(4, 1), target_lengths=whole.target_lengths[:1].repeat(4))
    halves = [type(whole)(*(part[rows] for part in whole)) for rows in ([0, 1], [2, 3])]
    settings = replace(SETTINGS, steps=1)
    fit(model(dropout=0.0), Given([whole]), settings, tmp_path / "whole")
    fit(model(dropout=0.0), Given(halves), settings, tmp_path / "halves")
    one, two = first_moments(tmp_path / "whole"), first_moments(tmp_path / "halves")
    assert max(value.abs().max() for value in one.values()) > 1e-3
    for name in one:
        assert_close(two[name], one[name], atol=1e-6, rtol=1e-3)


class Points(NamedTuple):
    """A batch of the smallest model there is."""

    x: Tensor

    def to(self, device):
        return self


class Line(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor([[0.5]]))

    def loss(self, batch: Points) -> Tensor:
        return (self.slope * batch.x).square().mean()


def points(*values: float) -> list[list[Points]]:
    return [[Points(torch.tensor([value]))] for value in values]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_step_without_a_finite_gradient_is_left_out(tmp_path, bad):
    settings = TrainSettings(steps=4, schedule="constant", learning_rate=0.1, warmup=0.0, log_every=1)
    broken, plain = Line(), Line()
    fit(broken, Given(*points(1.0, bad, 2.0, 3.0)), settings, tmp_path / "broken")
    fit(plain, Given(*points(1.0, 2.0, 3.0)), replace(settings, steps=3), tmp_path / "plain")
    assert_same(weights_of(broken), weights_of(plain))
    assert all(torch.tensor(row["loss"]).isfinite() for row in logged(tmp_path / "broken"))
    assert logged(tmp_path / "broken")[-1]["skipped"] == 1


def test_too_many_steps_without_a_gradient_end_the_run(tmp_path):
    settings = TrainSettings(steps=100, log_every=1)
    with pytest.raises(TrainError, match="21 of 21 steps had no finite gradient; lower the learning rate"):
        fit(Line(), Given(*points(float("nan"))), settings, tmp_path)


@pytest.mark.filterwarnings("ignore:The .grad attribute", "ignore:Guards may run slower")  # torch's, while it traces
def test_compiled_parts_learn_the_same_and_are_plain_again_afterwards(batches, tmp_path, monkeypatch):
    compiled = []

    def with_tracing(part, **options):
        compiled.append(part)
        return real(part, backend="eager", **options)  # traced and run as graphs, without a C++ compiler

    real = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", with_tracing)
    settings = replace(SETTINGS, steps=3)
    quick, plain = model(dropout=0.0), model(dropout=0.0)
    fit(plain, batches, settings, tmp_path / "plain")
    assert not compiled
    fit(quick, batches, replace(settings, compile=True), tmp_path / "quick", evaluate=Rising())
    assert len(compiled) == 3
    assert all(part._compiled_call_impl is None for part in quick.modules())
    losses = [[row["loss"] for row in logged(tmp_path / name) if "loss" in row] for name in ("plain", "quick")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


def test_the_loss_is_drawn(tmp_path, tiny_run):
    assert (tiny_run / "loss.png").read_bytes().startswith(PNG)
    (tmp_path / "metrics.jsonl").write_text("")
    plot_losses(tmp_path / "metrics.jsonl", tmp_path / "empty.png")
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 1, "dev_f1@1": 0.1}\n')
    plot_losses(tmp_path / "metrics.jsonl", tmp_path / "short.png")
    assert (tmp_path / "short.png").read_bytes().startswith(PNG)
    assert (tmp_path / "short.png").read_bytes() != (tmp_path / "empty.png").read_bytes()


TWO = """
import sys
from pathlib import Path
from accelerate import PartialState
from tagsmith.recipe import finish as recipe
from tagsmith.cli import main
from tagsmith.train.checkpoint import save_weights

folder, seen, measure = Path(sys.argv.pop(1)), [], recipe.evaluate_tagger

def watched(tagger, posts):
    seen.append(posts)
    save_weights(folder / f"{PartialState().process_index}-{len(seen)}.safetensors", tagger.finder.model)
    return measure(tagger, posts)

recipe.evaluate_tagger = watched
main()
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_two_processes_train_one_model_and_write_it_once(tiny_recipe, tmp_path):
    script, out, seen = tmp_path / "two.py", tmp_path / "out", tmp_path / "seen"
    script.write_text(TWO)
    seen.mkdir()
    changes = ["train.steps=4", "train.evaluate_every=2", "train.log_every=1", "model.copy=true", "model.dropout=0.2"]
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", str(free_port())),
        *(str(script), str(seen), "train", str(tiny_recipe), "--out", str(out)),
        *(part for change in changes for part in ("--set", change)),
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"bundle": str(out / "bundle")}]
    # each has looked twice, the first once more at the end; both always saw the same weights
    names = ["0-1", "0-2", "0-3", "1-1", "1-2"]
    saved = {name: (seen / f"{name}.safetensors").read_bytes() for name in names}
    assert sorted(path.stem for path in seen.iterdir()) == names
    assert saved["0-1"] == saved["1-1"]
    assert saved["0-2"] == saved["1-2"]
    assert saved["0-1"] != saved["0-2"]
    assert load_bundle(out / "bundle").name == "tiny"
    assert [row["step"] for row in logged(out) if "loss" in row] == [1, 2, 3, 4]
    assert not [path for path in out.rglob("*") if path.name.startswith(".") or path.suffix == ".part"]
