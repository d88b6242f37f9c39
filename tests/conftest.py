"""Shared by all tests: the battery is importable, torch keeps to one thread so that runs repeat, and a tiny model.

The tiny model is trained once a session, by the same `make` as every shipped one, from posts written here.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(1)

NO_BROWSER = "needs Chromium: `apt-get install chromium`, or name one with TAGSMITH_CHROMIUM=/path/to/it"


def find_chromium() -> str | None:
    """The browser of this machine, if it has one."""
    named = os.environ.get("TAGSMITH_CHROMIUM")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return named or next((path for name in names if (path := shutil.which(name))), None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items) -> None:
    """Of several test processes each takes whole files, since their fixtures are dear; Ray clusters would meet."""
    for item in items:
        uses_ray = hasattr(item.module, "ray_environment")
        item.add_marker(pytest.mark.xdist_group("ray" if uses_ray else item.path.stem))


def pytest_terminal_summary(terminalreporter) -> None:
    """Tests of the page that did not run are told loudly: a dot less is easily missed."""
    left_out = [report for report in terminalreporter.getreports("skipped") if NO_BROWSER in str(report.longrepr)]
    if left_out:
        terminalreporter.write_sep("!", f"NOT RUN: {len(left_out)} tests of the page", red=True, bold=True)
        terminalreporter.write_line(f"The page was not tested: it {NO_BROWSER}.")


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


KEYPHRASE_RECIPE = """
name = "tiny-keyphrase"
task = "keyphrase"

[data]
root = {root}
train = ["documents.jsonl"]
dev = ["documents.jsonl"]

[tokeniser]
kind = "terms"
size = 160
extra = 20

[model]
name = "keyphrase"
width = 32
heads = 2
inner = 64
reader_layers = 1
writer_layers = 1
longest = 64
dropout = 0.0

[batches]
tokens = 2048
source = 64
target = 24
targets = "closed"

[train]
steps = 150
learning_rate = 1e-2
evaluate_every = 75
log_every = 40
metric = "present_f1@M"

[pipeline]
source = 64
steps = 24
"""


SLOTS_RECIPE = """
name = "tiny-slots"
task = "keyphrase"

[data]
root = {root}
train = ["documents.jsonl"]
dev = ["documents.jsonl"]

[tokeniser]
size = 400

[model]
name = "slots"
width = 32
heads = 2
inner = 64
reader_layers = 1
writer_layers = 1
longest = 64
slots = 6
words = 12
dropout = 0.0

[batches]
tokens = 2048
source = 64
target = 24
targets = "closed"

[train]
steps = 200
learning_rate = 1e-2
evaluate_every = 100
log_every = 40
metric = "present_f1@5"

[pipeline]
source = 64
top = 5
"""


REPLY_RECIPE = """
name = "tiny-reply"
task = "reply"

[data]
root = {root}
train = ["pairs.jsonl"]
dev = ["pairs.jsonl"]

[tokeniser]
size = 400

[model]
name = "relevance"
width = 32
heads = 2
inner = 64
layers = 2
longest = 96
dropout = 0.0
tied = true

[batches]
tokens = 1536
source = 32
target = 24
targets = "one"

[train]
steps = 160
learning_rate = 1e-2
evaluate_every = 80
log_every = 40
metric = "loss"

[pipeline]
source = 32
steps = 24
"""


def sample_pairs() -> list[dict[str, object]]:
    """Queries about the topics, two responses each."""
    return [
        {
            "id": number,
            "query": frame.format(thing),
            "responses": [f"I love {thing} too!", f"tell me more about {thing}, I like {topic.lower()}."],
        }
        for number, (topic, thing, frame) in enumerate(
            (topic, thing, frame)
            for topic, things in TOPICS.items()
            for thing, frame in zip(things, FRAMES, strict=False)
        )
    ]


READER_RECIPE = """
name = "tiny-{task}"
task = "{task}"

[data]
root = {root}
train = ["{task}.jsonl"]
dev = ["{task}.jsonl"]

[tokeniser]
size = 400

[model]
name = "hypernet"
width = 32
heads = 2
inner = 64
reader_layers = 1
hidden = 16
code = 4
pool = "max"
dropout = 0.0

[batches]
tokens = 1536
source = 48

[train]
steps = {steps}
learning_rate = 1e-2
evaluate_every = {steps}
log_every = 40
metric = "{metric}"

