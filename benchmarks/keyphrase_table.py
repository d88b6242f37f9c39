"""Train the rows of the keyphrase table from their recipes and measure them on the tests; print the table.

    python benchmarks/keyphrase_table.py run tf tf-sm tf-rmha tf-sm-rmha rnn --root data --shared-cache terms \
        --test data/keyphrase/krapivin/test.jsonl.zst --test data/keyphrase/www/test.jsonl.zst --out results.jsonl
    python benchmarks/keyphrase_table.py show results.jsonl

catSeq writes without kinds and has a cache of its own. F1 is the harmonic mean of mean precision and mean recall, as
the paper has it; behind present F1@M stands its bootstrap interval, and behind its mean what follows from those.
"""

from __future__ import annotations

from math import hypot
from pathlib import Path
from statistics import mean
from typing import Any

from rows import Runner, parse, read_results

METRICS = ("present_f1@5", "present_f1@M", "absent_f1@5", "absent_f1@M")
MEAN_OF = ("krapivin", "semeval2010", "www", "acm")  # the tests that decide the order of rows
PAPER = {  # Table 8: present F1@M and F1@5 on Inspec, Krapivin, SemEval-2010, KP20k, trained on 500,000 documents
    "catseq": (0.276, 0.233, 0.344, 0.269, 0.313, 0.262, 0.368, 0.295),
    "rnn": (0.288, 0.248, 0.344, 0.281, 0.326, 0.274, 0.374, 0.311),
    "tf": (0.278, 0.232, 0.329, 0.272, 0.310, 0.258, 0.364, 0.300),
    "tf-sm": (0.280, 0.235, 0.334, 0.275, 0.319, 0.266, 0.372, 0.304),
    "tf-rmha": (0.289, 0.244, 0.336, 0.277, 0.325, 0.278, 0.372, 0.313),
    "tf-sm-rmha": (0.293, 0.254, 0.351, 0.286, 0.337, 0.289, 0.375, 0.316),
}
PAPER_TESTS = ("inspec", "krapivin", "semeval2010", "kp20k_sample")


def show(path: Path) -> None:
    """A table of all tests, one of the mean that decides, and the paper's."""
    lines = read_results(path)
    rows = list(dict.fromkeys(line["row"] for line in lines))
    found = {(line["row"], line["test"]): line for line in lines}
    print("| row | test | documents | " + " | ".join(METRICS) + " | predicted | paper: present F1@5 / F1@M |")
    print("|---" * (len(METRICS) + 5) + "|")
    for (row, test), line in found.items():
        cells = " | ".join(_cell(line, name) for name in METRICS)
        print(f"| {row} | {test} | {line['n']:,} | {cells} | {line['predicted']:.1f} | {_paper(row, test)} |")
    print(f"\n| row | present F1@M, mean of {', '.join(MEAN_OF)} | paper: mean of {', '.join(PAPER_TESTS)} |")
    print("|---|---|---|")
    for row in rows:
        own = [found[row, test] for test in MEAN_OF if (row, test) in found]
        if len(own) == len(MEAN_OF):
            paper = f"{100 * mean(PAPER[row][::2]):.1f}" if row in PAPER else "–"
            print(f"| {row} | {_mean(own)} | {paper} |")


def _mean(lines: list[dict[str, Any]]) -> str:
    """Of independent tests, whose intervals add up like the sides of a right angle."""
    widths = [high - low for low, high in (line["intervals"]["present_f1@M"] for line in lines)]
    return f"{100 * mean(line['present_f1@M'] for line in lines):.1f} ± {100 * hypot(*widths) / 2 / len(lines):.1f}"


def _cell(line: dict[str, Any], name: str) -> str:
    shown = f"{100 * line[name]:.1f}"
    if name != "present_f1@M":
        return shown
    low, high = line["intervals"][name]
    return f"{shown} ({100 * low:.1f} to {100 * high:.1f})"


def _paper(row: str, test: str) -> str:
    figures: Any = PAPER.get(row)
    if figures is None or test not in PAPER_TESTS:
        return "–"
    place = 2 * PAPER_TESTS.index(test)
    return f"{100 * figures[place + 1]:.1f} / {100 * figures[place]:.1f}"


def main() -> None:
    args = parse(__doc__)
    if args.command == "show":
        show(args.results)
    else:
        Runner(args, "keyphrase").go()


if __name__ == "__main__":
    main()
