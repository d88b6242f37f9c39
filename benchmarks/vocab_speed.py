"""What a long list of terms costs: seconds and memory to read it, and abstracts per CPU-second that keep to it.

    python benchmarks/vocab_speed.py DOCUMENTS --phrases FILE [FILE ...] [--model keyphrase-en] [--out FILE]

The lists hold keyphrases of the files' documents, every tenth of them twice, 1,000 to 500,000 lines. Each is tried in a
process of its own, so that memory is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tagsmith.data.readers import read_documents
from tagsmith.records import Document

LINES = (1_000, 20_000, 100_000, 500_000)


def terms(paths: Sequence[str]) -> Iterator[str]:
    """Different keyphrases, every tenth twice; when there are no more, two of them as one."""
    seen: dict[str, None] = {}
    for path in paths:
        for one in read_documents(path):
            for phrase in one.keyphrases if isinstance(one, Document) else ():
                if phrase not in seen:
                    seen[phrase] = None
                    yield from [phrase] * (1 + (len(seen) % 10 == 0))
    names = list(seen)
    yield from (f"{first} {second}" for first, second in zip(names, reversed(names), strict=True))


def measure(model: str, documents: str, vocab: str) -> dict[str, float]:
    """In this process: with the list, or without one where it is empty."""
    import torch

    from tagsmith.pipelines.load import load_tagger
    from tagsmith.pipelines.work import within

    torch.set_num_threads(1)
    tagger = load_tagger(model)
    some = [one for one in islice(read_documents(documents), 64) if isinstance(one, Document)]
    tagger.tag(some[:8])
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    if vocab:
        tagger = within(tagger, vocab)[0]
    reading = time.process_time() - start
    tagger.tag(some)
    start = time.process_time()
    found = tagger.tag(some)
    return {
        "seconds_to_read": round(reading, 2),
        "documents_per_cpu_second": round(len(some) / (time.process_time() - start), 1),
        "megabytes_more": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024),
        "tags_per_document": round(sum(len(one.tags) for one in found) / len(some), 1),
    }


def main() -> None:
    if sys.argv[1:2] == ["alone"]:
        print(json.dumps(measure(*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--phrases", nargs="+", required=True)
    parser.add_argument("--model", default="keyphrase-en")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    every = list(islice(terms(args.phrases), LINES[-1]))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for lines in (0, *LINES):
            path = Path(folder) / f"{lines}.txt"
            path.write_text("".join(f"{term}\n" for term in every[:lines]), encoding="utf-8")
            words = [sys.executable, __file__, "alone", args.model, args.file, str(path) if lines else ""]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            rows.append({"lines": len(every[:lines]), **json.loads(done.stdout)})
            print(json.dumps(rows[-1]))
    if args.out:
        args.out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
