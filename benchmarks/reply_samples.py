"""A page of replies nobody picked: the first queries of the test files, one seed, as the shipped models answer.

    python benchmarks/reply_samples.py --en data/reply/chat_en/test.jsonl.zst --zh data/reply/chat_zh/test.jsonl.zst

It writes docs/models/replies.md.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path
from typing import Any

import tagsmith
from tagsmith.data.readers import BadRow, read_rows
from tagsmith.records import Pair, pair_of

PAGE = Path(__file__).parent.parent / "docs" / "models" / "replies.md"
QUERIES, SEED, TOP = 20, 1, 2
HEAD = f"""# Replies, unpicked

The first {QUERIES} queries of each test file, seed {SEED}, the {TOP} replies of the shipped models with their scores,
and what a person replied. Nothing was left out or drawn again; `python benchmarks/reply_samples.py --en FILE --zh FILE`
makes this page anew. Many miss the point: see [relevance.md](relevance.md) for what the models are, and their cards for
what they must not be used for.
"""


def lines_of(model: str, path: str) -> list[str]:
    """A table of one model."""
    rows = (row for row in read_rows(path) if not isinstance(row, BadRow))
    pairs: list[Pair] = [pair_of(row) for row in islice(rows, QUERIES)]
    replier: Any = tagsmith.load(model)
    lines = ["", f"## {model}", "", "| query | a person | the model |", "|---|---|---|"]
    for pair, answer in zip(pairs, replier.reply(pairs, top=TOP, seed=SEED), strict=True):
        said = "<br>".join(f"{_cell(one.text)} ({one.score:.2f})" for one in answer.replies) or "–"
        lines.append(f"| {_cell(pair.query)} | {_cell(pair.responses[0])} | {said} |")
    return lines


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--en", required=True)
    parser.add_argument("--zh", required=True)
    args = parser.parse_args()
    lines = [*lines_of("reply-en", args.en), *lines_of("reply-zh", args.zh)]
    PAGE.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
