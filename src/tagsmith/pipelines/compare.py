"""Systems side by side on texts whose keyphrases or hashtags are known: quality, speed, memory.

file --read_gold--> Gold --each system in a process of its own--> answers --metrics--> a row for each system
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from tagsmith.data.readers import BadRow, good, read_documents, read_posts, read_rows
from tagsmith.errors import DataError
from tagsmith.metrics.phrases import MAIN, ScoredDocument, keyphrase_metrics
from tagsmith.metrics.tags import Scored, hashtag_metrics
from tagsmith.pipelines.alone import Outcome, run_alone, write_texts
from tagsmith.pipelines.systems import Item, plain_text
from tagsmith.records import Document, Post

Kind = Literal["documents", "posts"]
METRICS: dict[Kind, tuple[str, ...]] = {"documents": MAIN, "posts": ("f1@1", "f1@5", "r@10")}
TOP: dict[Kind, int] = {"documents": 10, "posts": 5}
COSTS = ("texts_per_cpu_second", "load_seconds", "peak_megabytes")
HEAD = 100  # readable rows looked at to tell documents from posts


@dataclass(frozen=True)
class Gold:
    """Texts whose phrases are known."""

    kind: Kind
    items: Sequence[Item]
    without: int = 0  # rows that were left out because they have no phrases


def read_gold(path: str, *, rename: Mapping[str, str], limit: int | None, on_bad: Callable[[BadRow], None]) -> Gold:
    """The documents with keyphrases or the posts with tags of a file, among its first `limit` readable rows."""
    if path == "-":
        return _read_stdin(rename=rename, limit=limit, on_bad=on_bad)
    kind = kind_of(path, rename)
    rows: Iterator[Item | BadRow]
    rows = read_documents(path, rename=rename) if kind == "documents" else read_posts(path, rename=rename)
    every: list[Item] = list(islice(good(rows, on_bad), limit))
    items = [item for item in every if _gold_of(item)]
    if not items:
        wanted = "a text and keyphrases" if kind == "documents" else "a text and hashtags"
        raise DataError(
            f"{path} has no row with {wanted} among the {len(every)} that could be read; nothing to compare"
        )
    return Gold(kind, items, len(every) - len(items))


def _read_stdin(**options: Any) -> Gold:
    """The same from stdin, which is kept in a file because it is looked at twice."""
    with tempfile.TemporaryDirectory(prefix="tagsmith-") as folder:
        copy = Path(folder, "stdin.jsonl")
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            return read_gold(str(copy), **options)
        except DataError as problem:
            raise DataError(str(problem).replace(str(copy), "stdin")) from None


def kind_of(path: str, rename: Mapping[str, str]) -> Kind:
    """Documents if the first rows have keyphrases, posts if they have hashtags or tags."""
    bad: list[BadRow] = []
    rows = list(islice(good(read_rows(path, rename=rename), bad.append), HEAD))
    fields = {name for row in rows for name, value in row.items() if value is not None}
    if "keyphrases" in fields:
        return "documents"
    if fields & {"hashtags", "tags"}:
        return "posts"
    if not rows:
        first = f" (row {bad[0].number}: {bad[0].problem})" if bad else ""
        raise DataError(f"{path} has no row that can be read{first}; give JSON lines, CSV, TSV or Parquet")
    names = ", ".join(map(repr, sorted(fields))) or "none"
    raise DataError(
        f"{path} does not say what is right (the fields of its first rows: {names}); "
        "documents need 'keyphrases', posts 'hashtags' or 'tags'; rename a field with `--field keyphrases=NAME`"
    )


class Comparison:
    """Asks one system after the other, the same of each; holds a temporary file of the texts while it is open."""

    def __init__(self, gold: Gold, *, top: int | None = None) -> None:
        self.gold = gold
        self.top = top or TOP[gold.kind]

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="tagsmith-")
        self._file = Path(self._folder.name, "texts.jsonl")
        write_texts(self.gold.items, self._file)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._folder.cleanup()

    def run(self, name: str, on_answer: Callable[[int], None] = lambda count: None) -> dict[str, Any]:
        """The row of one system; a system that fails has only "error"."""
        outcome = run_alone(name, self.gold.kind, self.top, self._file, on_answer)
        metrics = METRICS[self.gold.kind]
        row: dict[str, Any] = {"system": name, "kind": self.gold.kind, "n": len(self.gold.items), "top": self.top}
        if outcome.error is not None:
            values: dict[str, Any] = {}
        else:
            values = {**quality(self.gold, [one[: self.top] for one in outcome.phrases]), **_cost(outcome)}
        columns = (*metrics, "predicted", *COSTS)
        return {**row, **{name: values.get(name) for name in columns}, "error": outcome.error}


def quality(gold: Gold, answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """The metrics of the answers, and how many phrases were given on average."""
    pairs = list(zip(gold.items, answers, strict=True))
    if gold.kind == "documents":
        found = keyphrase_metrics(
            ScoredDocument(plain_text(item), phrases, item.keyphrases, variants=item.variants)
            for item, phrases in pairs
            if isinstance(item, Document)
        )
    else:
        found = hashtag_metrics(Scored(phrases, item.tags) for item, phrases in pairs if isinstance(item, Post))
    given = sum(map(len, answers)) / len(answers)
    return {**{name: round(found[name], 6) for name in METRICS[gold.kind]}, "predicted": round(given, 2)}


def _cost(outcome: Outcome) -> dict[str, float | None]:
    seconds, load, peak = outcome.cpu_seconds or 0.0, outcome.load_seconds or 0.0, outcome.peak_megabytes
    return {
        "texts_per_cpu_second": round(len(outcome.phrases) / max(seconds, 1e-6), 1),
        "load_seconds": round(load, 2),
        "peak_megabytes": None if peak is None else round(peak, 1),
    }


def _gold_of(item: Item) -> tuple[str, ...]:
    return item.keyphrases if isinstance(item, Document) else item.tags
