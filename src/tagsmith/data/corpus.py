"""A tokenised corpus on disk: flat arrays of ids, memory-mapped, so that it may be larger than memory.

    posts --Corpus.build--> folder/{source,targets}.ids.bin, *.ends.bin, groups.bin, corpus.json --Corpus.open--> slices

Every post has one source and a group of one or more targets (its tags), each stored with a [SEP] behind it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tagsmith.errors import TrainError

Item = TypeVar("Item")
Ids = NDArray[np.int64]
Row = tuple[list[int], list[list[int]]]  # a source and its targets
Tokenise = Callable[[Sequence[str]], list[list[int]]]
CHUNK = 10_000  # posts tokenised at a time


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths in one flat array; row i ends before `ends[i]`."""

    flat: NDArray[Any]
    ends: NDArray[np.int64]

    def starts(self, rows: Ids) -> Ids:
        """Where these rows begin."""
        return np.where(rows > 0, self.ends[np.maximum(rows - 1, 0)], 0)

    def lengths(self, rows: Ids) -> Ids:
        """How long these rows are."""
        return self.ends[rows] - self.starts(rows)


@dataclass(frozen=True)
class Corpus:
    """Sources, their targets, and which targets belong to which source."""

    source: Ragged
    targets: Ragged
    groups: NDArray[np.int64]  # post i has the targets before groups[i]

    def __len__(self) -> int:
        return len(self.groups)

    def first_targets(self, posts: Ids) -> Ids:
        """The number of each post's first target."""
        return np.where(posts > 0, self.groups[np.maximum(posts - 1, 0)], 0)

    def target_counts(self, posts: Ids) -> Ids:
        """How many targets each post has."""
        return self.groups[posts] - self.first_targets(posts)

    @classmethod
    def build(
        cls,
        pairs: Iterable[tuple[str, Sequence[str]]],
        tokenise: Tokenise,
        folder: Path,
        *,
        tokenise_tags: Tokenise | None = None,
        separator: int,
        on_progress: Callable[[int], None] = lambda done: None,
    ) -> Corpus:
        """Tokenise (text, tags) pairs chunk by chunk into `folder`; pairs without text or tags are left out."""

        def rows() -> Iterator[Row]:
            for chunk in _chunks(pairs, CHUNK):
                sources = tokenise([text for text, _ in chunk])
                names = iter((tokenise_tags or tokenise)([tag for _, tags in chunk for tag in tags]))
                for source, (_, tags) in zip(sources, chunk, strict=True):
                    yield source, list(islice(names, len(tags)))

        return cls.write(rows(), folder, separator=separator, on_progress=on_progress)

    @classmethod
    def write(
        cls,
        rows: Iterable[Row],
        folder: Path,
        *,
        separator: int,
        on_progress: Callable[[int], None] = lambda done: None,
    ) -> Corpus:
        """The same from ids; rows without source or targets are left out."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "corpus.json").unlink(missing_ok=True)  # until it is back, the folder is no corpus
        files = {name: (folder / f"{name}.bin").open("wb") for name in _DTYPES}
        counts = {"source": 0, "targets": 0, "groups": 0, "posts": 0}
        try:
            for number, (source, targets) in enumerate(rows, start=1):
                closed = [[*ids, separator] for ids in targets if ids]
                if source and closed:
                    _append(files, counts, source, closed)
                if number % CHUNK == 0:
                    on_progress(counts["posts"])
        finally:
            for file in files.values():
                file.close()
        on_progress(counts["posts"])
        if not counts["posts"]:
            raise TrainError("no post with text and tags was found in the training data; check its fields")
        (folder / "corpus.json").write_text(json.dumps(counts), encoding="utf-8")
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Corpus:
        """Memory-map a corpus that `build` left."""
        if not (folder / "corpus.json").exists():
            raise TrainError(f"{folder} holds no finished corpus")
        arrays = {name: np.memmap(folder / f"{name}.bin", dtype=kind, mode="r") for name, kind in _DTYPES.items()}
        return cls(
            Ragged(arrays["source.ids"], arrays["source.ends"]),
            Ragged(arrays["targets.ids"], arrays["targets.ends"]),
            arrays["groups"],
        )


_DTYPES: dict[str, np.dtype[Any]] = {
    "source.ids": np.dtype(np.uint32),
    "source.ends": np.dtype(np.int64),
    "targets.ids": np.dtype(np.uint32),
    "targets.ends": np.dtype(np.int64),
    "groups": np.dtype(np.int64),
}


def _append(files: dict[str, Any], counts: dict[str, int], source: list[int], targets: list[list[int]]) -> None:
    """One post at the end of every file."""
    counts["source"] += len(source)
    ends = []
    for target in targets:
        counts["targets"] += len(target)
        ends.append(counts["targets"])
    counts["groups"] += len(targets)
    counts["posts"] += 1
    values = {
        "source.ids": source,
        "source.ends": [counts["source"]],
        "targets.ids": [token for target in targets for token in target],
        "targets.ends": ends,
        "groups": [counts["groups"]],
    }
    for name, numbers in values.items():
        files[name].write(np.asarray(numbers, dtype=_DTYPES[name]).tobytes())


def _chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    stream = iter(items)
    while chunk := list(islice(stream, size)):
        yield chunk
