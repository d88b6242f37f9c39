"""Train the rows of a table from their recipes and measure them on a test file; print the table.

    python benchmarks/segtrm_table.py run thg-transabs thg-soft --test data/hashtag/thg/test.jsonl.zst --root data \
        --runs runs --out results.jsonl [--jobs 2] [--seconds 560] [--set train.compile=false]
    python benchmarks/segtrm_table.py show results.jsonl

`--jobs 2` trains two rows side by side on one GPU. After `--seconds` whatever runs is stopped; the same command goes
on from the checkpoints it left. A row that is finished is not trained again.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

RECIPES = Path(__file__).parent.parent / "recipes" / "hashtag"
METRICS = ("rouge1", "rouge2", "rougeL", "f1@1", "f1@5_full", "r@10", "unseen_r@10")
PAPER = {  # Table 2: ROUGE-1, ROUGE-2, ROUGE-L, F1@1, F1@5 on the paper's own corpora
    "whg-transabs": (52.13, 46.62, 51.05, 25.47, 28.32),
    "whg-hardbase": (54.53, 50.26, 53.29, 30.11, 31.01),
    "whg-hard": (55.40, 51.32, 54.12, 30.73, 31.76),
    "whg-softbase": (52.62, 48.70, 51.41, 28.62, 30.58),
    "whg-soft": (55.51, 51.28, 54.30, 30.72, 32.21),
    "thg-transabs": (43.71, 27.18, 39.29, 23.22, 23.27),
    "thg-hardbase": (46.37, 30.71, 41.73, 24.35, 26.32),
    "thg-hard": (47.25, 31.78, 42.63, 25.31, 27.07),
    "thg-softbase": (50.00, 35.48, 45.82, 26.02, 28.59),
    "thg-soft": (51.18, 37.15, 47.05, 27.17, 29.02),
}


class Runner:
    """Trains and measures rows, several at a time, until done or out of time."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.rows: queue.Queue[str] = queue.Queue()
        self.lock = threading.Lock()
        self.running: set[subprocess.Popen[bytes]] = set()
        self.stopped = False
        for row in args.rows:
            self.rows.put(row)

    def go(self) -> None:
        start = time.monotonic()
        workers = [threading.Thread(target=self._work) for _ in range(self.args.jobs)]
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            time.sleep(0.5)
            if time.monotonic() - start > self.args.seconds and not self.stopped:
                self.stopped = True
                with self.lock:
                    for process in self.running:
                        process.kill()

    def _work(self) -> None:
        while not self.stopped:
            try:
                row = self.rows.get_nowait()
            except queue.Empty:
                return
            self._row(row)

    def _row(self, row: str) -> None:
        folder = self.args.runs / row
        if (folder / "scores.json").exists():
            return
        if not (folder / "bundle" / "config.json").exists():
            command = ["train", str(RECIPES / f"{row}.toml"), "--out", str(folder)]
            cache = self.args.cache / row.split("-")[0] if self.args.shared_cache else self.args.cache / row
            for change in (f"data.root={self.args.root}", f"data.cache={cache}", *self.args.set):
                command += ["--set", change]
            if (folder / "checkpoint.safetensors").exists():
                command.append("--resume")
            if self._tagsmith(command, folder / "log.txt"):
                print(f"{row}: not finished, see {folder / 'log.txt'}", flush=True)
                return
        for test in self.args.test:
            target = folder / f"{Path(test).parent.name}.json"
            if self._tagsmith(["evaluate", str(folder / "bundle"), test, "--json"], folder / "log.txt", target):
                return
            self._keep(row, test, json.loads(target.read_text(encoding="utf-8")))
        (folder / "scores.json").write_text("{}", encoding="utf-8")
        print(f"{row}: done", flush=True)

    def _tagsmith(self, words: list[str], log: Path, target: Path | None = None) -> int:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as talk, (target or Path(os.devnull)).open("wb") as data:
            with self.lock:
                if self.stopped:
                    return 1
                process = subprocess.Popen([sys.executable, "-m", "tagsmith", *words], stdout=data, stderr=talk)
                self.running.add(process)
            code = process.wait()
            with self.lock:
                self.running.discard(process)
            return code

    def _keep(self, row: str, test: str, scores: dict[str, object]) -> None:
        name = Path(test).parent.name
        with self.lock, self.args.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"row": row, "test": name, **scores}) + "\n")


def show(path: Path) -> None:
    """The rows as a Markdown table, the paper's figures beside ours, and each part of each test."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    print("| row | part | posts | ROUGE-1 | ROUGE-2 | ROUGE-L | F1@1 | F1@5 | R@10 | unseen found | paper: R1/R2/RL |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for line in lines:
        paper = "/".join(f"{value:.1f}" for value in PAPER.get(line["row"], ())[:3]) or "–"
        for part, scores in {"all": line, **line.get("parts", {})}.items():
            cells = (f"{100 * scores[name]:.1f}" if name in scores else "–" for name in METRICS)
            print(
                f"| {line['row']} | {part} | {scores['n']:,} | {' | '.join(cells)} | {paper if part == 'all' else ''} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    run.add_argument("rows", nargs="+", help="names of recipes")
    run.add_argument("--test", action="append", required=True)
    run.add_argument("--root", default="data")
    run.add_argument("--runs", type=Path, default=Path("runs"))
    run.add_argument("--cache", type=Path, default=Path("runs/cache"))
    run.add_argument("--shared-cache", action="store_true", help="rows of one corpus share tokeniser and tokens")
    run.add_argument("--out", type=Path, default=Path("results.jsonl"))
    run.add_argument("--jobs", type=int, default=1)
    run.add_argument("--seconds", type=float, default=1e9)
    run.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    shown = commands.add_parser("show")
    shown.add_argument("results", type=Path)
    args = parser.parse_args()
    if args.command == "show":
        show(args.results)
    else:
        args.runs.mkdir(parents=True, exist_ok=True)
        Runner(args).go()


if __name__ == "__main__":
    main()
