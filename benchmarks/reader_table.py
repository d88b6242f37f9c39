"""Train the rows of the readers' tables and measure them on the tests; print the tables.

    python benchmarks/reader_table.py run extract classify answer --root data --backbones backbones --jobs 4
    python benchmarks/reader_table.py run extract-inspec@granite#2 extract-inspec-tg-crf --out results.jsonl
    python benchmarks/reader_table.py show results.jsonl
    python benchmarks/reader_table.py measure extract-en data/keyphrase/inspec/test.jsonl.zst --out shipped.jsonl
    python benchmarks/reader_table.py measure answer-en data/mrc/squad_en/test.jsonl.zst --elsewhere --out shipped.jsonl

A row is a recipe, `@` the family of its backbone and `#` its seed; `extract`, `classify` and `answer` stand for all
rows of a table. Many rows are trained in one process, several processes side by side; rows with the same texts and
the same backbone share what is prepared of them. A row that stands in the results is not trained again. `measure`
scores a shipped reader, or any bundle, and times it; `--elsewhere` asks the questions of other passages instead, half
of them from the same article, and drops those whose answer stands there too: none of the rest has an answer.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from rows import RECIPES, read_results, side_by_side

FAMILIES = {
    "minilm": "all-minilm-l6-v2",
    "granite": "granite-embedding-30m-en",
    "ernie": "ernie3-nano-zh-uie",
}
BODIES = ("plain", "bilstm-crf", "tg-crf", "hypernet", "paper")  # a recipe without an ending is hypernet
FOLDERS = {"extract": "extract", "classify": "classify", "answer": "mrc"}
METRICS = {"extract": ("span_f1", "stem_f1"), "classify": ("accuracy", "macro_f1"), "answer": ("em", "f1")}
SEEDS = (1, 2, 3)
PAPER = {  # the best of its backbones, which are far larger than ours
    ("inspec", "bilstm-crf"): "59.5",
    ("inspec", "tg-crf"): "60.4",
    ("inspec", "hypernet"): "62.3",
    ("semeval2010", "bilstm-crf"): "35.7",
    ("semeval2010", "tg-crf"): "36.3",
    ("semeval2010", "hypernet"): "36.7",
    ("semeval2017", "bilstm-crf"): "52.4",
    ("semeval2017", "tg-crf"): "53.5",
    ("semeval2017", "hypernet"): "54.7",
    ("inews_zh", "plain"): "75.91",
    ("inews_zh", "hypernet"): "80.91",
    ("agnews_en", "plain"): "94.98",
    ("agnews_en", "hypernet"): "95.36",
}


class Row(NamedTuple):
    """A row by what its name says: extract-inspec-tg-crf@granite#2."""

    task: str
    texts: str
    body: str
    family: str
    seed: int

    @classmethod
    def of(cls, name: str) -> Row:
        rest, _, seed = name.partition("#")
        recipe, _, family = rest.partition("@")
        task, texts, *ending = recipe.split("-", 2)
        default = "ernie" if texts.endswith("_zh") else "minilm"
        return cls(task, texts, ending[0] if ending else "hypernet", family or default, int(seed or 1))

    @property
    def name(self) -> str:
        return f"{self.recipe}@{self.family}#{self.seed}"

    @property
    def recipe(self) -> str:
        return f"{self.task}-{self.texts}" + ("" if self.body == "hypernet" else f"-{self.body}")


def rows_of(group: str) -> list[str]:
    """The rows of a table, those that say most first, or one row under its full name."""
    if group == "extract":
        made = [
            Row("extract", texts, body, family, seed)
            for seed in SEEDS
            for family in ("minilm", "granite")
            for texts in ("inspec", "semeval2010", "semeval2017")
            for body in ("hypernet", "bilstm-crf", "tg-crf", *(("plain", "paper") if seed == 1 else ()))
        ]
    elif group == "classify":
        made = [
            Row("classify", texts, body, "ernie" if texts.endswith("_zh") else "minilm", seed)
            for seed in SEEDS
            for texts in ("inews_zh", "reuters_en", "tnews_zh", "agnews_en")
            for body in ("hypernet", "plain")
        ]
    elif group == "answer":
        sets = (("squad_en", "minilm"), ("cmrc_zh", "ernie"))
        made = [Row("answer", texts, body, family, 1) for texts, family in sets for body in ("hypernet", "plain")]
    else:
        made = [Row.of(group)]
    return [one.name for one in made]


def run(name: str, args: argparse.Namespace) -> None:
    """Train one row, measure its bundle and write a line of results."""
    import torch

    from tagsmith.bundle import load_bundle
    from tagsmith.data.readers import good, read_as
    from tagsmith.pipelines.evaluate_reading import evaluate_reader
    from tagsmith.pipelines.load import reader_of
    from tagsmith.recipe import job_of, make, read_recipe
    from tagsmith.recipe.reading import MAKERS
    from tagsmith.recipe.settings import lying_there

    torch.set_num_threads(args.threads)
    gc.collect()  # what the row before left
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    row, start = Row.of(name), time.time()
    out, cache = args.runs / name, args.cache / f"{row.task}-{row.texts}{'-typed' * (row.body == 'typed')}-{row.family}"
    changes = [
        f"name={row.recipe}",
        f"backbone={args.backbones / FAMILIES[row.family]}",
        f"data.root={args.root}",
        f"data.cache={cache}",
        f"train.seed={row.seed}",
        f"batches.seed={row.seed}",
        *args.set,
    ]
    recipe = read_recipe(RECIPES / "reader" / f"{row.recipe}.toml", changes)
    out.mkdir(parents=True, exist_ok=True)
    with (out / "log.txt").open("w", encoding="utf-8") as log:

        def report(event: dict[str, Any]) -> None:
            print(json.dumps(event, default=str), file=log, flush=True)

        with _alone(cache):
            job_of(recipe).prepare(out, report)  # what rows share is made by the first of them
        bundle = load_bundle(make(recipe, out, report=report), dtype=torch.float32)
    trained = time.time() - start
    reader = reader_of(bundle)
    test = lying_there(args.root / FOLDERS[row.task] / row.texts / "test.jsonl.zst")
    items = islice(good(read_as(MAKERS[row.task], test), print), args.limit)
    scores = evaluate_reader(reader, map(reader.head.item, items))
    line = {"row": name, **row._asdict(), **scores, "train_seconds": trained, "seconds": time.time() - start}
    with args.out.open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(line) + "\n")


