"""What CONTRIBUTING says holds: its table of layers is the one that is tested, and its model can be added and used."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from test_layers import LAYERS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(kind: str) -> str:
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    return found


def test_the_layers_of_the_page_are_those_that_are_held():
    rows = re.findall(r"^\| (\d) \| (.*) \|$", PAGE, flags=re.MULTILINE)
    known = {name for names in LAYERS for name in names}
    told = [{name for name in re.findall(r"`(\w+)`", text) if name in known} for _, text in rows]
    assert told == [set(names) for names in LAYERS]


@pytest.fixture
def bag(tmp_path, monkeypatch):
    """The first move: the page's model in a module of its own, and its line in the catalogue."""
    (tmp_path / "bag_of_the_page.py").write_text(block("python"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(importlib.import_module("tagsmith.models").CATALOG, "bag", "bag_of_the_page:Bag")
    yield tmp_path
    sys.modules.pop("bag_of_the_page", None)


def test_the_model_of_the_page_is_trained_by_its_recipe_and_tags(bag, run_cli):
    (bag / "bag.toml").write_text(block("toml"), encoding="utf-8")
    done = run_cli("train", bag / "bag.toml", "--out", bag / "run", "--set", f"data.root={ROOT}")
    assert done.code == 0, done.err
    bundle = done.rows[0]["bundle"]
    (row,) = run_cli("tag", "--model", bundle, "Photo of the day: the leaf mould heap").rows
    assert row["tags"][0]["text"] == "Compost"
    (scores,) = run_cli("evaluate", bundle, ROOT / "docs" / "tour-posts.csv", "--limit", 60).rows
    assert scores["p@1"] > 0.8
    assert run_cli("embed", "--model", bundle, "the leaf mould heap").code == 0
