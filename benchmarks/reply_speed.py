"""Replies per CPU-second on one core, with caches and without, round by round on the same queries.

    python benchmarks/reply_speed.py QUERIES [--model reply-en] [--rounds 3] [--out FILE]

`written` draws one reply of exactly 20 tokens to each of 32 queries; `cached` and `uncached` write 40 tokens to each,
the second by reading query and reply from the start for every token. `reply` is the whole pipeline, texts in and texts
out: one reply to each of 256 queries, drawn and chosen as the model is set.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from timing import per_cpu_second, told

import tagsmith
from tagsmith.data.batches import PairBatch, pad_ids
from tagsmith.data.readers import BadRow, read_rows
from tagsmith.decode import Ends, draw_at, follow
from tagsmith.records import Pair, pair_of

SHORT, LONG = 20, 40  # tokens
ROWS, QUERIES = 32, 256
NEVER = Ends(())  # every reply goes on to the last token


class Writes:
    """Replies of so many tokens, drawn from the 20 likeliest."""

    def __init__(self, replier: Any, steps: int) -> None:
        self.finder, self.steps = replier.finder, steps

    def _read(self, queries: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        ids = self.finder.pieces.ids(queries)
        longest = min(self.finder.settings.source, self.finder.model.config.longest - self.steps)
        source, lengths = pad_ids([row[:longest] for row in ids], longest=longest)
        return source, lengths, torch.rand(len(queries), self.steps, generator=torch.Generator().manual_seed(1))

    @torch.inference_mode()
    def cached(self, queries: Sequence[str]) -> list[list[int]]:
        source, lengths, chances = self._read(queries)
        walk = follow(self.finder.model.stepper(source, lengths), chances, ends=NEVER, top_k=20)
        return torch.stack([step.tokens for step in walk], 1).tolist()

    @torch.inference_mode()
    def uncached(self, queries: Sequence[str]) -> list[list[int]]:
        source, lengths, chances = self._read(queries)
        written = torch.zeros(len(queries), 0, dtype=torch.long)
        for chance in chances.unbind(1):
            whole = torch.cat([written, torch.ones_like(lengths)[:, None]], 1)  # the last one is never looked at
            batch = PairBatch(source, lengths, whole, torch.full_like(lengths, whole.shape[1]))
            logs = self.finder.model(batch).scores[:, -1].float().log_softmax(-1)
            written = torch.cat([written, draw_at(logs, chance, top_k=20)[:, None]], 1)
        return written.tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--model", default="reply-en")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    replier: Any = tagsmith.load(args.model)
    pairs = (pair_of(row) for row in read_rows(args.file) if not isinstance(row, BadRow))
    queries = [pair.query for pair in islice(pairs, QUERIES)]
    long = Writes(replier, LONG)
    same = sum(a == b for a, b in zip(long.cached(queries[:ROWS]), long.uncached(queries[:ROWS]), strict=True))
    systems: dict[str, Callable[[Sequence[str]], object]] = {
        "cached": long.cached,
        "uncached": long.uncached,
        "written": Writes(replier, SHORT).cached,
        "reply": lambda some: replier.reply([Pair(query) for query in some], top=1, seed=1),
    }
    shares = {name: QUERIES // ROWS for name in systems if name != "reply"}
    speeds = per_cpu_second(systems, queries, rounds=args.rounds, shares=shares)
    told("replies", speeds, args.out, rows=ROWS, model=args.model, same_with_and_without_caches=same)


if __name__ == "__main__":
    main()
