"""The command that shows systems side by side: compare."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagsmith.cli.shared import AsJson, Field, fields_of, say_bad
from tagsmith.errors import ConfigError
from tagsmith.terminal import Counter, put, say, show, table

if TYPE_CHECKING:
    from tagsmith.data.readers import BadRow

HEADS = {  # short, so that a terminal of 80 columns has room
    "predicted": "given",
    "texts_per_cpu_second": "texts/\nCPU s",
    "load_seconds": "s to\nload",
    "peak_megabytes": "peak\nMB",
}


def compare(
    file: Annotated[str, typer.Argument(help="Documents with keyphrases, or posts with hashtags; - is stdin.")],
    models: Annotated[
        str,
        typer.Option(
            help="Names with commas between: shipped models, folders of your own, tfidf, textrank, singlerank, "
            "noun-phrases; yake and keybert where they are installed."
        ),
    ],
    top: Annotated[
        int | None, typer.Option(min=1, max=100, help="Phrases asked of each; default: 10 for documents, 5 for posts.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many rows.")] = None,
    field: Field = None,
    as_json: AsJson = False,
) -> int:
    """Compare models and baselines on your own data: quality, speed and memory in one table."""
    from tagsmith.pipelines.compare import Comparison, read_gold
    from tagsmith.pipelines.systems import check_systems

    names = [name.strip() for name in models.split(",") if name.strip()]
    if not names:
        raise ConfigError(f"--models takes names with commas between, not {models!r}; try --models tfidf,textrank")
    check_systems(names)
    bad: list[BadRow] = []
    gold = read_gold(file, rename=fields_of(field), limit=limit, on_bad=bad.append)
    say_bad(bad)
    if gold.without:
        say(f"{gold.without} rows without {'keyphrases' if gold.kind == 'documents' else 'hashtags'} left out")
    rows: list[dict[str, Any]] = []
    lines = as_json or not sys.stdout.isatty()
    with Comparison(gold, top=top) as comparison:
        for name in names:
            with Counter(name) as counter:
                rows.append(comparison.run(name, counter.add))
            if rows[-1]["error"] is not None:
                say(f"{name} failed: {rows[-1]['error']}")
            if lines:
                put(json.dumps(rows[-1], ensure_ascii=False))
    if not lines:
        _show(rows)
    return 1 if bad or any(row["error"] is not None for row in rows) else 0


def _show(rows: Sequence[dict[str, Any]]) -> None:
    """The rows as a table; a system that failed has no numbers."""
    columns = [name for name in rows[0] if name not in ("system", "kind", "n", "top", "error")]
    made = table("system", *(HEADS.get(name, name.replace("_", "\n")) for name in columns))
    made.collapse_padding = True
    made.columns[0].overflow = "fold"  # the path of a folder may be long
    for row in rows:
        made.add_row(row["system"], *(_cell(name, row[name]) for name in columns))
    show(made)
    say(f"{rows[0]['n']:,} {rows[0]['kind']}, {rows[0]['top']} phrases asked of each")


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if "@" in name else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
