"""What README and docs tell people to run does run, and what they show is what comes."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer

from conftest import sample_documents, sample_labelled, sample_pairs, sample_questions, sample_rows, write_rows
from tagsmith.bundle import save_twin, shipped_bundles
from tagsmith.cli import COMMANDS, app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICKSTART = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TOLERANCE = 0.05  # of a score: processors with bf16 and without differ by less
STEP = ("--set", "train.steps=1", "--set", "batches.tokens=256", "--set", "data.dev_posts=2")  # training made short


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("readme", ROOT / "benchmarks" / "readme.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(text: str, kind: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return [body for found, body in fenced if found == kind]


def commands(text: str) -> list[list[str]]:
    lines = [line for block in blocks(text, "") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("tagsmith ")]


def alike(shown: str, came: str) -> bool:
    """The same but for scores, which may differ a little."""
    number = r"\d+\.\d+"
    if re.sub(number, "N", shown) != re.sub(number, "N", came):
        return False
    pairs = zip(re.findall(number, shown), re.findall(number, came), strict=True)
    return all(abs(float(one) - float(other)) <= TOLERANCE for one, other in pairs)


def test_outputs_may_differ_in_scores_alone():
    assert alike('{"text": "ramen", "score": 0.83}', '{"text": "ramen", "score": 0.8101}')
    assert not alike('{"text": "ramen", "score": 0.83}', '{"text": "ramen", "score": 0.7}')
    assert not alike('{"text": "ramen", "score": 0.83}', '{"text": "noodles", "score": 0.83}')


def test_the_python_example_prints_what_is_shown():
    readme = script()
    found = list(readme.PYTHON.finditer(README))
    assert len(found) == len(blocks(README, "python")) == 1
    came = readme.run_python(found[0]["code"])
    assert came.count("\n") == 2
    assert alike(found[0]["shown"], came), came


@pytest.mark.parametrize("lines", blocks(README, "console"), ids=lambda lines: lines.split()[2])
def test_the_console_shows_what_comes(lines):
    came = "".join(f"$ {line}\n{out}" for line, out in script().run_console(lines))
    assert alike(lines, came), came
    assert '"tags"' in came


def test_shell_and_http_are_among_the_examples():
    first = [block.split()[1:3] for block in blocks(README, "console")]
    assert first == [["tagsmith", "tag"], ["tagsmith", "serve"]]
    assert "$ curl " in README


def test_the_table_tells_what_the_bundles_say():
    readme = script()
    assert f"{readme.BEGIN}\n{readme.models_table(shipped_bundles())}\n{readme.END}" in README, (
        "a shipped model has changed: run `python benchmarks/readme.py`"
    )


def test_the_table_follows_the_bundles(shipped):
    readme = script()
    config = json.loads((shipped / "hashtag-en" / "config.json").read_text())
    config["measured"] = {"score": {"a f1@1": 0.25, "b f1@1": 0.5, "a rouge1": 0.3}, "posts_per_cpu_second": 1234.5}
    (shipped / "hashtag-en" / "config.json").write_text(json.dumps(config))
    save_twin(shipped / "embed-en", name="embed-en", task="embed", same_as="hashtag-en", card="", measured={})
    twin, first, second = readme.models_table(shipped_bundles()).splitlines()[2:]
    assert twin.startswith("| `embed-en` | vectors | ")
    assert twin.endswith(" | as `hashtag-en` | – | – |")
    assert first.endswith("| a f1@1 25.0, b f1@1 50.0 | 1,234 |")
    assert second.endswith("| – | – |")


def test_the_commands_of_the_readme_run(tmp_path):
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "tour-posts.csv", tmp_path / "docs")
    found = commands(README)
    assert [words[1] for words in found] == ["train", "tag", "compare"]
    extra = {"train": STEP, "compare": ("--limit", "4")}
    for words in found:
        done = subprocess.run(
            [sys.executable, "-m", *words, *extra.get(words[1], ())],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # threads that wait for each other are slow on a busy machine
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        assert done.stdout


@pytest.fixture
def place(
    tmp_path,
    monkeypatch,
    tiny_bundle,
    rank_bundle,
    slots_bundle,
    classify_bundle,
    extract_bundle,
    answer_bundle,
    reply_bundle,
):
    """A folder with the files and models that the quick start speaks of."""
    bundles = {
        "hashtag-en": tiny_bundle,
        "tags-en": rank_bundle,
        "keyphrase-en": slots_bundle,
        "reply-en": reply_bundle,
        "extract-en": extract_bundle,
        "topic-en": classify_bundle,
        "topic-zh": classify_bundle,
        "answer-en": answer_bundle,
    }
    for name, bundle in bundles.items():
        shutil.copytree(bundle, tmp_path / "bundles" / name)
    save_twin(tmp_path / "bundles" / "embed-en", name="embed-en", task="embed", same_as="tags-en", card="", measured={})
    monkeypatch.setattr("tagsmith.bundle.SHIPPED", tmp_path / "bundles")
    new = [{"id": f"new {n}", "text": f"noodles tonight, {n}", "hashtags": ["NoodleNight"]} for n in range(4)]
    write_rows(tmp_path / "posts.jsonl", [*sample_rows()[:48], *new])
    write_rows(tmp_path / "labelled.jsonl", sample_labelled() * 2)
    for name in ("documents.jsonl", "papers.jsonl"):
        write_rows(tmp_path / name, sample_documents())
    write_rows(tmp_path / "questions.jsonl", sample_questions())
    write_rows(tmp_path / "pairs.jsonl", sample_pairs())
    write_rows(tmp_path / "queries.jsonl", [{"query": row["query"]} for row in sample_pairs()[:5]])
    (tmp_path / "words.txt").write_text("broth\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_quick_start_runs_from_top_to_bottom(place, run_cli):
    """All but what starts processes of its own: they know nothing of the tiny models, and have tests of their own."""
    found = [words[1:] for words in commands(QUICKSTART) if words[1] != "--help"]
    assert {words[0] for words in found} == {command.__name__ for command in COMMANDS}
    for words in found:
        if words[0] in ("serve", "batch", "compare"):
            continue
        done = run_cli(*words, *(STEP if words[0] == "train" else ()))
        assert done.code == 0, (words, done.err)
        assert done.out or "--output" in words, words


def test_the_python_of_the_quick_start_runs(place, capsys):
    (place / "posts.txt").write_text("a flat white\nthe barista\n", encoding="utf-8")
    (code,) = blocks(QUICKSTART, "python")
    exec(compile(code, "quickstart.md", "exec"), {})
    assert capsys.readouterr().out.count("\n") == 5


def test_every_link_leads_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page}: {target}"


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page not in reached:
            reached.add(page)
            targets = re.findall(r"\]\(([^)#]+\.(?:md|ipynb))\)", page.read_text(encoding="utf-8"))
            waiting += [page.parent / target for target in targets if not target.startswith("http")]
    pages = {path.resolve() for kind in ("*.md", "*.ipynb") for path in (ROOT / "docs").rglob(kind)}
    assert pages <= reached


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_the_docs_is_understood(page):
    group = typer.main.get_command(app)
    for words in commands(page.read_text(encoding="utf-8")):
        if words[1] != "--help":
            group.commands[words[1]].make_context(words[1], words[2:])
        for word in words:
            assert not word.endswith(".toml") or (ROOT / word).exists(), f"{page}: {word}"


def test_models_that_are_not_shipped_are_not_named_as_if_they_were():
    shipped = {one.name for one in shipped_bundles()}
    for page in PAGES:
        for words in commands(page.read_text(encoding="utf-8")):
            for name in re.findall(
                r"\b(?:hashtag|tags|keyphrase|extract|embed|reply|topic|answer)-(?:en|zh)\b", " ".join(words)
            ):
                recipe = any(word.endswith(f"{name}.toml") for word in words)
                assert name in shipped or recipe, f"{page}: {' '.join(words)}"


def test_make_names_the_commands_of_the_readme():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
    assert len(README.splitlines()) < 130
