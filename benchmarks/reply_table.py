"""Train the rows of the reply table from their recipes and measure them, drawn and searched; print the tables.

    python benchmarks/reply_table.py run chat-en-full chat-en-lm chat-en-s2s chat-en-backward ... \
        --test data/reply/chat_en/test.jsonl.zst --root data --shared-cache chat-en --out results.jsonl
    python benchmarks/reply_table.py show results.jsonl

Every row is measured with replies drawn from the 20 likeliest tokens (`drawn`) and with a beam of ten (`beam`). MMI is
the s2s row judged by the backward one (`mmi`), which must have been trained before and has a cache of its own.
"""

from __future__ import annotations

from pathlib import Path

from rows import Runner, Ways, parse, read_results

METRICS = ("bleu2", "bleu3", "bleu4", "p2", "p3", "p4", "hit_q", "hit_r", "dist1", "dist2", "copy_rate")
SHARES = ("hit_q", "hit_r", "dist1", "dist2")  # between 0 and 1 in the paper
BOTH: Ways = {"drawn": (), "beam": ("--beam", "10")}
PAPER = {  # Table 1: "BLEU" 2, 3, 4 (probably n-gram precisions), HIT-Q, HIT-R, DIST-1, DIST-2; seven million pairs
    ("s2s", "beam"): (7.3, 3.5, 2.3, 0.369, 0.172, 0.078, 0.290),
    ("s2s", "mmi"): (7.9, 2.5, 1.0, 0.197, 0.145, 0.093, 0.349),
    ("lm", "beam"): (6.9, 3.2, 2.1, 0.295, 0.144, 0.058, 0.259),
    ("lm", "drawn"): (4.9, 1.0, 0.3, 0.119, 0.076, 0.086, 0.441),
    ("no-source", "drawn"): (5.5, 2.1, 1.5, 0.150, 0.146, 0.102, 0.521),
    ("no-topics", "drawn"): (5.1, 2.1, 1.4, 0.171, 0.132, 0.090, 0.445),
    ("full", "beam"): (10.3, 5.3, 3.4, 0.510, 0.193, 0.102, 0.398),
    ("full", "drawn"): (6.0, 3.6, 2.5, 0.191, 0.152, 0.107, 0.544),
}


def ways_of(rows: list[str]) -> dict[str, Ways]:
    """How each row is measured."""
    found: dict[str, Ways] = {}
    for row in rows:
        language = row.rsplit("-", 1)[0]
        judged = {"mmi": ("--with", f"{{runs}}/{language}-backward/bundle")} if row.endswith("-s2s") else {}
        found[row] = {} if row.endswith("-backward") else {**BOTH, **judged}
    return found


def show(path: Path) -> None:
    """One line for each row and way."""
    heads = (*METRICS, "repetition_rate")
    print("| row | way | queries | " + " | ".join(heads) + " | paper: p2 p3 p4, HIT-Q, HIT-R, DIST-1, DIST-2 |")
    print("|---" * (len(heads) + 4) + "|")
    for line in read_results(path):
        cells = " | ".join(_cell(name, line.get(name)) for name in heads)
        paper = PAPER.get((line["row"].split("-", 2)[-1], line.get("way", "")))  # chat-en-no-source: no-source
        beside = ", ".join(map(str, paper)) if paper else "–"
        print(f"| {line['row']} | {line.get('way', '')} | {line['n']:,} | {cells} | {beside} |")


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if name in SHARES else f"{100 * value:.1f}"


def main() -> None:
    args = parse(__doc__)
    if args.command == "show":
        show(args.results)
    else:
        Runner(args, "reply", ways_of(args.rows)).go()


if __name__ == "__main__":
    main()
