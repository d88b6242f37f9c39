"""What a person sees: messages and progress on stderr, tables on a terminal; rich is imported when one is shown."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from tagsmith.errors import OutputError

Item = TypeVar("Item")


def say(message: str) -> None:
    """A line of talk; a terminal that cannot show a character gets an escape."""
    sys.stderr.write(message.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
    sys.stderr.flush()


def put(line: str) -> None:
    """A line of data."""
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise OutputError(f"cannot write the standard output: {problem.strerror}; write to another place") from None


def table(*columns: str) -> Any:
    """An empty rich table."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column)
    return made


def show(thing: Any) -> None:
    """Something rich can draw, on stdout."""
    from rich.console import Console

    Console(highlight=False).print(thing)


def show_scores(scores: dict[str, Any]) -> None:
    """Metrics as a table, a column for each part."""
    parts: dict[str, dict[str, float]] = {"all": scores, **scores.get("parts", {})}
    made = table("metric", *parts)
    for name in (name for name in scores if name != "parts"):
        cells = (part.get(name) for part in parts.values())
        made.add_row(name, *("" if cell is None else f"{cell:,}" if name == "n" else f"{cell:.4f}" for cell in cells))
    show(made)


class Counter:
    """How many rows are done, on stderr when it is a terminal."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        self._what = what
        self._quiet = quiet or not sys.stderr.isatty()
        self._bar: Any = None

    def __enter__(self) -> Self:
        if not self._quiet:
            self._bar = _progress("{task.completed:,.0f} rows")
            self._bar.start()
            self._task = self._bar.add_task(self._what, total=None)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, count: int) -> None:
        """So many more are done."""
        if self._bar is not None:
            self._bar.advance(self._task, count)

    def watch(self, items: Iterable[Item]) -> Iterator[Item]:
        """Count items as they pass."""
        for item in items:
            yield item
            self.add(1)


class TrainingTalk:
    """What a training run reports: a bar with loss and speed, and a line for each evaluation."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._bad = 0

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar = _progress("{task.completed:,.0f}/{task.total:,.0f} steps  {task.fields[detail]}")
            self._bar.start()
            self._task = self._bar.add_task("training", total=1, detail="")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def report(self, event: dict[str, Any]) -> None:
        """One event of the run."""
        kind = event["kind"]
        if kind == "step" and self._bar is not None:
            detail = f"loss {event['loss']:.3f}  {event['posts_per_second']:,.0f} posts/s"
            self._bar.update(self._task, completed=event["step"], total=event["steps"], detail=detail)
        elif kind == "step":
            speed = f"{event['posts_per_second']:,.0f} posts/s"
            say(f"step {event['step']:,}/{event['steps']:,}  loss {event['loss']:.4f}  {speed}")
        elif kind == "evaluation":
            scores = "  ".join(f"{name} {value:.4f}" for name, value in event.items() if isinstance(value, float))
            self._line(f"dev at step {event['step']:,}: {scores}")
        elif kind == "bad row":
            self._bad += 1
            if self._bad <= 5:
                self._line(event["text"])
        else:
            self._line(event["text"])

    def _line(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            say(text)


def _progress(columns: str) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(columns),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
