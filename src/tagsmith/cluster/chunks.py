"""Input files, and the chunks they are cut into: always the same chunks for the same files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tagsmith.data.readers import format_of
from tagsmith.errors import ConfigError, DataError
from tagsmith.pipelines.work import Reads, read

PART_ROWS = 8192  # a multiple of what a pipeline sorts together: chunks then meet the model as a whole file does


@dataclass(frozen=True, slots=True)
class Place:
    """Which chunk of which file."""

    file: int
    chunk: int
    last: bool = False  # of its file


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows to be answered together: records, and BadRows in their places."""

    place: Place
    rows: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A chunk's answers as the bytes of a file, and what they took."""

    place: Place
    rows: int
    errors: int  # rows that have one
    data: bytes
    cpu_seconds: float
    worker: str  # where it was made: host and process


def find_inputs(given: Path) -> list[Path]:
    """The file, or all files of a folder and its folders, by name; those that begin with . or _ are no data."""
    if str(given) == "-":
        raise ConfigError("batch reads files, so that it can resume; for stdin take `tagsmith tag --input -`")
    if not given.exists():
        raise DataError(f"there is no file or folder {given}; check its name")
    if given.is_file():
        format_of(given)
        return [given]
    inside = sorted(path for path in given.rglob("*") if path.is_file())
    found = [path for path in inside if not any(part[0] in "._" for part in path.relative_to(given).parts)]
    if not found:
        raise DataError(f"the folder {given} has no files; put JSONL, CSV, TSV or Parquet files there")
    kinds = {format_of(path).kind: path for path in reversed(found)}
    if len(kinds) > 1:
        shown = ", ".join(f"{path.relative_to(given)} is {kind}" for kind, path in sorted(kinds.items()))
        raise DataError(f"the folder {given} mixes formats: {shown}; put each format in a folder of its own")
    return found


def check_inputs(files: Sequence[Path], reads: Reads, fields: Mapping[str, str]) -> None:
    """Every file opens and has the columns asked for, told before hours of work."""
    for path in files:
        next(read(reads, path, rename=fields), None)


def cut(
    files: Sequence[Path],
    reads: Reads,
    fields: Mapping[str, str],
    rows: int,
    *,
    skip_file: Callable[[int], bool] = lambda file: False,
    skip: Callable[[Place], bool] = lambda place: False,
) -> Iterator[Chunk]:
    """The chunks of all files in order, none across two files; those to be skipped are read over."""
    for file, path in enumerate(files):
        if skip_file(file):
            continue
        rest = read(reads, path, rename=fields)
        ahead = tuple(islice(rest, rows))
        chunk = 0
        while ahead:
            some, ahead = ahead, tuple(islice(rest, rows))
            place = Place(file, chunk, last=not ahead)
            chunk += 1
            if not skip(place):
                yield Chunk(place, some)
