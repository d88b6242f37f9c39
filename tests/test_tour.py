"""The notebook of the docs runs from top to bottom, and tells the same story as the outputs that are kept in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

DOCS = Path(__file__).parent.parent / "docs"
RUN = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read("tour.ipynb", 4)
NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[1])
"""  # in a process of its own: the kernel's libraries warn, and here warnings are errors


def printed(notebook) -> str:
    return "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()))


def scores(notebook) -> dict[str, float]:
    """P@1 of both models, as the notebook prints it."""
    lines = [line.split() for line in printed(notebook).splitlines() if " p@1 " in line]
    return {line[0]: float(line[2]) for line in lines}


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    out = tmp_path_factory.mktemp("tour") / "tour.ipynb"
    words = [sys.executable, "-c", RUN, str(out)]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads that wait for each other are slow on a busy machine
    done = subprocess.run(words, cwd=DOCS, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return nbformat.read(out, 4)


@pytest.fixture(scope="module")
def kept():
    return nbformat.read(DOCS / "tour.ipynb", 4)


def test_training_helps(executed):
    assert scores(executed)["mine"] > scores(executed)["shipped"] + 0.1


def test_the_kept_outputs_are_whole_and_small(kept):
    assert scores(kept)["mine"] > scores(kept)["shipped"] + 0.1
    assert any("image/png" in output.get("data", {}) for cell in kept.cells for output in cell.get("outputs", ()))
    assert all(cell.outputs or cell.source.startswith("from") for cell in kept.cells if cell.cell_type == "code")
    assert (DOCS / "tour.ipynb").stat().st_size < 100_000
    assert "/tmp" not in printed(kept)


def test_the_posts_are_those_of_their_script(tmp_path):
    made = tmp_path / "posts.csv"
    example = DOCS.parent / "examples" / "tour_posts.py"
    subprocess.run([sys.executable, str(example), str(made)], check=True)
    assert made.read_bytes() == (DOCS / "tour-posts.csv").read_bytes()
