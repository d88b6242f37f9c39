"""Vectors to files as they come: NumPy's .npy, or rows of JSON lines, CSV and Parquet."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

from tagsmith.data.writers import Place, RowWriter, explained
from tagsmith.errors import OutputError
from tagsmith.records import Vector, vector_row


def vector_writer(path: str | Path, width: int) -> VectorRows | VectorArray:
    """A writer for the file's suffix; use it in a `with`."""
    return VectorArray(path, width) if str(path).endswith(".npy") else VectorRows(path)


class VectorRows:
    """One row for each vector."""

    def __init__(self, path: str | Path) -> None:
        self._writer = RowWriter(path, schema="vectors")

    def __enter__(self) -> Self:
        self._writer.__enter__()
        return self

    def write(self, answer: Vector) -> None:
        """Add one vector."""
        self._writer.write(vector_row(answer))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)


class VectorArray:
    """One array (rows, width) in float32; a post without a vector is a row of zeros. Nothing is half written."""

    def __init__(self, path: str | Path, width: int) -> None:
        self._path = Path(path)
        self._width = width
        self._rows = 0

    def __enter__(self) -> Self:
        with explained(self._path):
            self._place = Place(self._path)
            if not self._place.handle.seekable():
                self._place.abandon()
                raise OutputError(f"{self._path} cannot be wound back, which .npy needs; write .jsonl there")
            write_header(self._place.handle, "<f4", (0, self._width))
        return self

    def write(self, answer: Vector) -> None:
        """Add one vector."""
        row = np.array(answer.vector or [0.0] * self._width, "<f4")
        with explained(self._path):
            self._place.handle.write(row.tobytes())
        self._rows += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._place.abandon()
            return
        try:
            with explained(self._path):
                write_header(self._place.handle, "<f4", (self._rows, self._width))
                self._place.keep()
        except BaseException:
            self._place.abandon()
            raise


def write_header(handle: BinaryIO, kind: str, shape: tuple[int, ...]) -> None:
    """The beginning of a .npy file; numpy makes it of one length for any number of rows."""
    handle.seek(0)
    np.lib.format.write_array_header_1_0(handle, {"descr": kind, "fortran_order": False, "shape": shape})
