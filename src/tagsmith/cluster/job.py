"""What a batch job is: two runs with equal jobs would write the same rows into the same parts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import tagsmith
from tagsmith.cluster.chunks import PART_ROWS, check_inputs, find_inputs
from tagsmith.errors import ConfigError, DataError
from tagsmith.pipelines.work import READS, Ask, Reads

Format = Literal["parquet", "jsonl"]


@dataclass(frozen=True)
class Job:
    """Everything that decides what is written; where and how it is done does not."""

    root: Path  # INPUT
    files: tuple[Path, ...]
    inputs: tuple[tuple[str, int, int], ...]  # of each file: name within INPUT, bytes, time of change in ns
    ask: Ask
    task: str
    sums: Mapping[str, str]  # sha256 of the model, and of the other models, indices and lists that are asked for
    fields: Mapping[str, str]
    format: Format
    part_rows: int

    @property
    def reads(self) -> Reads:
        return READS[self.task]

    def seeded(self, seed: int) -> Job:
        """The same with the chances of its draws fixed, so that a chunk that is done again gives the same rows."""
        return replace(self, ask=replace(self.ask, seed=seed))

    def facts(self) -> dict[str, Any]:
        """What is kept in the manifest, and compared on resuming; no paths: a job may move with its files."""
        named = ("model", "voices", "vocab", "block")  # known by their checksums
        asked = {name: value for name, value in asdict(self.ask).items() if name not in named}
        return json.loads(
            json.dumps(
                {
                    "tagsmith": tagsmith.__version__,
                    "task": self.task,
                    "model": Path(self.ask.model).name,
                    "checksums": dict(self.sums),
                    "options": asked,
                    "fields": dict(self.fields),
                    "format": self.format,
                    "part_rows": self.part_rows,
                    "inputs": [list(one) for one in self.inputs],
                }
            )
        )


def make_job(
    given: str | Path,
    ask: Ask,
    *,
    fields: Mapping[str, str] = {},
    format: Format = "parquet",
    part_rows: int = PART_ROWS,
) -> Job:
    """A job, checked as far as can be told without loading the model."""
    from tagsmith.bundle import describe_bundle, find_bundle

    if part_rows < 1:
        raise ConfigError(f"a part must have at least 1 row, not {part_rows}")
    task = describe_bundle(find_bundle(ask.model)).task
    ask.check(task)
    root = Path(given)
    files = find_inputs(root)
    check_inputs(files, READS[task], fields)
    inputs = [(name_in(root, path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return Job(root, tuple(files), tuple(inputs), ask, task, checksums(ask), dict(fields), format, part_rows)


def name_in(root: Path, path: Path) -> str:
    return path.name if path == root else path.relative_to(root).as_posix()


def checksums(ask: Ask) -> dict[str, str]:
    """Of everything the answers come from; the same on every machine that has the same files."""
    from tagsmith.bundle import checksum

    sums = {"model": checksum(ask.model)}
    for number, name in enumerate(ask.voices, 1):
        index = Path(name) / "index.json"  # it holds the sizes of its other files
        sums[f"with {number}"] = _digest(index) if index.exists() else checksum(name)
    for option in ("vocab", "block"):
        if (path := getattr(ask, option)) is not None:
            sums[option] = _digest(Path(path))
    return sums


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as problem:
        raise DataError(f"{path} cannot be read: {problem.strerror}; check its name") from None
