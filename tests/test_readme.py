"""What README and docs tell people to run does run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(text: str, kind: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    return [body for found, body in fenced if found == kind]


def commands(text: str) -> list[list[str]]:
    lines = [line for block in blocks(text, "") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("tagsmith ")]


def test_the_python_example_runs():
    found = blocks(README, "python")
    assert found
    for block in found:
        done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") == 2


def test_the_commands_run(tmp_path):
    post = '{"id": 1, "text": "ramen in Tokyo", "hashtags": ["ramen"]}\n'
    for name in ("posts.jsonl", "held-out.jsonl"):
        (tmp_path / name).write_text(post, encoding="utf-8")
    rows = "".join(f"ramen number {number} in Tokyo,#ramen #food\n" for number in range(40))
    (tmp_path / "my.csv").write_text("text,hashtags\n" + rows, encoding="utf-8")
    found = commands(README)
    assert {words[1] for words in found} == {"tag", "evaluate", "train", "models"}
    for words in found:
        extra = ["--set", "train.steps=1", "--set", "data.dev_posts=2"] if words[1] == "train" else []
        done = subprocess.run(
            [sys.executable, "-m", *words, *extra], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        assert done.stdout or "--output" in words


def test_every_link_leads_somewhere():
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page}: {target}"


def test_make_names_the_commands_of_the_readme():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("demo", "test"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