[pipeline]
source = 48
meta = 16
overlap = 12
"""


def sample_labelled() -> list[dict[str, object]]:
    """Texts of a few topics, with titles; the label is the topic."""
    topics = list(TOPICS.items())[:4]
    return [
        {
            "id": f"{label}-{place}",
            "title": f"About {things[place]}",
            "body": frame.format(things[place]),
            "label": label,
        }
        for label, things in topics
        for place, frame in enumerate(FRAMES[:3])
    ]


def sample_questions() -> list[dict[str, object]]:
    """Passages that tell who likes what; some questions are about somebody they do not name."""
    rows: list[dict[str, object]] = []
    names = ("Ada", "Ben", "Cleo", "Dan")
    things = [thing for some in list(TOPICS.values())[:4] for thing in some]
    for number in range(16):
        one, two = names[number % 4], names[(number + 1) % 4]
        first, second = things[number % 12], things[(number + 5) % 12]
        context = f"{one} loves {first}. {two} hates {second}."
        rows.append(
            {
                "id": number,
                "question": f"What does {one} love?",
                "context": context,
                "answers": [{"text": first, "start": context.index(first)}],
                "is_impossible": False,
            }
        )
        if number % 2:
            other = names[(number + 2) % 4]
            asked = f"What does {other} love?"
            rows.append(
                {"id": f"{number}-no", "question": asked, "context": context, "answers": [], "is_impossible": True}
            )
    return rows


def sample_documents() -> list[dict[str, object]]:
    """Documents on the same topics: what they are about stands in them, the topic itself does not."""
    rows = []
    for number, (topic, things) in enumerate(TOPICS.items()):
        for place, frame in enumerate(FRAMES[:3]):
            bare = [thing.removeprefix("a ").removeprefix("the ") for thing in things]
            rows.append(
                {
                    "id": 3 * number + place,
                    "title": f"A study of {bare[place]}",
                    "abstract": frame.format(things[place]) + f" We look at {bare[(place + 1) % 3]} in 2 places.",
                    "keyphrases": [bare[place], bare[(place + 1) % 3], f"{topic} research"],
                }
            )
    return rows


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


def ray_environment() -> dict[str, str]:
    """For processes that start a Ray cluster: it calls nobody, and its token is not kept in anybody's home."""
    own = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_TOKEN": secrets.token_hex(32), "OMP_NUM_THREADS": "1"}
    return {**os.environ, **own}


class Result(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def rows(self):
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def run_cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """The entry point in this process."""
    from tagsmith.cli import main

    monkeypatch.setenv("TERM", "dumb")  # no colours between the words

    def go(*words, stdin: bytes = b"", terminal: bool = False) -> Result:
        monkeypatch.setattr(sys, "argv", ["tagsmith", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
        with pytest.raises(SystemExit) as caught:
            main()
        return Result(caught.value.code, *capsys.readouterr())

    return go


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


def _documents_bundle(recipe_text: str, folder: Path) -> Path:
    from tagsmith.recipe import make, read_recipe

    write_rows(folder / "documents.jsonl", sample_documents())
    recipe = folder / "recipe.toml"
    recipe.write_text(recipe_text.format(root=json.dumps(str(folder))), encoding="utf-8")
    return make(read_recipe(recipe), folder / "run")


@pytest.fixture(scope="session")
def keyphrase_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model that writes keyphrases one after the other, with words of the text that it does not know."""
    return _documents_bundle(KEYPHRASE_RECIPE, tmp_path_factory.mktemp("keyphrase"))


@pytest.fixture(scope="session")
def slots_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model that writes keyphrases side by side, in sub-words."""
    return _documents_bundle(SLOTS_RECIPE, tmp_path_factory.mktemp("slots"))


def _reader_bundle(task: str, folder: Path, rows: list[dict[str, object]], *, steps: int, metric: str) -> Path:
    from tagsmith.recipe import make, read_recipe

    write_rows(folder / f"{task}.jsonl", rows)
    recipe = folder / f"{task}.toml"
    text = READER_RECIPE.format(task=task, root=json.dumps(str(folder)), steps=steps, metric=metric)
    recipe.write_text(text, encoding="utf-8")
    return make(read_recipe(recipe), folder / "run")


@pytest.fixture(scope="session")
def classify_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model that files texts under labels."""
    folder = tmp_path_factory.mktemp("classify")
    return _reader_bundle("classify", folder, sample_labelled(), steps=60, metric="accuracy")


@pytest.fixture(scope="session")
def answer_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model that answers questions."""
    return _reader_bundle("answer", tmp_path_factory.mktemp("answer"), sample_questions(), steps=150, metric="f1")


@pytest.fixture(scope="session")
def extract_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model that marks keyphrases."""
    return _reader_bundle("extract", tmp_path_factory.mktemp("extract"), sample_documents(), steps=80, metric="span_f1")


@pytest.fixture(scope="session")
def reply_recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe for replies with its pairs beside it."""
    folder = tmp_path_factory.mktemp("reply")
    write_rows(folder / "pairs.jsonl", sample_pairs())
    recipe = folder / "reply.toml"
    recipe.write_text(REPLY_RECIPE.format(root=json.dumps(str(folder))), encoding="utf-8")
    return recipe


@pytest.fixture(scope="session")
def reply_bundle(reply_recipe: Path) -> Path:
    """A trained model that replies."""
    from tagsmith.recipe import make, read_recipe

    return make(read_recipe(reply_recipe), reply_recipe.parent / "run")


@pytest.fixture
def shipped(tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with two models inside, both the tiny one."""
    for name in ("hashtag-en", "hashtag-zh"):
        shutil.copytree(tiny_bundle, tmp_path / "bundles" / name)
    monkeypatch.setattr("tagsmith.bundle.SHIPPED", tmp_path / "bundles")
    return tmp_path / "bundles"
