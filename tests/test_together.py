"""Readers trained together on one Transformer: how their batches mix, what each learns, what they share."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from conftest import READER_RECIPE, sample_documents, sample_labelled, sample_questions, write_rows
from tagsmith.bundle import load_bundle
from tagsmith.config import from_dict, to_dict
from tagsmith.data.batches import BatchSettings
from tagsmith.data.reading import Example, ReadBatches, Reading
from tagsmith.errors import ConfigError
from tagsmith.pipelines.evaluate_reading import evaluate_reader
from tagsmith.pipelines.load import load
from tagsmith.recipe import make, read_recipe
from tagsmith.recipe.settings import Recipe
from tagsmith.recipe.together import Mixed
from tagsmith.records import document_of, labelled_of
from tagsmith.train.optimiser import weight_groups

ROWS = {"extract": sample_documents(), "classify": sample_labelled(), "answer": sample_questions()}
METRICS = {"extract": "span_f1", "classify": "accuracy", "answer": "f1"}
TOGETHER = """
name = "tiny-readers"
task = "read"
parts = ["extract.toml", "classify.toml", "answer.toml"]
weigh = [0.2, 1.0, 1.0]

[data]
root = {root}

[tokeniser]
size = 400

[train]
epochs = 1
evaluate_every = 60
checkpoints = false
learning_rate = 1e-2
reader_rate = 0.5
metric = "mean"
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    root = json.dumps(str(folder))
    for task, rows in ROWS.items():
        write_rows(folder / f"{task}.jsonl", rows)
        text = READER_RECIPE.format(task=task, root='"elsewhere"', steps=60, metric=METRICS[task])
        (folder / f"{task}.toml").write_text(text.replace("steps = 60", "epochs = 120", 1), encoding="utf-8")
    (folder / "all.toml").write_text(TOGETHER.format(root=root), encoding="utf-8")
    return folder / "all.toml"


@pytest.fixture(scope="module")
def bundles(recipe):
    return make(read_recipe(recipe), recipe.parent / "run")


def test_a_recipe_may_have_parts(recipe):
    read = read_recipe(recipe, ["train.epochs=2"])
    assert [part.task for part in read.parts] == ["extract", "classify", "answer"]
    assert from_dict(Recipe, to_dict(read)) == read
    with pytest.raises(ConfigError, match="`weigh`, if given, has a number for each"):
        read_recipe(recipe, ["weigh=[1.0]"])
    with pytest.raises(ConfigError, match="a recipe with parts has the task 'read'"):
        read_recipe(recipe, ["task=classify"])


def test_all_parts_are_learned_and_share_their_reader(bundles):
    extractor, labeller = load(bundles / "tiny-extract"), load(bundles / "tiny-classify")
    assert extractor.model.reader is labeller.model.reader is load(bundles / "tiny-answer").model.reader
    assert evaluate_reader(extractor, map(document_of, ROWS["extract"]))["span_f1"] > 0.7
    assert evaluate_reader(labeller, map(labelled_of, ROWS["classify"]))["accuracy"] > 0.7
    alone = load_bundle(bundles / "tiny-extract", dtype=torch.float32).model.state_dict()
    assert not (bundles / "tiny-answer" / "tokeniser.json").exists()
    assert any(name.startswith("reader.") for name in alone)
    lines = [json.loads(line) for line in (bundles.parent / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if "dev_mean" in line][-1]
    parts = [last[f"dev_tiny-{task}_{metric}"] for task, metric in METRICS.items()]
    assert last["dev_mean"] == pytest.approx(sum(parts) / 3)
    assert not (bundles.parent / "checkpoint.safetensors").exists()


def test_parts_must_have_the_same_reader(recipe, tmp_path):
    other = from_dict(Recipe, to_dict(read_recipe(recipe)))
    other.parts[1].model["inner"] = 32
    with pytest.raises(
        ConfigError, match=r"tiny-classify has another reader than the first part: model\.inner differs"
    ):
        make(other, tmp_path / "run")


def test_the_command_line_names_the_models(run_cli, recipe, tmp_path):
    changes = ["train.steps=2", "train.evaluate_every=2"]
    result = run_cli("train", recipe, "--out", tmp_path / "out", *(word for one in changes for word in ("--set", one)))
    assert result.code == 0, result.err
    assert "the models are in" in result.err
    assert "tiny-extract, tiny-classify, tiny-answer" in result.err
    said = run_cli("classify", "--model", tmp_path / "out" / "bundle" / "tiny-classify", "fresh beans")
    assert said.rows[0]["labels"]


# how batches mix


def source(count: int, rows: int) -> ReadBatches:
    reading = Reading.pack([Example([4, number + 6, 3], 1, [1], [0]) for number in range(count)])
    return ReadBatches(reading, BatchSettings(tokens=rows * 3, source=3))


def test_every_part_is_seen_as_often_as_its_epochs_say():
    mixed = Mixed([source(10, 2), source(4, 2)], [1, 2])
    assert mixed.steps(0) == 5
    steps = list(mixed.epoch(0))
    counts = [[len(batch.which) for batch in step] for step in steps]
    assert counts == [[0], [0, 1], [0, 1], [0, 1], [0, 1]]
    for place, (count, times) in enumerate([(10, 1), (4, 2)]):
        seen = torch.cat([batch.ids[:, 1] for step in steps for batch in step if len(batch.which) == place])
        assert sorted((seen - 6).tolist()) == sorted([*range(count)] * times)
    again = list(mixed.epoch(0, skip=3))
    assert [len(one) for one in again] == [2, 2]
    assert torch.equal(again[0][1].ids, steps[3][1].ids)
    assert np.prod([len(one) for one in mixed.shard(1, 2).sources[0].plan(0)]) > 0


def test_the_reader_may_learn_more_slowly():
    model = torch.nn.ModuleDict({"reader": torch.nn.Linear(2, 2), "head": torch.nn.Linear(2, 2)})
    groups = weight_groups(model, 0.1, {"reader": 0.5, "sum_up": 0.2})
    assert [(len(one["params"]), one["weight_decay"], one["factor"]) for one in groups] == [
        *[(1, 0.1, 1.0), (1, 0.0, 1.0)],
        *[(1, 0.1, 0.5), (1, 0.0, 0.5)],
    ]
    assert groups[2]["params"][0] is model["reader"].weight
    assert [len(one["params"]) for one in weight_groups(model, 0.1)] == [2, 2]
