"""A wheel holds everything that an installed Tagsmith needs, and nothing besides."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tagsmith

ROOT = Path(__file__).parent.parent
PACKAGE = Path(tagsmith.__file__).parent
DATA = ("bundles", "samples", "service/static")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built by the back end itself: `pip wheel` would fetch it anew."""
    folder = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("tagsmith-*.whl")
    return zipfile.ZipFile(path)


def test_every_file_of_the_package_is_in_it(wheel):
    ours = {f"tagsmith/{path.relative_to(PACKAGE).as_posix()}" for path in PACKAGE.rglob("*") if path.is_file()}
    wanted = {name for name in ours if "__pycache__" not in name}
    assert {name for name in wheel.namelist() if name.startswith("tagsmith/")} == wanted
    for part in DATA:
        assert any(name.startswith(f"tagsmith/{part}/") for name in wanted), part
    assert "tagsmith/py.typed" in wanted


def test_nothing_else_is_in_it(wheel):
    assert {name.split("/")[0] for name in wheel.namelist()} == {
        "tagsmith",
        f"tagsmith-{tagsmith.__version__}.dist-info",
    }


def test_it_names_the_command_and_the_licence(wheel):
    read = {Path(name).name: name for name in wheel.namelist() if ".dist-info/" in name}
    assert "tagsmith = tagsmith.cli:main" in wheel.read(read["entry_points.txt"]).decode()
    assert "License-Expression: Apache-2.0" in wheel.read(read["METADATA"]).decode()
    assert "LICENSE" in read
