"""How a model's replies change with how many are drawn and with what counts against them, on dev queries.

    python benchmarks/reply_choice.py DEV --model reply-en [--queries 240] [--draws 1 8] [--own 0 0.3 0.5 0.7 1]

One reply to each query: the best of so many draws by the mean log-probability of a token given the query, less `own`
times that of the reply by itself.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import tagsmith
from tagsmith.data.readers import BadRow, read_rows
from tagsmith.pipelines.evaluate_replies import evaluate_replier
from tagsmith.pipelines.replies import ReplyFinder
from tagsmith.pipelines.reply import Replier
from tagsmith.records import pair_of

SHOWN = ("bleu2", "hit_q", "hit_r", "dist2", "copy_rate", "repetition_rate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--model", default="reply-en")
    parser.add_argument("--queries", type=int, default=240)
    parser.add_argument("--draws", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--own", type=float, nargs="+", default=[0.0, 0.3, 0.5, 0.7, 1.0])
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    finder: Any = tagsmith.load(args.model).finder  # type: ignore[union-attr]
    pairs = [pair_of(row) for row in islice(read_rows(args.file), args.queries) if not isinstance(row, BadRow)]
    lines = []
    for draws, own in product(args.draws, args.own):
        if draws == 1 and own:
            continue  # nothing to choose from
        settings = replace(finder.settings, draws=draws, own_weight=own)
        scores = evaluate_replier(Replier(ReplyFinder(finder.model, finder.pieces, settings)), pairs)
        lines.append({"model": args.model, "draws": draws, "own": own, **{name: scores[name] for name in SHOWN}})
        print(json.dumps(lines[-1]))
    if args.out:
        args.out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
