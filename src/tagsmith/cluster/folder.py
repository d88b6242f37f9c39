"""The output folder of a job: parts that appear whole or not at all, and a record of what is done.

OUTPUT/
├── _manifest.json          what the job is; at the end also how many rows it gave
├── _parts.log              a line of JSON for each part that is in place
└── part-00000-000000.parquet ...   file and chunk it comes from: by name they are in the order of the input

Readers of Parquet folders pass over names with an underscore. A part is written beside, synced and renamed, then noted;
after a kill at any point a part is either noted, or done again under the same name.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tagsmith.cluster.chunks import Part, Place
from tagsmith.cluster.job import Job
from tagsmith.data.writers import Place as Beside
from tagsmith.data.writers import explained
from tagsmith.errors import OutputError

MANIFEST = "_manifest.json"
LOG = "_parts.log"


@dataclass(frozen=True)
class Done:
    """A part that is in place."""

    place: Place
    rows: int
    errors: int
    size: int  # bytes
    cpu_seconds: float
    worker: str

    def line(self) -> str:
        place = {"file": self.place.file, "chunk": self.place.chunk, "last": self.place.last}
        facts = {"rows": self.rows, "errors": self.errors, "bytes": self.size}
        return json.dumps({**place, **facts, "cpu_seconds": self.cpu_seconds, "worker": self.worker}) + "\n"

    @classmethod
    def of(cls, line: str) -> Done | None:
        """None for a line that was cut off."""
        try:
            row = json.loads(line)
            place = Place(row["file"], row["chunk"], row["last"])
            return cls(place, row["rows"], row["errors"], row["bytes"], row["cpu_seconds"], row["worker"])
        except (ValueError, KeyError, TypeError):
            return None


class Folder:
    """The output of one job, written by one process at a time."""

    def __init__(self, path: Path, job: Job, log: BinaryIO, done: dict[tuple[int, int], Done]) -> None:
        self.path = path
        self.job = job
        self._log = log
        self.done = done
        self._chunks: dict[int, int] = defaultdict(int)  # of each file: how many are done
        self._lasts: dict[int, int] = {}
        for one in done.values():
            self._count(one)

    @property
    def parts(self) -> int:
        return len(self.done)

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.done.values())

    @property
    def errors(self) -> int:
        return sum(one.errors for one in self.done.values())

    def has(self, place: Place) -> bool:
        """Is this chunk done?"""
        return (place.file, place.chunk) in self.done

    def has_file(self, file: int) -> bool:
        """Are all chunks of this file done? Then it need not be read again."""
        return file in self._lasts and self._chunks[file] == self._lasts[file] + 1

    def put(self, part: Part) -> None:
        """Bring a part into place and note it."""
        path = self.path / part_name(part.place, self.job.format)
        write_whole(path, part.data)
        size = len(part.data)
        one = Done(part.place, part.rows, part.errors, size, part.cpu_seconds, part.worker)
        with explained(self.path / LOG):
            self._log.write(one.line().encode())
            self._log.flush()
            os.fsync(self._log.fileno())
        self.done[part.place.file, part.place.chunk] = one
        self._count(one)

    def finish(self) -> None:
        """All chunks are done: the manifest says so."""
        told = {"finished": True, "rows": self.rows, "errors": self.errors, "parts": self.parts}
        write_manifest(self.path, self.job, told)

    def _count(self, one: Done) -> None:
        self._chunks[one.place.file] += 1
        if one.place.last:
            self._lasts[one.place.file] = one.place.chunk


@contextmanager
def open_folder(path: Path, job: Job) -> Iterator[Folder]:
    """The folder with what an earlier run of this very job left in it; locked while it is open."""
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"{path} is being written by another batch; wait for it, or stop it first") from None
        except OSError:
            pass  # a file system without locks
        if (path / MANIFEST).exists():
            check_same(path, job)
        elif held(path):  # since it was looked at
            raise OutputError(f"{path} is not empty; choose another folder")
        else:
            write_manifest(path, job, {"finished": False})
        clear(path)
        done = read_log(path, job)
        write_whole(path / LOG, "".join(one.line() for one in done.values()).encode())  # without lines that were cut
        with explained(path / LOG):
            log = open(path / LOG, "ab")  # noqa: SIM115 - closed by the next line
        with log:
            yield Folder(path, job, log, done)
    finally:
        os.close(lock)


def check_output(path: Path, given: Path, *, resume: bool) -> dict[str, Any] | None:
    """May the job be written there? Gives the manifest of the job to resume, if there is one."""
    if path.exists() and not path.is_dir():
        raise OutputError(f"{path} is a file; name a folder for the parts")
    if given.is_dir() and path.resolve().is_relative_to(given.resolve()):
        raise OutputError(f"{path} lies inside the input {given}; choose a folder outside it")
    found = path / MANIFEST
    if not held(path):
        return None
    if not resume:
        way_out = "go on with --resume, or choose another folder" if found.exists() else "choose another folder"
        raise OutputError(f"{path} is not empty; {way_out}")
    if not found.exists():
        raise OutputError(f"{path} is not empty and holds no batch job to resume; choose another folder")
    return read_manifest(path)


def check_same(path: Path, job: Job) -> None:
    """Does the folder hold this very job?"""
    there = read_manifest(path)["job"]
    for name, now in job.facts().items():
        before = there.get(name)
        if before != now:
            raise OutputError(
                f"{path} holds another job: its {_difference(name, before, now)}; "
                f"give what it was started with, or choose another folder"
            )


def _difference(name: str, before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        key = next(key for key in {**before, **now} if before.get(key) != now.get(key))
        return f"{name.rstrip('s')} {key!r} was {before.get(key)!r:.40}, not {now.get(key)!r:.40}"
    if name == "inputs" and isinstance(before, list) and len(before) == len(now):
        old, new = next((old, new) for old, new in zip(before, now, strict=True) if old != new)
        return f"input {old[0]!r} was " + (f"not {new[0]!r}" if old[0] != new[0] else "changed since")
    if name == "inputs":
        return f"input was {len(before or ())} files, not {len(now)}"
    return f"{name} was {before!r:.60}, not {now!r:.60}"


def held(path: Path) -> bool:
    """Is there anything in the folder?"""
    with explained(path):
        return path.is_dir() and any(path.iterdir())


def part_name(place: Place, format: str) -> str:
    return f"part-{place.file:05}-{place.chunk:06}.{format}"


def read_manifest(path: Path) -> dict[str, Any]:
    try:
        found = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if isinstance(found, dict) and isinstance(found.get("job"), dict):
            return found
        problem: Any = "it holds no job"
    except (OSError, ValueError) as error:
        problem = error
    raise OutputError(f"{path / MANIFEST} cannot be read: {problem}; choose another folder") from None


def write_manifest(path: Path, job: Job, told: dict[str, Any]) -> None:
    text = json.dumps({**told, "job": job.facts()}, indent=1, ensure_ascii=False) + "\n"
    write_whole(path / MANIFEST, text.encode("utf-8", "backslashreplace"))


def read_log(path: Path, job: Job) -> dict[tuple[int, int], Done]:
    """What is noted and lies there whole."""
    try:
        lines = (path / LOG).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        raise OutputError(f"{path / LOG} cannot be read: {problem}; choose another folder") from None
    done = {}
    for one in filter(None, map(Done.of, lines)):
        part = path / part_name(one.place, job.format)
        if part.exists() and part.stat().st_size == one.size:
            done[one.place.file, one.place.chunk] = one
    return done


def clear(path: Path) -> None:
    """Take away what a killed run had written beside."""
    with explained(path):
        for left in path.glob(".*.part"):
            left.unlink()


def write_whole(path: Path, data: bytes) -> None:
    """The file appears with all its bytes, on the disk, or not at all."""
    with explained(path):
        beside = Beside(path)
        try:
            beside.handle.write(data)
            beside.handle.flush()
            os.fsync(beside.handle.fileno())
            beside.keep()
        except BaseException:
            beside.abandon()
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
