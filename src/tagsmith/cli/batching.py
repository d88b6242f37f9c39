"""A whole file or folder at once, on all cores or on a cluster: batch."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import typer

from tagsmith.cli.reading import TitleField, Top
from tagsmith.cli.replying import About, Beam, Block, Longest, Seed, topics_of
from tagsmith.cli.shared import Field, with_title
from tagsmith.cli.tagging import Vocab, With
from tagsmith.errors import ConfigError
from tagsmith.terminal import Counter, put, say

if TYPE_CHECKING:
    from tagsmith.cluster import Job
    from tagsmith.cluster.chunks import Part
    from tagsmith.cluster.run import Begin

EVERY = 60.0  # seconds between two lines of progress where there is no terminal


def batch(  # noqa: PLR0913 - one for each option
    input: Annotated[Path, typer.Argument(metavar="INPUT", help="A file, or a folder of files of one format.")],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="A new folder for the parts.")],
    model: Annotated[str, typer.Option(help="A shipped model or a folder; its task is what is done.")],
    format: Annotated[Literal["parquet", "jsonl"], typer.Option(help="Of the parts.")] = "parquet",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what is in OUTPUT.")] = False,
    engine: Annotated[Literal["local", "ray"], typer.Option(help="Processes of this machine, or Ray.")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Default: one for each core.")] = None,
    address: Annotated[str | None, typer.Option(help="Ray: HOST:PORT of the cluster, or auto.")] = None,
    gpus: Annotated[float, typer.Option("--gpus-per-worker", min=0.0, help="Ray: may be a fraction.")] = 0.0,
    part_rows: Annotated[int, typer.Option(min=1, help="Rows of a part, at most; a multiple of 2048 is best.")] = 8192,
    voices: With = None,
    top: Top = None,
    evidence: Annotated[bool, typer.Option("--evidence", help="Also what the answers rest on.")] = False,
    vocab: Vocab = None,
    seed: Seed = None,
    about: About = None,
    block: Block = None,
    longest: Longest = None,
    beam: Beam = None,
    title_field: TitleField = None,
    field: Field = None,
) -> int:
    """Answer every row of a file or folder: parts in the input's order, safe to kill, to be resumed."""
    from tagsmith.cluster import make_job, run_job
    from tagsmith.pipelines.work import Ask

    if engine != "ray" and (address is not None or gpus):
        raise ConfigError("--address and --gpus-per-worker are for --engine ray")
    ask = Ask(model, tuple(voices or ()), top, evidence, vocab, seed, topics_of(about), block, longest, beam)
    job = make_job(input, ask, fields=with_title(field, title_field), format=format, part_rows=part_rows)
    begin = _local(workers) if engine == "local" else _ray(workers, address, gpus)
    hush = _hushed() if engine == "ray" else nullcontext()
    try:
        with hush, _ended_as_interrupted(), _Talk() as talk:
            done = run_job(job, output, begin, resume=resume, on_begin=talk.begin, on_part=talk.part, on_lost=talk.lost)
    except KeyboardInterrupt:
        if output.exists():
            say(f"what is done stays in {output}; go on with --resume")
        raise
    if done.errors:
        say(f"{done.errors:,} of {done.rows:,} rows have an error; they are in their places")
    put(json.dumps({"output": str(output), "rows": done.rows, "errors": done.errors, "parts": done.parts}))
    return 1 if done.errors else 0


def _local(workers: int | None) -> Begin:
    from tagsmith.cluster.local import LocalTeam, cores
    from tagsmith.cluster.maker import Setup

    return lambda job: (LocalTeam(Setup.of(job)), workers or cores())


def _ray(workers: int | None, address: str | None, gpus: float) -> Begin:
    from tagsmith.cluster.maker import Setup
    from tagsmith.cluster.on_ray import RayTeam

    def begin(job: Job) -> tuple[RayTeam, int]:
        team = RayTeam(Setup.of(job, gpu=gpus > 0), address=address, gpus=gpus)
        room = team.room()
        return team, workers or room

    return begin


@contextmanager
def _ended_as_interrupted() -> Iterator[None]:
    """What a scheduler sends to end a job counts as Ctrl-C, so that no worker goes on alone."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _hushed() -> Iterator[None]:
    """Ray prints what happens to its nodes to stdout, where only data belongs."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        yield


class _Talk:
    """Progress: a bar on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._counter = Counter("answering")
        self._lines = not sys.stderr.isatty()
        self._rows = self._new = 0
        self._since = self._said = time.monotonic()

    def __enter__(self) -> Self:
        self._counter.__enter__()
        return self

    def __exit__(self, *how: Any) -> None:
        self._counter.__exit__(*how)

    def begin(self, rows: int) -> None:
        """So many were done by an earlier run."""
        self._rows = rows
        self._counter.add(rows)
        self._since = self._said = time.monotonic()

    def part(self, part: Part) -> None:
        """A part is in place."""
        self._rows += part.rows
        self._new += part.rows
        self._counter.add(part.rows)
        now = time.monotonic()
        if self._lines and now - self._said >= EVERY:
            say(f"{self._rows:,} rows done, {self._new / (now - self._since):,.0f} rows/s")
            self._said = now

    def lost(self, why: str) -> None:
        """A worker ended."""
        say(f"a worker ended and is replaced: {why}")
