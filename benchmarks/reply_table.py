"""Train the rows of the reply table from their recipes and measure them, drawn and searched; print the tables.

    python benchmarks/reply_table.py run chat-en-full chat-en-lm chat-en-s2s chat-en-backward ... \
        --test data/reply/chat_en/test.jsonl.zst --root data --shared-cache chat-en --out results.jsonl
    python benchmarks/reply_table.py show results.jsonl [relevance.jsonl]

Every row is measured with replies drawn from the 20 likeliest tokens (`drawn`) and with a beam of ten (`beam`). MMI is
the s2s row judged by the backward one (`mmi`), which must have been trained before and has a cache of its own. The
replies that were measured lie in the row's folder as TEST-WAY.jsonl, for reply_relevance.py, whose results `show` takes
as a second file. It prints what the paper has in Table 1, in Table 3 and in Figure 4; a row that was trained several
times stands there once, with the mean of its runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rows import Runner, Ways, parse, read_results

Line = dict[str, Any]

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


PAPER_DRAWN = {  # Table 3: relevance as people rated it, from 0 to 3, and DIST-2, each with its printed change
    "lm": "1.273 (-0.14), 0.441 (+0.18)",
    "s2s": "1.270 (-0.15), 0.507 (+0.22)",
    "full": "1.606 (+0.10), 0.544 (+0.20)",
}


def ways_of(rows: list[str]) -> dict[str, Ways]:
    """How each row is measured."""
    found: dict[str, Ways] = {}
    for row in rows:
        language = row.rsplit("-", 1)[0]
        judged = {"mmi": ("--with", f"{{runs}}/{language}-backward/bundle")} if row.endswith("-s2s") else {}
        found[row] = {} if row.endswith("-backward") else {**BOTH, **judged}
    return found


class ReplyRunner(Runner):
    """Besides keeps the replies: one to each query, from the seed that `evaluate` has."""

    def _measure(self, row: str, test: str, way: str, words: Sequence[str]) -> bool:
        folder = self.args.runs / row
        said = folder / f"{Path(test).parent.name}-{way}.jsonl"
        if not said.exists():
            told = [word.format(runs=self.args.runs) for word in words]
            command = ["reply", "--model", str(folder / "bundle"), "--input", test, "--output", str(said)]
            if self._tagsmith([*command, "--top", "1", "--seed", "1", *told], folder / "log.txt"):
                return False
        return super()._measure(row, test, way, words)


def show(path: Path, relevance: Path | None) -> None:
    """One line for each row and way, and what drawing changes beside searching."""
    lines = means(read_results(path))
    near = {(one["row"], one["way"]): one for one in (read_results(relevance) if relevance else [])}
    heads = (*METRICS, "repetition_rate")
    print("| row | way | runs | queries | " + " | ".join(heads) + " | paper: p2 p3 p4, HIT-Q, HIT-R, DIST-1, DIST-2 |")
    print("|---" * (len(heads) + 5) + "|")
    for line in lines:
        cells = " | ".join(_cell(name, line.get(name)) for name in heads)
        paper = PAPER.get((_kind(line), line.get("way", "")))
        beside = ", ".join(map(str, paper)) if paper else "–"
        print(f"| {line['row']} | {line.get('way', '')} | {line['runs']} | {line['n']:,} | {cells} | {beside} |")
    found = {(line["row"], line.get("way", "")): line for line in lines}
    both = [
        (found[row, "beam"], line) for (row, way), line in found.items() if way == "drawn" and (row, "beam") in found
    ]
    _show_drawing(both, near)
    _show_faults(both)


def means(lines: Sequence[Line]) -> list[Line]:
    """One line for each row and way, with the mean of its runs."""
    runs: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        runs[line["row"], line.get("way", "")].append(line)
    return [
        {
            **own[0],
            **{name: fmean(one[name] for one in own) for name, value in own[0].items() if isinstance(value, float)},
            "runs": len(own),
        }
        for own in runs.values()
    ]


def _show_drawing(both: Sequence[tuple[Line, Line]], near: dict[tuple[str, str], Line]) -> None:
    """Table 3: relevance and DIST-2 of drawn replies, and by how much they differ from those of searched ones."""
    print("\n| row | relevance, drawn | beam | by chance | DIST-2, drawn | beam | paper: relevance, DIST-2 |")
    print("|---" * 7 + "|")
    for searched, drawn in both:
        row = drawn["row"]
        measured = [near.get((row, "drawn"), {}).get("relevance"), near.get((row, "beam"), {}).get("relevance")]
        measured.append(near.get((row, "drawn"), {}).get("chance"))
        cells = " | ".join(_cell("relevance", value) for value in measured)
        dist = f"{_cell('dist2', drawn['dist2'])} | {_cell('dist2', searched['dist2'])}"
        print(f"| {row} | {cells} | {dist} | {PAPER_DRAWN.get(_kind(drawn), '–')} |")


def _show_faults(both: Sequence[tuple[Line, Line]]) -> None:
    """Figure 4: how many replies copy their query, how many repeat themselves, percent."""
    print("\n| row | copies, beam | drawn | change | repeats itself, beam | drawn |")
    print("|---" * 6 + "|")
    for searched, drawn in both:
        copies = [one["copy_rate"] for one in (searched, drawn)]
        change = f"{100 * (copies[1] / copies[0] - 1):+.0f} %" if copies[0] else "–"
        cells = [f"{100 * value:.1f}" for value in copies] + [change]
        cells += [f"{100 * one['repetition_rate']:.1f}" for one in (searched, drawn)]
        print(f"| {drawn['row']} | " + " | ".join(cells) + " |")


def _kind(line: Line) -> str:
    kind: str = line["row"].split("-", 2)[-1]  # chat-en-no-source: no-source
    return kind


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if name in (*SHARES, "relevance") else f"{100 * value:.1f}"


def main() -> None:
    args = parse(__doc__)
    if args.command == "show":
        show(args.results, args.more)
    else:
        ReplyRunner(args, "reply", ways_of(args.rows)).go()


if __name__ == "__main__":
    main()
