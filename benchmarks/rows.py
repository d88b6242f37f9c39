"""Rows of a table: recipes that are trained one after the other, or several at a time, and measured on test files.

A row that is finished is not trained again; what runs when the time is over is stopped, and the same command goes on
from the checkpoints it left. Each table is a script of its own that names its recipes and shows its results.

Rows of seconds are trained many in one process (`side_by_side`): starting one takes longer than such a row.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

RECIPES = Path(__file__).parent.parent / "recipes"
Ways = Mapping[str, Sequence[str]]  # names of ways to measure a row, and what `evaluate` is told for each
PLAINLY: Ways = {"": ()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What every table's `run` takes."""
    parser.add_argument("rows", nargs="+", help="names of recipes")
    parser.add_argument("--test", action="append", required=True)
    parser.add_argument("--root", default="data")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"))
    parser.add_argument("--shared-cache", default="", help="a folder of --cache that all rows share")
    parser.add_argument("--out", type=Path, default=Path("results.jsonl"))
    parser.add_argument("--jobs", type=int, default=1, help="rows trained side by side")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")


class Runner:
    """Trains and measures rows until done or out of time."""

    def __init__(self, args: argparse.Namespace, folder: str, ways: Mapping[str, Ways] | None = None) -> None:
        self.args = args
        self.recipes = RECIPES / folder
        self.ways = ways or {}  # of a row; others are measured plainly
        self.rows: queue.Queue[str] = queue.Queue()
        self.lock = threading.Lock()
        self.running: set[subprocess.Popen[bytes]] = set()
        self.stopped = False
        for row in args.rows:
            self.rows.put(row)

    def go(self) -> None:
        """Until all rows are done, or the time is."""
        self.args.runs.mkdir(parents=True, exist_ok=True)
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
        log = folder / "log.txt"
        if not (folder / "bundle" / "config.json").exists() and self._tagsmith(self._training(row, folder), log):
            print(f"{row}: not finished, see {log}", flush=True)
            return
        for test in self.args.test:
            for way, words in self.ways.get(row, PLAINLY).items():
                if not self._measure(row, test, way, words):
                    print(f"{row}: not measured on {test}, see {log}", flush=True)
                    return
        print(f"{row}: done", flush=True)

    def _training(self, row: str, folder: Path) -> list[str]:
        command = ["train", str(self.recipes / f"{row}.toml"), "--out", str(folder)]
        cache = self.args.cache / (self.args.shared_cache or row)
        for change in (f"data.root={self.args.root}", f"data.cache={cache}", *self.args.set):
            command += ["--set", change]
        return [*command, "--resume"] if (folder / "checkpoint.safetensors").exists() else command

    def _measure(self, row: str, test: str, way: str, words: Sequence[str]) -> bool:
        folder, name = self.args.runs / row, Path(test).parent.name
        target = folder / f"{name}{way and '-' + way}.json"
        if target.exists() and target.stat().st_size:
            return True
        told = [word.format(runs=self.args.runs) for word in words]
        if self._tagsmith(["evaluate", str(folder / "bundle"), test, *told, "--json"], folder / "log.txt", target):
            return False
        scores = json.loads(target.read_text(encoding="utf-8"))
        with self.lock, self.args.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"row": row, "test": name, **({"way": way} if way else {}), **scores}) + "\n")
        return True

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
        if code and target:
            target.unlink()
        return code


def side_by_side(work: Callable[[str], None], rows: Sequence[str], *, jobs: int, seconds: float) -> None:
    """Each row by one of several processes, which begin no row when the time is over; a row that fails is told."""
    context = multiprocessing.get_context("spawn")
    waiting: Any = context.Queue()
    for row in [*rows, *[None] * jobs]:
        waiting.put(row)
    end = time.time() + seconds
    team = [context.Process(target=_rows_of, args=(work, waiting, end)) for _ in range(jobs)]
    for process in team:
        process.start()
    for process in team:
        process.join()


def _rows_of(work: Callable[[str], None], waiting: Any, end: float) -> None:
    while (row := waiting.get()) is not None:
        if time.time() > end:
            print(f"{row}: not begun", flush=True)
            continue
        start = time.time()
        try:
            work(row)
        except Exception:  # one row must not end the others
            traceback.print_exc()
            print(f"{row}: failed after {time.time() - start:.0f} s", flush=True)
        else:
            print(f"{row}: done in {time.time() - start:.0f} s", flush=True)


def read_results(path: Path) -> list[dict[str, Any]]:
    """The lines of a results file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def parse(description: str | None) -> argparse.Namespace:
    """`run ROW ...` or `show RESULTS`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    add_arguments(commands.add_parser("run"))
    shown = commands.add_parser("show")
    shown.add_argument("results", type=Path)
    shown.add_argument("more", type=Path, nargs="?", help="results of another script that belong to them")
    return parser.parse_args()
