"""Posts per CPU-second on one core of models that rank known tags, and of fastText, round by round on the same posts.

    python benchmarks/rank_speed.py MODEL [MODEL ...] --train FILE --test FILE [--posts 2048] [--rounds 5] [--out FILE]

Each round every system gets all posts in turn, so that a busy machine slows all of them alike; a figure is the median
of the rounds. A model gives up to five tags (`tag`) and vectors (`embed`), fastText five labels (`predict` of a list).
fastText is trained here for one epoch on an even sample of train: what it costs depends on its size, not on how good
it is. Loading and the peak of memory are of a process of its own that tags 1,000 posts (Linux).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

for name in ("OMP", "MKL", "OPENBLAS", "RAYON"):
    os.environ[f"{name}_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from rank_table import names_of, sample, train_fasttext

TOP = 5
POSTS_ALONE = 1000  # tagged by a process of its own
System = Callable[[Sequence[str]], object]


def fasttext_system(path: str) -> System:
    """fastText from its file; texts are only put on one line and lower-cased."""
    import fasttext

    model = fasttext.load_model(path)
    return lambda texts: model.predict([" ".join(text.lower().split()) for text in texts], k=TOP)


def tagging_system(path: str) -> System:
    """A bundle's tags."""
    from tagsmith.pipelines.load import load_tagger

    tagger = load_tagger(path)
    return lambda texts: tagger.tag(texts, top=TOP)


def embedding_system(path: str) -> System:
    """A bundle's vectors."""
    from tagsmith.pipelines.embed import Embedder

    return Embedder.load(path).embed


ALONE = {"tagsmith": ("tagsmith.pipelines.load", tagging_system), "fastText": ("fasttext", fasttext_system)}


def alone(kind: str, path: str, texts: Sequence[str]) -> dict[str, float]:
    """Runs in a process of its own: CPU seconds of importing and of loading, and the peak of memory."""
    module, make = ALONE[kind]
    started = time.process_time()
    import_module(module)
    imported = time.process_time()
    system = make(path)
    loaded = time.process_time()
    system(texts)
    # not getrusage, which counts what the parent held when it started this process
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    return {
        "import_cpu_seconds": round(imported - started, 2),
        "load_cpu_seconds": round(loaded - imported, 2),
        "peak_mb": round(int(peak[1]) / 1024) if peak else 0,
    }


def in_child(kind: str, path: str, texts: Sequence[str]) -> dict[str, float]:
    """What `alone` tells."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(alone, kind, path, texts[:POSTS_ALONE]).result()


def measure(systems: dict[str, System], texts: Sequence[str], rounds: int) -> dict[str, float]:
    """The median posts per CPU-second of each."""
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(rounds + 1):  # the first warms up
        for name, system in systems.items():
            start = time.process_time()
            system(texts)
            if number:
                speeds[name].append(len(texts) / (time.process_time() - start))
    return {name: round(statistics.median(each), 1) for name, each in speeds.items()}


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Everything measured."""
    texts = [post.text for post in sample(args.test, args.posts)]
    with tempfile.TemporaryDirectory() as folder:
        saved = str(Path(folder) / "fasttext.bin")
        train_fasttext(sample(args.train, args.train_limit), epochs=1).save_model(saved)
        processes = {"fastText": in_child("fastText", saved, texts)}
        systems = {"fastText predict": fasttext_system(saved)}
    import torch

    torch.set_num_threads(1)
    for path, name in names_of(args.models).items():
        processes[name] = in_child("tagsmith", path, texts)
        systems |= {f"{name} tag": tagging_system(path), f"{name} embed": embedding_system(path)}
    speeds = measure(systems, texts, args.rounds)
    ratios = {name: round(speed / speeds["fastText predict"], 3) for name, speed in speeds.items()}
    return {"posts": len(texts), "posts_per_cpu_second": speeds, "of_fasttext": ratios, "processes": processes}


def show(result: dict[str, Any]) -> None:
    """The figures as Markdown tables."""
    print("| system | posts per CPU-second | of fastText's |\n|---|---|---|")
    for name, speed in result["posts_per_cpu_second"].items():
        print(f"| {name} | {speed:,.0f} | {result['of_fasttext'][name]:.3f} |")
    print("\n| process | import, CPU s | load, CPU s | peak MB |\n|---|---|---|---|")
    for name, facts in result["processes"].items():
        print(f"| {name} | {facts['import_cpu_seconds']} | {facts['load_cpu_seconds']} | {facts['peak_mb']:,} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="folders of bundles, or names of shipped models")
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--posts", type=int, default=2048, help="an even sample of test")
    parser.add_argument("--train-limit", type=int, default=20_000, help="posts that fastText is trained on")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    result = run(args)
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    show(result)


if __name__ == "__main__":
    main()
