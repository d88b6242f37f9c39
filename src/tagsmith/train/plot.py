"""The picture of a run: its loss and dev metrics by step."""

from __future__ import annotations

import json
from pathlib import Path


def plot_losses(log: Path, picture: Path) -> None:
    """Draw `metrics.jsonl` as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    losses = [(row["step"], row["loss"]) for row in rows if "loss" in row]
    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    left = figure.add_subplot()
    left.plot(*(zip(*losses, strict=True) if losses else ([], [])), color="tab:blue", label="training loss")
    left.set_xlabel("step")
    left.set_ylabel("training loss")
    right = left.twinx()
    for name in ("dev_rouge1", "dev_f1@1", "dev_f1@5"):
        points = [(row["step"], row[name]) for row in rows if name in row]
        if points:
            right.plot(*zip(*points, strict=True), marker=".", label=name)
    right.set_ylabel("dev metrics")
    figure.legend(loc="outside upper center", ncols=4)
    figure.savefig(picture, dpi=110)
