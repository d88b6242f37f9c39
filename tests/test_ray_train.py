"""The example that trains with Ray Train: two processes make one model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ray_environment
from tagsmith.bundle import load_bundle
from tagsmith.recipe import make, read_recipe

EXAMPLE = Path(__file__).parent.parent / "examples" / "ray_train.py"
CHANGES = ["train.steps=4", "train.evaluate_every=2", "train.log_every=1"]


def losses(folder: Path) -> list[float]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


def test_two_processes_of_ray_train_share_the_posts_and_write_one_bundle(tiny_recipe, tmp_path):
    alone, together = tmp_path / "alone", tmp_path / "together"
    make(read_recipe(tiny_recipe, CHANGES), alone)
    done = subprocess.run(
        [sys.executable, EXAMPLE, tiny_recipe, "--out", together, "--tries", "0"]
        + [word for change in CHANGES for word in ("--set", change)],
        env={**ray_environment(), "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"bundle": str(together / "bundle")}
    assert load_bundle(together / "bundle").name == "tiny"
    assert len(losses(together)) == len(losses(alone)) == 4
    # a process that had trained alone would have seen the very posts of the other run
    assert losses(together)[1:] != pytest.approx(losses(alone)[1:], rel=1e-3)
