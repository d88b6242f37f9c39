"""Batch jobs on Ray: the same rows, once each, on two nodes of which a worker and then a node are killed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ray_environment, write_rows
from tagsmith.data.readers import read_rows
from tagsmith.errors import BatchError, ConfigError

SCRIPT = Path(__file__).parent / "ray_cluster.py"


def test_a_worker_and_a_node_are_killed_and_nothing_is_lost_or_doubled(tiny_bundle, tmp_path, run_cli):
    rows = [{"id": number, "text": f"so happy about a flat white {number}"} for number in range(1200)]
    path, out = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out"
    done = subprocess.run(
        [sys.executable, SCRIPT, path, out, tiny_bundle, "10"],
        env=ray_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stderr.splitlines()[-1])
    assert (told["rows"], told["parts"]) == (1200, 120)
    assert told["killed"] == 2
    assert len(told["lost"]) >= 2
    assert told["workers"] >= 3  # the first two, and who came after them
    found = [row for part in sorted(out.glob("part-*")) for row in read_rows(part)]
    assert [row["id"] for row in found] == list(range(1200))
    made = [json.loads(line) for line in (out / "_parts.log").read_text().splitlines()]
    assert sorted(one["chunk"] for one in made) == list(range(120))
    wanted = run_cli("tag", "--model", tiny_bundle, "--input", path).rows
    texts = [[[tag["text"] for tag in row["tags"]] for row in rows] for rows in (found, wanted)]
    assert texts[0] == texts[1]


def test_a_cluster_that_cannot_be_reached_is_told_at_once(tiny_bundle, tmp_path, run_cli):
    path = write_rows(tmp_path / "in.jsonl", [{"text": "a flat white"}])
    words = ("batch", path, tmp_path / "out", "--model", tiny_bundle, "--engine", "ray", "--address")
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        done = run_cli(*words, f"127.0.0.1:{taken.getsockname()[1]}")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: cannot reach a Ray cluster at 127.0.0.1:")
    assert done.err.count("\n") == 1
    done = run_cli(*words, "nowhere")
    assert "--address takes HOST:PORT, ray://HOST:PORT or auto, not 'nowhere'" in done.err
    assert not (tmp_path / "out").exists()


def test_without_ray_its_extra_is_named(tiny_bundle, tmp_path, run_cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    path = write_rows(tmp_path / "in.jsonl", [{"text": "a flat white"}])
    done = run_cli("batch", path, tmp_path / "out", "--model", tiny_bundle, "--engine", "ray")
    assert done.code == 2
    assert done.err == "error: --engine ray needs Ray; install it with `pip install 'tagsmith[cluster]'`\n"
    assert not (tmp_path / "out").exists()


class FakeRay:
    """What of Ray is asked before any worker is."""

    def __init__(self, **found):
        self.found = found
        self.open = True

    def cluster_resources(self):
        return self.found

    def shutdown(self):
        self.open = False


@pytest.mark.parametrize(("found", "gpus", "room"), [({"CPU": 6.0}, 0, 6), ({"CPU": 6.0, "GPU": 2.0}, 0.5, 4)])
def test_there_are_as_many_workers_as_the_cluster_has_room_for(found, gpus, room, monkeypatch):
    from tagsmith.cluster import on_ray

    monkeypatch.setattr(on_ray, "_connected", lambda address: FakeRay(**found))
    assert on_ray.RayTeam(None, gpus=gpus).room() == room


def test_gpus_that_are_not_there_are_an_error(monkeypatch):
    from tagsmith.cluster import on_ray

    fake = FakeRay(CPU=2.0)
    monkeypatch.setattr(on_ray, "_connected", lambda address: fake)
    with pytest.raises(ConfigError, match="--gpus-per-worker 1 asks for more GPUs than the cluster's 0"):
        on_ray.RayTeam(None, gpus=1.0).room()
    assert not fake.open


def test_what_ray_says_about_its_start_is_one_of_our_errors(monkeypatch):
    import ray

    from tagsmith.cluster.on_ray import RayTeam

    def refuse(**options):
        raise ConnectionError("Could not find any running Ray instance.\nPlease ...")

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(
        BatchError, match=r"cannot reach a Ray cluster at auto: Could not find any running Ray instance\."
    ):
        RayTeam(None, address="auto")
