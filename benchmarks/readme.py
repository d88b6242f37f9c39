"""Fill README: the table of shipped models from what their bundles say, and the real output of its examples.

    python benchmarks/readme.py            # after a bundle has changed

A cell that a bundle says nothing about is a dash. `python`, `console` and `curl` examples are run as they stand and
what they print is put below them; `tests/test_readme.py` holds README to all of it.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tagsmith.bundle import Description, shipped_bundles

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "README.md"
BEGIN, END = "<!-- shipped models: python benchmarks/readme.py -->", "<!-- end of shipped models -->"
MAKES = {
    "hashtag": "writes hashtags",
    "rank": "ranks known tags",
    "embed": "vectors",
    "keyphrase": "writes keyphrases",
    "extract": "keyphrases in the text",
    "classify": "labels",
    "answer": "answers",
    "reply": "replies",
}
PYTHON = re.compile(r"^```python\n(?P<code>.*?)^```\n\n^```text\n(?P<shown>.*?)^```$", flags=re.DOTALL | re.MULTILINE)
CONSOLE = re.compile(r"^```console\n(?P<lines>.*?)^```$", flags=re.DOTALL | re.MULTILINE)
SERVED = "localhost:8000"


def models_table(found: list[Description]) -> str:
    """A row for each bundle."""
    rows = ["| model | task | language | MB | score, percent | texts per CPU-second |", "|---|---|---|---|---|---|"]
    for one in found:
        speed = one.measured.get("posts_per_cpu_second")
        cells = (f"`{one.name}`", MAKES[one.task], one.language, _size(one), _score(one), _number(speed))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _size(one: Description) -> str:
    config = json.loads((one.folder / "config.json").read_text(encoding="utf-8"))
    return f"as `{config['same_as']}`" if "same_as" in config else f"{one.megabytes:.0f}"


def _score(one: Description) -> str:
    """The first metric its card tells, on each test set."""
    scores = one.measured.get("score") or {}
    metric = next((name.split()[-1] for name in scores), "")
    told = [f"{name} {100 * value:.1f}" for name, value in scores.items() if name.split()[-1] == metric]
    return ", ".join(told) or "–"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def run_python(code: str) -> str:
    """What the code prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def run_console(lines: str) -> Iterator[tuple[str, str]]:
    """Each command after a `$ ` and what it prints; a service that is begun with `&` answers the `curl` after it."""
    commands = [line.removeprefix("$ ") for line in lines.splitlines() if line.startswith("$ ")]
    begun = [line for line in commands if line.endswith(" &")]
    with _serving(begun[0].removesuffix(" &")) if begun else _nothing() as address:
        for line in commands:
            if line in begun:
                yield line, ""
            elif line.startswith("curl "):
                yield line, _ask(line, address)
            else:
                yield line, _run(shlex.split(line))


def _run(words: list[str]) -> str:
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def _ask(line: str, address: str) -> str:
    """What `curl -s URL -d BODY` does, on the port that the service got."""
    words = shlex.split(line)
    if words[:2] != ["curl", "-s"] or words[3] != "-d" or len(words) != 5:
        raise RuntimeError(f"only `curl -s URL -d BODY` is known, not: {line}")
    url = f"http://{words[2]}".replace(f"http://{SERVED}", address)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, words[4].encode()) as answer:
        return answer.read().decode() + "\n"


@contextmanager
def _serving(line: str) -> Iterator[str]:
    """The service of that command on a free port."""
    words = [sys.executable, "-m", *shlex.split(line), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as service:
        try:
            assert service.stdout
            yield json.loads(service.stdout.readline())["serving"]
        finally:
            service.terminate()


@contextmanager
def _nothing() -> Iterator[str]:
    yield ""


def filled(page: str) -> str:
    """The page with a new table and new outputs."""
    table = f"{BEGIN}\n{models_table(shipped_bundles())}\n{END}"
    page = re.sub(f"{BEGIN}.*{END}", lambda _: table, page, flags=re.DOTALL)
    page = PYTHON.sub(lambda found: f"```python\n{found['code']}```\n\n```text\n{run_python(found['code'])}```", page)
    return CONSOLE.sub(
        lambda found: "```console\n" + "".join(f"$ {line}\n{out}" for line, out in run_console(found["lines"])) + "```",
        page,
    )


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
