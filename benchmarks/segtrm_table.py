"""Train the rows of SEGTRM's table from their recipes and measure them on a test file; print the table.

    python benchmarks/segtrm_table.py run thg-transabs thg-soft --test data/hashtag/thg/test.jsonl.zst --root data \
        --runs runs --shared-cache thg --out results.jsonl [--jobs 2] [--seconds 560] [--set train.compile=false]
    python benchmarks/segtrm_table.py show results.jsonl

`--jobs 2` trains two rows side by side on one GPU. What is finished is not done again.
"""

from __future__ import annotations

from pathlib import Path

from rows import Runner, parse, read_results

METRICS = ("rouge1", "rouge2", "rougeL", "f1@1", "f1@5_full", "r@10", "unseen_r@10")
PAPER = {  # Table 2: ROUGE-1, ROUGE-2, ROUGE-L, F1@1, F1@5 on the paper's own corpora
    "whg-transabs": (52.13, 46.62, 51.05, 25.47, 28.32),
    "whg-hardbase": (54.53, 50.26, 53.29, 30.11, 31.01),
    "whg-hard": (55.40, 51.32, 54.12, 30.73, 31.76),
    "whg-softbase": (52.62, 48.70, 51.41, 28.62, 30.58),
    "whg-soft": (55.51, 51.28, 54.30, 30.72, 32.21),
    "thg-transabs": (43.71, 27.18, 39.29, 23.22, 23.27),
    "thg-hardbase": (46.37, 30.71, 41.73, 24.35, 26.32),
    "thg-hard": (47.25, 31.78, 42.63, 25.31, 27.07),
    "thg-softbase": (50.00, 35.48, 45.82, 26.02, 28.59),
    "thg-soft": (51.18, 37.15, 47.05, 27.17, 29.02),
}


def show(path: Path) -> None:
    """The rows as a Markdown table, the paper's figures beside ours, and each part of each test."""
    print("| row | part | posts | ROUGE-1 | ROUGE-2 | ROUGE-L | F1@1 | F1@5 | R@10 | unseen found | paper: R1/R2/RL |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for line in read_results(path):
        paper = "/".join(f"{value:.1f}" for value in PAPER.get(line["row"], ())[:3]) or "–"
        for part, scores in {"all": line, **line.get("parts", {})}.items():
            cells = (f"{100 * scores[name]:.1f}" if name in scores else "–" for name in METRICS)
            print(
                f"| {line['row']} | {part} | {scores['n']:,} | {' | '.join(cells)} | {paper if part == 'all' else ''} |"
            )


def main() -> None:
    args = parse(__doc__)
    if args.command == "show":
        show(args.results)
    else:
        Runner(args, "hashtag").go()


if __name__ == "__main__":
    main()
