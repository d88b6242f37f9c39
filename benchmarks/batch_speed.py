"""Rows per second of `tagsmith batch` with one and two workers, on processes and on Ray, in one run on the same posts.

    python benchmarks/batch_speed.py POSTS [--model hashtag-en] [--parts 2] [--part-rows 1024] [--rounds 3]
    python benchmarks/batch_speed.py POSTS --gpu 1 2 4 [--part-rows 8192]    # workers that share a GPU instead

It writes benchmarks/results/batch_speed.json (batch_gpu.json), and the part of docs/scale.md that tells these numbers.

Each round every engine answers the same posts in turn, so that a busy machine slows all alike; ratios are taken within
a round, and the figures are medians over the rounds. A worker's first part, in which it is still warming up, does not
count. `rows_per_second` is wall clock: the sum over workers of rows per second between their first and their last part.
`rows_per_cpu_second` counts the CPU time of the whole job: the workers' and that of every other process of it, that is
the one that reads and writes and, on Ray, the daemons of a node.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import tempfile
import time
from collections import defaultdict
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from tagsmith.cluster import Job, make_job, run_job
from tagsmith.cluster.chunks import Part, cut
from tagsmith.cluster.crew import Team
from tagsmith.cluster.local import LocalTeam
from tagsmith.cluster.maker import Setup
from tagsmith.data.readers import read_posts
from tagsmith.pipelines.work import Ask
from tagsmith.records import Post

DAY = 86_400
POSTS_A_DAY = 500_000_000
ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "batch_speed.json"
ON_GPU = RESULTS.with_name("batch_gpu.json")
PAGE = ROOT / "docs" / "scale.md"
BEGIN, END = "<!-- measured by benchmarks/batch_speed.py -->", "<!-- end of what was measured -->"
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds_of_others(workers: set[int]) -> float:
    """CPU time so far of this process and all that come from it, without the workers."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(path.parent.name)] = int(fields[1])
        spent[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / TICKS
    ours = {os.getpid()}
    grew = True
    while grew:
        more = {one for one, parent in parents.items() if parent in ours} - ours
        ours |= more
        grew = bool(more)
    return sum(spent[one] for one in ours - workers if one in spent)


class Watch:
    """What one job took, from the moment every worker is warm."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.times: dict[str, list[tuple[float, Part]]] = defaultdict(list)
        self.since = 0.0

    def part(self, part: Part) -> None:
        self.times[part.worker].append((time.perf_counter(), part))
        if not self.since and len(self.times) == self.workers:
            self.since, self.others = time.perf_counter(), self.other_seconds()
            self.before = sum(len(some) for some in self.times.values())

    def other_seconds(self) -> float:
        return cpu_seconds_of_others({int(name.partition(":")[2]) for name in self.times})

    def result(self) -> dict[str, float]:
        rate = cpu = 0.0
        rows = 0
        for some in self.times.values():
            if len(some) == 1:
                raise SystemExit("a worker made its first part only; give them more with --parts")
            counted = [part for _, part in some[1:]]
            rate += sum(part.rows for part in counted) / (some[-1][0] - some[0][0])
            cpu += sum(part.cpu_seconds for part in counted)
            rows += sum(part.rows for part in counted)
        window = sum(part.rows for _, part in sorted(self.everything(), key=lambda one: one[0])[self.before :])
        beside = (self.other_seconds() - self.others) / window * rows
        return {
            "rows_per_second": rate,
            "rows_per_cpu_second": rows / (cpu + beside),
            "rows_per_cpu_second_of_model": rows / cpu,
        }

    def everything(self) -> list[tuple[float, Part]]:
        return [one for some in self.times.values() for one in some]


def measure(engine: str, workers: int, job: Job) -> dict[str, float]:
    """One job on one engine."""
    watch = Watch(workers)
    found: dict[str, float] = {}

    def begin(job: Job) -> tuple[Team, int]:
        if engine in ("local", "gpu"):
            return LocalTeam(Setup.of(job, gpu=engine == "gpu")), workers
        from tagsmith.cluster.on_ray import RayTeam

        return RayTeam(Setup.of(job, gpu=False)), workers

    def on_part(part: Part) -> None:
        watch.part(part)
        if sum(len(some) for some in watch.times.values()) == parts_of(job):
            found.update(watch.result())  # while the processes are still there

    with tempfile.TemporaryDirectory() as folder:
        run_job(job, Path(folder) / "out", begin, on_part=on_part)
    return found


def reader_speed(job: Job) -> float:
    """Rows that one core reads, cuts and makes ready to travel in a second."""
    start = time.process_time()
    rows = 0
    for chunk in cut(job.files, job.reads, job.fields, job.part_rows):
        pickle.dumps(chunk)
        rows += len(chunk.rows)
    return rows / (time.process_time() - start)


def parts_of(job: Job) -> int:
    return -(-sum(1 for line in job.files[0].open(encoding="utf-8") if line) // job.part_rows)


def write_posts(source: str, target: Path, count: int) -> None:
    texts = [post.text for post in islice(read_posts(source), count) if isinstance(post, Post)]
    with target.open("w", encoding="utf-8") as file:
        for number, text in enumerate(islice(cycle(texts), count)):
            file.write(json.dumps({"id": number, "text": text}) + "\n")


def a_day(rows_per_second: float) -> dict[str, float]:
    """What 500 million posts a day take, if one core does so many a second."""
    core_seconds = POSTS_A_DAY / rows_per_second
    return {
        "posts": POSTS_A_DAY,
        "posts_per_second": round(POSTS_A_DAY / DAY),
        "core_hours": round(core_seconds / 3600),
        "cores_all_day": round(core_seconds / DAY, 1),
        "hours_on_64_cores": round(core_seconds / 64 / 3600, 1),
    }


def told_of_gpu(result: dict[str, Any]) -> list[str]:
    """What the workers on a GPU did, and what a day takes with such ones."""
    best = max(result["median"], key=lambda name: result["median"][name]["rows_per_second"])
    rate = result["median"][best]["rows_per_second"]
    shown = ", ".join(f"{name.split()[1]}: {one['rows_per_second']:,.0f}" for name, one in result["median"].items())
    return [
        "",
        f"On a GPU ({result['gpu']}), rows a second by the number of workers that share it",
        f"(`batch_speed.py POSTS --gpu {' '.join(name.split()[1] for name in result['median'])} "
        f"--part-rows {result['part_rows']} --rounds {result['rounds']}`): {shown}.",
        "Text work is done by the workers, on a core each.",
        "",
        f"- {POSTS_A_DAY:,} / {rate:,.0f} / 3,600 = {POSTS_A_DAY / rate / 3600:,.1f} hours of one such GPU a day, "
        f"{POSTS_A_DAY / DAY / rate:.2f} of them all day",
    ]


def beside(result: dict[str, Any], name: str) -> float:
    """The share of a job's CPU time that is not the model's."""
    one = result["median"][name]
    return 1 - one["rows_per_cpu_second"] / one["rows_per_cpu_second_of_model"]


def told(result: dict[str, Any]) -> str:
    """The part of the page that is made of the numbers."""
    lines = [
        f"`{result['model']}`, by `python benchmarks/batch_speed.py POSTS --model {result['model']} "
        f"--parts {result['parts']} --part-rows {result['part_rows']} --rounds {result['rounds']}`:",
        "",
        "| engine, workers | rows/s (wall clock) | cores it got | rows per CPU-second | of the model alone |",
        "|---|---|---|---|---|",
    ]
    for name, one in result["median"].items():
        cores = one["rows_per_second"] / one["rows_per_cpu_second_of_model"]
        lines.append(
            f"| {name} | {one['rows_per_second']} | {cores:.2f} | {one['rows_per_cpu_second']} "
            f"| {one['rows_per_cpu_second_of_model']} |"
        )
    two, lost = result["ratio_in_a_round"]["local 2 / local 1"], result["lost_to_ray"]["rows_per_cpu_second"]
    rate = result["median"]["local 1"]["rows_per_cpu_second"]
    reader = result["reader_rows_per_cpu_second"]
    day = result["a_day"]
    lines += [
        "",
        f"Two workers give {two['rows_per_cpu_second']:.2f} times the rows per CPU-second of one. Reading, carrying",
        f"and writing rows take {beside(result, 'local 2'):.1%} of a job's CPU time on processes and",
        f"{beside(result, 'ray 2'):.1%} on Ray, its daemons included. In the same round, and counting everything, Ray",
        f"gives {lost:.1%} fewer rows per CPU-second than the same two workers without it.",
        "",
        "What 500 million posts a day take:",
        "",
        f"- {day['posts']:,} / 86,400 s = {day['posts_per_second']:,} posts a second",
        f"- {day['posts_per_second']:,} / {rate} rows per CPU-second = {day['cores_all_day']} cores, all day",
        f"- {day['posts']:,} / {rate} / 3,600 = {day['core_hours']:,} core-hours: "
        f"{day['hours_on_64_cores']} hours on 64 cores",
        f"- one process reads and cuts {reader:,.0f} rows per CPU-second: what {reader / rate:,.0f} such cores answer",
    ]
    if ON_GPU.exists():
        lines += told_of_gpu(json.loads(ON_GPU.read_text(encoding="utf-8")))
    return "\n".join(lines)


def fill_page(page: Path, text: str) -> None:
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--model", default="hashtag-en")
    parser.add_argument("--parts", type=int, default=2, help="of each worker, beside its first")
    parser.add_argument("--part-rows", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gpu", type=int, nargs="+", metavar="WORKERS", help="workers that share a GPU")
    args = parser.parse_args()
    cases = [(engine, workers) for engine in ("local", "ray") for workers in (1, 2)]
    cases = [("gpu", workers) for workers in args.gpu] if args.gpu else cases
    rounds: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            found = {}
            for engine, workers in cases:
                path = Path(folder) / f"{workers}.jsonl"
                write_posts(args.file, path, workers * (args.parts + 1) * args.part_rows)
                written = "jsonl" if args.gpu else "parquet"
                job = make_job(path, Ask(args.model), part_rows=args.part_rows, format=written)
                found[f"{engine} {workers}"] = measure(engine, workers, job)
                print(f"{engine} {workers}", found[f"{engine} {workers}"], flush=True)
            rounds.append(found)
        reader = statistics.median(reader_speed(job) for _ in range(5))
    names = [f"{engine} {workers}" for engine, workers in cases]
    result: dict[str, Any] = {
        "model": args.model,
        "parts": args.parts,
        "part_rows": args.part_rows,
        "rounds": args.rounds,
        "reader_rows_per_cpu_second": round(reader),
        "median": {
            name: {key: round(statistics.median(one[name][key] for one in rounds), 1) for key in rounds[0][name]}
            for name in names
        },
    }
    if args.gpu:
        import torch

        text = json.dumps({**result, "gpu": torch.cuda.get_device_name()}, indent=1)
        ON_GPU.write_text(text + "\n", encoding="utf-8")
        print(text)
        fill_page(PAGE, told(json.loads(RESULTS.read_text(encoding="utf-8"))))
        return
    result |= {
        "ratio_in_a_round": {
            f"{name} / local 1": {
                key: round(statistics.median(one[name][key] / one["local 1"][key] for one in rounds), 3)
                for key in ("rows_per_second", "rows_per_cpu_second")
            }
            for name in names[1:]
        },
    }
    result["lost_to_ray"] = {
        key: round(1 - statistics.median(one["ray 2"][key] / one["local 2"][key] for one in rounds), 3)
        for key in ("rows_per_second", "rows_per_cpu_second")
    }
    result["a_day"] = a_day(result["median"]["local 1"]["rows_per_cpu_second"])
    print(json.dumps(result, indent=1))
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    fill_page(PAGE, told(result))


if __name__ == "__main__":
    main()
