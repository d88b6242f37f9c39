"""A job on a Ray cluster of two nodes, of which a worker and then a whole node are killed: run by test_batch_ray.

python ray_cluster.py INPUT OUTPUT MODEL PART_ROWS
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from ray.cluster_utils import Cluster

from tagsmith.cluster import Job, make_job, run_job
from tagsmith.cluster.chunks import Part
from tagsmith.cluster.maker import Setup
from tagsmith.cluster.on_ray import RayTeam
from tagsmith.pipelines.work import Ask


def main() -> None:
    given, output, model, rows = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    other = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    nodes: dict[str, str] = {}  # of each worker that made a part
    killed: list[str] = []

    def node_of(worker: str) -> str:
        """The raylet that started a worker: its parent process."""
        status = Path(f"/proc/{worker.partition(':')[2]}/status").read_text()
        return next(line.split()[1] for line in status.splitlines() if line.startswith("PPid"))

    def on_part(part: Part) -> None:
        if part.worker not in nodes and part.worker not in killed:
            nodes[part.worker] = node_of(part.worker)
        if not killed and nodes:  # the first that shows itself is at its next chunk
            killed.append(part.worker)
            os.kill(int(part.worker.partition(":")[2]), signal.SIGKILL)
        elif len(killed) == 1 and len(set(nodes.values())) == 2 and part.worker != killed[0]:
            killed.append("node")
            cluster.remove_node(other, allow_graceful=False)

    job = make_job(given, Ask(model), format="jsonl", part_rows=rows)

    def begin(job: Job) -> tuple[RayTeam, int]:
        team = RayTeam(Setup.of(job, gpu=False), address=cluster.address)
        return team, team.room()

    lost: list[str] = []
    done = run_job(job, output, begin, on_part=on_part, on_lost=lost.append)
    told = {"rows": done.rows, "parts": done.parts, "killed": len(killed), "workers": len(nodes), "lost": lost}
    sys.stderr.write(json.dumps(told))
    cluster.shutdown()


if __name__ == "__main__":
    main()
