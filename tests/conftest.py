"""Shared by all tests: the battery is importable, torch keeps to one thread so that runs repeat, and a tiny model.

The tiny model is trained once a session, by the same `make` as every shipped one, from posts written here.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(1)

TOPICS = {
    "Coffee": ("a flat white", "the barista", "fresh beans"),
    "MorningRun": ("ten slow miles", "my running shoes", "the park loop"),
    "ClimateAction": ("the climate march", "clean energy jobs", "rising seas"),
    "Ramen": ("a bowl of noodles", "the broth", "a tiny shop in Tokyo"),
    "OpenSource": ("the new release", "a pull request", "my first patch"),
    "GardenLife": ("the tomatoes", "a bee hotel", "wet soil"),
    "Chess": ("a rook ending", "the club night", "my worst opening"),
    "NightSky": ("the comet", "a cheap telescope", "jupiter and its moons"),
    "BookClub": ("the last chapter", "a long novel", "our next pick"),
    "Cycling": ("a flat tyre", "the new bike lane", "headwind all day"),
    "IndieFilm": ("the short film", "a quiet ending", "the film festival"),
    "MentalHealth": ("a day off", "a talk with a friend", "the long walk"),
}
FRAMES = ("so happy about {} today", "cannot stop thinking of {}", "does anyone else love {}?", "{} made my week!")
CHINESE = {
    "美食": ("今天的火锅太好吃了", "这家小店的面条很香", "周末一起去吃火锅吧"),
    "旅行": ("第一次看到大海", "周末去山里走走", "火车上的风景真美"),
    "足球": ("昨晚的比赛太精彩了", "这个进球太漂亮了", "周末一起看比赛吧"),
}
RECIPE = """
name = "tiny"

[data]
root = {root}
train = ["posts.jsonl"]
dev = ["posts.jsonl"]

[tokeniser]
size = 400

[model]
width = 32
heads = 2
inner = 64
encoder_layers = 1
decoder_layers = 1
longest = 64
segment_size = 4
top = 3
gradient = "scale"
dropout = 0.0

[batches]
tokens = 512
source = 64
target = 16
targets = "one"

[train]
steps = 240
learning_rate = 1e-2
evaluate_every = 120
log_every = 40

[pipeline]
listing = "one"
beam = 4
steps = 8
source = 64
"""


RANK_RECIPE = """
name = "tiny-rank"
task = "rank"

[data]
root = {root}
train = ["posts.jsonl"]
dev = ["posts.jsonl"]

[tokeniser]
size = 400

[model]
name = "quick"
width = 24
heads = 2
inner = 48
pairs = 256
longest = 64
dropout = 0.0

[batches]
tokens = 1152
source = 64
target = 8
targets = "one"

[train]
steps = 200
learning_rate = 1e-2
evaluate_every = 100
log_every = 40
metric = "p@1"

[pipeline]
source = 64
"""


def sample_rows() -> list[dict[str, object]]:
    """Sixty posts of one topic each, a few of them Chinese."""
    english = [
        (frame.format(thing), [topic, "Daily"] if place == 0 else [topic])
        for topic, things in TOPICS.items()
        for place, (frame, thing) in enumerate(zip(FRAMES, (*things, things[0]), strict=True))
    ]
    chinese = [(text, [topic]) for topic, texts in CHINESE.items() for text in (*texts, f"{topic}：{texts[0]}")]
    return [{"id": number, "text": text, "hashtags": tags} for number, (text, tags) in enumerate([*english, *chinese])]


def write_rows(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny_recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe with its posts beside it; a run takes a second or two."""
    folder = tmp_path_factory.mktemp("recipe")
    write_rows(folder / "posts.jsonl", sample_rows())
    recipe = folder / "tiny.toml"
    recipe.write_text(RECIPE.format(root=json.dumps(str(folder))), encoding="utf-8")
    return recipe


@pytest.fixture(scope="session")
def tiny_run(tiny_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a whole training run."""
    from tagsmith.recipe import make, read_recipe

    folder = tmp_path_factory.mktemp("run")
    make(read_recipe(tiny_recipe), folder)
    return folder


@pytest.fixture(scope="session")
def tiny_bundle(tiny_run: Path) -> Path:
    """A trained model as a folder; tests that change it copy it first."""
    return tiny_run / "bundle"


@pytest.fixture(scope="session")
def rank_bundle(tiny_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model that ranks known tags; tests that change it copy it first."""
    from tagsmith.recipe import make, read_recipe

    recipe = tiny_recipe.with_name("tiny-rank.toml")
    recipe.write_text(RANK_RECIPE.format(root=json.dumps(str(tiny_recipe.parent))), encoding="utf-8")
    return make(read_recipe(recipe), tmp_path_factory.mktemp("rank"))


@pytest.fixture
def shipped(tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with two models inside, both the tiny one."""
    for name in ("hashtag-en", "hashtag-zh"):
        shutil.copytree(tiny_bundle, tmp_path / "bundles" / name)
    monkeypatch.setattr("tagsmith.bundle.SHIPPED", tmp_path / "bundles")
    return tmp_path / "bundles"
