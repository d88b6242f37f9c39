"""Settings are strict, and every recipe that comes with Tagsmith can be built."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch

from tagsmith.config import from_dict, nearest, read_toml, set_values, to_dict
from tagsmith.errors import ConfigError, TagsmithError
from tagsmith.models import find_model
from tagsmith.recipe import Recipe, job_of, read_recipe
from tagsmith.recipe.settings import lying_there
from tagsmith.text.terms import Terms

RECIPES = sorted((Path(__file__).parent.parent / "recipes").rglob("*.toml"))


@dataclass(frozen=True)
class Inner:
    size: int = 3
    name: str = "x"


@dataclass(frozen=True)
class Outer:
    width: int
    rate: float = 0.1
    kind: Literal["soft", "hard"] = "soft"
    copy: bool = False
    files: tuple[str, ...] = ()
    pair: tuple[float, float] = (0.9, 0.99)
    inner: Inner = field(default_factory=Inner)
    free: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    maybe: int | None = None


def test_settings_come_back_from_their_dictionary():
    made = from_dict(
        Outer,
        {"width": 4, "rate": 1, "files": ["a", "b"], "inner": {"size": 5}, "free": {"a": [1]}, "maybe": 7},
    )
    assert made == Outer(4, rate=1.0, files=("a", "b"), inner=Inner(5), free={"a": [1]}, maybe=7)
    assert isinstance(made.rate, float)
    assert from_dict(Outer, to_dict(made)) == made
    assert from_dict(Outer, {"width": 4, "maybe": None}).maybe is None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"widht": 4}, "Outer has no setting 'widht'; did you mean 'width'?"),
        ({"zzz": 4}, "Outer has no setting 'zzz'; known: copy, files, free"),
        ({}, "Outer needs the setting 'width'; it was not given"),
        ({"width": "4"}, "Outer.width must be of type int, not '4'"),
        ({"width": 4.0}, "Outer.width must be of type int, not 4.0"),
        ({"width": True}, "Outer.width must be of type int, not True"),
        ({"width": 4, "rate": True}, "Outer.rate must be of type float, not True"),
        ({"width": 4, "copy": 1}, "Outer.copy must be of type bool, not 1"),
        ({"width": 4, "kind": "sofd"}, "Outer.kind must be one of 'soft', 'hard', not 'sofd'"),
        ({"width": 4, "files": "a.csv"}, "Outer.files must be a list, not 'a.csv'"),
        ({"width": 4, "files": [1]}, "Outer.files must be of type str, not 1"),
        ({"width": 4, "pair": [0.9]}, "Outer.pair must have 2 values, not 1"),
        ({"width": 4, "inner": 3}, "Outer.inner is a section of settings, not 3"),
        ({"width": 4, "inner": {"sise": 3}}, "Inner has no setting 'sise'; did you mean 'size'?"),
        ({"width": 4, "inner": {"size": "3"}}, "Inner.size must be of type int, not '3'"),
        ({"width": 4, "free": 5}, "Outer.free is a section of settings, not 5"),
        ({"width": 4, "names": {"text": 5}}, "Outer.names.text must be of type str, not 5"),
    ],
)
def test_what_does_not_fit_is_an_error_that_says_so(values, words):
    with pytest.raises(ConfigError) as caught:
        from_dict(Outer, values)
    assert str(caught.value).startswith(words)


def test_the_nearest_word_is_named_or_all_of_them():
    assert nearest("hashtag-ne", ["hashtag-en", "hashtag-zh"]) == "did you mean 'hashtag-en'?"
    assert nearest("qqq", ["a", "b"]) == "known: a, b"


def test_changes_are_read_as_toml_or_else_as_text():
    values = {"name": "old", "train": {"epochs": 3, "deep": {"x": 1}}}
    changes = ["train.epochs=5", "train.rate=1e-3", "name=new one", "train.on=true", "data.train=['a', 'b']"]
    made = set_values(values, [*changes, "train.deep.x=2", "start=runs/a=b"])
    assert made == {
        "name": "new one",
        "train": {"epochs": 5, "rate": 1e-3, "on": True, "deep": {"x": 2}},
        "data": {"train": ["a", "b"]},
        "start": "runs/a=b",
    }
    assert values == {"name": "old", "train": {"epochs": 3, "deep": {"x": 1}}}  # as it was


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("train.epochs", "--set takes section.key=value, not 'train.epochs'"),
        ("=5", "--set takes section.key=value, not '=5'"),
        ("name.first=5", "'name' is a value, not a section"),
    ],
)
def test_a_change_that_cannot_be_is_an_error(change, words):
    with pytest.raises(ConfigError, match=words):
        set_values({"name": "old"}, [change])


def test_a_recipe_that_cannot_be_read_says_why(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no recipe .*none.toml"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_toml(tmp_path)
    for content in (b"name = ", b"\xff\xfe"):
        (tmp_path / "bad.toml").write_bytes(content)
        with pytest.raises(ConfigError, match=r"bad.toml is not TOML: "):
            read_toml(tmp_path / "bad.toml")


def test_a_recipe_begins_with_its_base(tmp_path):
    (tmp_path / "base.toml").write_text('name = "base"\n[data]\ntrain = ["a"]\ndev = ["b"]\n[model]\nwidth = 8\n')
    (tmp_path / "own.toml").write_text('base = "base.toml"\nname = "own"\n[data]\ntrain = ["c"]\n[model]\ntop = 2\n')
    recipe = read_recipe(tmp_path / "own.toml", ["model.top=3"])
    assert (recipe.name, recipe.data.train, recipe.data.dev) == ("own", ("c",), ("b",))
    assert recipe.model == {"width": 8, "top": 3}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("trian.epochs=3", "Recipe has no setting 'trian'; did you mean 'train'?"),
        ("train.epoch=3", "TrainSettings has no setting 'epoch'; did you mean 'epochs'?"),
        ("batches.parts=0", "BatchSettings.parts must be at least 1, not 0"),
        ("batches.target=0", "BatchSettings.target must be at least 1, not 0"),
        ("pipeline.beam=0", "TagSettings.beam must be at least 1, not 0"),
        ("data.dev_posts=0", "DataSettings.dev_posts must be at least 1, not 0"),
        ("model=5", "Recipe.model is a section of settings, not 5"),
    ],
)
def test_a_recipe_is_strict(tiny_recipe, change, words):
    with pytest.raises(ConfigError) as caught:
        read_recipe(tiny_recipe, [change])
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("model.widht=8", "SegTrmConfig has no setting 'widht'; did you mean 'width'?"),
        ("model.heads=0", "SegTrmConfig.heads must be at least 1, not 0"),
        ("model.heads=5", "width 32 is not a multiple of heads 5"),
        ("model.name=segtrn", "there is no model 'segtrn'; did you mean 'segtrm'?"),
        ("batches.source=65", "batches.source is 65, the model has 64 places; lower it or raise model.longest"),
        ("pipeline.steps=99", "pipeline.steps is 99, the model has 64 places"),
        ("start=nowhere", "there is no model or folder 'nowhere'; "),
    ],
)
def test_a_model_that_cannot_be_built_says_why(tiny_recipe, change, words):
    job = job_of(read_recipe(tiny_recipe, [change]))
    job.pieces = SimpleNamespace(size=400)
    with pytest.raises(TagsmithError) as caught:
        job.build()
    assert str(caught.value).startswith(words)


def test_there_are_recipes():
    assert {"hashtag-en", "hashtag-zh"} <= {path.stem for path in RECIPES}


@pytest.mark.parametrize("path", [one for one in RECIPES if one.parent.name != "reader"], ids=lambda path: path.stem)
def test_every_recipe_reads_and_its_model_can_be_built(path):
    recipe = read_recipe(path)
    assert recipe.name == path.stem
    assert from_dict(Recipe, to_dict(recipe)) == recipe
    job = job_of(replace(recipe, backbone=""))
    job.pieces = job.tokeniser = SimpleNamespace(size=recipe.tokeniser.size)
    if recipe.task == "keyphrase":
        job.tokeniser = Terms.count(["a few words"], 50, extra=recipe.tokeniser.extra)
    job.labels = ["a", "b"]
    with torch.device("meta"):
        model = job.build()
    assert isinstance(model, find_model(recipe.model["name"]))
    learned = recipe.pipeline.get("listing", "one")  # what was learned is what is searched for
    if recipe.task == "keyphrase":
        learned = "closed" if recipe.pipeline.get("kinds", True) else "all"
    assert recipe.batches.targets == learned


def test_a_file_is_found_under_another_packing(tmp_path):
    named = tmp_path / "rows.jsonl.zst"
    assert lying_there(named) == named
    (tmp_path / "rows.jsonl.gz").write_bytes(b"")
    assert lying_there(named) == tmp_path / "rows.jsonl.gz"
    (tmp_path / "rows.jsonl").write_bytes(b"")
    assert lying_there(named) == tmp_path / "rows.jsonl"
    named.write_bytes(b"")
    assert lying_there(named) == named