def measure(args: argparse.Namespace) -> None:
    """Score a bundle on test files; a line of results for each."""
    import torch

    from tagsmith.bundle import load_bundle
    from tagsmith.data.elsewhere import asked_elsewhere
    from tagsmith.data.readers import good, read_as
    from tagsmith.pipelines.evaluate_reading import evaluate_reader
    from tagsmith.pipelines.load import reader_of
    from tagsmith.recipe.reading import MAKERS

    torch.set_num_threads(args.threads)
    reader = reader_of(load_bundle(args.bundle))
    for test in args.tests:
        rows: list[Any] = list(islice(good(read_as(MAKERS[reader.task], test), print), args.limit))
        if args.elsewhere:
            rows = list(islice(asked_elsewhere(rows, 1.0), len(rows), None))
        items = [reader.head.item(one) for one in rows]
        start = time.process_time()
        scores = evaluate_reader(reader, items)
        rate = len(items) / (time.process_time() - start)
        kind = "/".join(test.parent.parts[-2:]) + (", asked elsewhere" if args.elsewhere else "")
        line = {"system": Path(args.bundle).name, "test": kind, **scores, "texts_per_cpu_second": rate}
        with args.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """One process at a time prepares a folder."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def show(path: Path) -> None:
    """A table for each task: the mean over seeds, how far they lie apart, the gain over what it is compared with."""
    lines = read_results(path)
    for task, metrics in METRICS.items():
        own = [line for line in lines if line["task"] == task]
        if not own:
            continue
        print(f"\n| texts | backbone | body | seeds | {' | '.join(metrics)} | over {_beaten(task)} | paper |")
        print("|---" * (len(metrics) + 6) + "|")
        kinds = sorted({(one["texts"], one["family"]) for one in own})
        for texts, family in kinds:
            for body in BODIES:
                some = [one for one in own if (one["texts"], one["family"], one["body"]) == (texts, family, body)]
                if some:
                    against = [one for one in own if (one["texts"], one["family"]) == (texts, family)]
                    cells = [*(_cell(some, name) for name in metrics), _gain(some, against, task, metrics[0])]
                    paper = PAPER.get((texts, body), "–")
                    print(f"| {texts} | {family} | {body} | {len(some)} | {' | '.join(cells)} | {paper} |")


def _beaten(task: str) -> str:
    return "bilstm-crf" if task == "extract" else "plain"


def _cell(lines: Sequence[dict[str, Any]], name: str) -> str:
    values = [100 * line[name] for line in lines]
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def _gain(lines: Sequence[dict[str, Any]], every: Sequence[dict[str, Any]], task: str, name: str) -> str:
    other = [line[name] for line in every if line["body"] == _beaten(task)]
    if not any(other) or lines[0]["body"] == _beaten(task):
        return "–"
    return f"{100 * (mean(line[name] for line in lines) / mean(other) - 1):+.1f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("rows", nargs="+", help="names of rows or tables")
    runs.add_argument("--root", type=Path, default=Path("data"))
    runs.add_argument("--backbones", type=Path, default=Path("backbones"))
    runs.add_argument("--runs", type=Path, default=Path("runs"))
    runs.add_argument("--cache", type=Path, default=Path("runs/cache"))
    runs.add_argument("--out", type=Path, default=Path("results.jsonl"))
    runs.add_argument("--jobs", type=int, default=1, help="processes side by side")
    runs.add_argument("--threads", type=int, default=2, help="CPU threads of each process")
    runs.add_argument("--seconds", type=float, default=1e9, help="no row begins later")
    runs.add_argument("--limit", type=int, help="so many rows of each test")
    runs.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    commands.add_parser("show").add_argument("results", type=Path)
    measured = commands.add_parser("measure")
    measured.add_argument("bundle")
    measured.add_argument("tests", nargs="+", type=Path)
    measured.add_argument("--out", type=Path, default=Path("shipped.jsonl"))
    measured.add_argument("--threads", type=int, default=1)
    measured.add_argument("--limit", type=int, help="so many rows of each test")
    measured.add_argument("--elsewhere", action="store_true", help="ask the questions of other passages")
    commands.add_parser("rows").add_argument("rows", nargs="+", help="names of tables")
    args = parser.parse_args()
    if args.command in ("show", "measure"):
        show(args.results) if args.command == "show" else measure(args)
        return
    wanted = list(dict.fromkeys(name for group in args.rows for name in rows_of(group)))
    if args.command == "rows":
        sys.stdout.write("\n".join(wanted) + "\n")
        return
    done = {line["row"] for line in read_results(args.out)} if args.out.exists() else set()
    side_by_side(
        partial(run, args=args), [name for name in wanted if name not in done], jobs=args.jobs, seconds=args.seconds
    )


if __name__ == "__main__":
    main()
