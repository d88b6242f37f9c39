"""Rows to files, nothing half written: JSON lines, CSV, TSV and Parquet; the first three also under gzip or zstd.

    row --sink--> packing --> .NAME.PID.part --os.replace--> NAME

The target appears, or changes, only when all rows are in; after an exception it is as it was. Devices and pipes cannot
be replaced and are written in place, and so is stdout.
"""

from __future__ import annotations

import csv
import errno
import gzip
import io
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Protocol, Self, cast

from tagsmith.data.readers import Packing, format_of
from tagsmith.errors import OutputError
from tagsmith.records import Row

# rows of the contract; phrases: of documents with titles; reasons: replies with their evidence
Schema = Literal["tags", "phrases", "segments", "vectors", "labels", "answers", "replies", "reasons"]

BATCH_ROWS = 10_000  # rows of a Parquet file held at once
_FIELDS: dict[Schema, tuple[str, ...]] = {
    "tags": ("id", "tags", "error"),
    "phrases": ("id", "tags", "error"),
    "segments": ("id", "tags", "error", "segments"),
    "vectors": ("id", "vector", "error"),
    "labels": ("id", "labels", "error"),
    "answers": ("id", "answers", "error"),
    "replies": ("id", "replies", "error"),
    "reasons": ("id", "replies", "error", "topics"),
}
_WAYS_OUT = {
    errno.ENOENT: "its folder does not exist; make it first",
    errno.ENOTDIR: "a part of its path is a file, not a folder",
    errno.EACCES: "this user may not write there; choose another place or change the permissions",
    errno.EPERM: "this user may not write there; choose another place or change the permissions",
    errno.EROFS: "the disk is read-only; choose another place",
    errno.EISDIR: "it is a folder; name a file in it",
    errno.ENOSPC: "the disk is full; free some space or choose another place",
    errno.EDQUOT: "the disk quota is used up; free some space or choose another place",
}


class RowWriter:
    """Writes rows in the format that the file's name asks for; use it in a `with`.

    `schema` fixes the columns of CSV and Parquet beforehand; without it the first rows decide.
    A closed pipe is left as BrokenPipeError; everything else that can go wrong is an OutputError.
    """

    def __init__(self, path: str | Path, *, schema: Schema | None = None) -> None:
        self._path = path
        self._format = format_of(path, error=OutputError)
        self._schema = schema
        self._place: _Stdout | Place

    def __enter__(self) -> Self:
        with explained(self._path):
            self._place = _Stdout() if str(self._path) == "-" else Place(Path(self._path))
            try:
                self._packed = _packed(self._place.handle, self._format.packing)
                self._sink = self._make_sink()
            except BaseException:
                self._place.abandon()
                raise
        return self

    def write(self, row: Row) -> None:
        """Add one row."""
        with explained(self._path):
            self._sink.write(row)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._abandon()
            return
        try:
            with explained(self._path):
                self._sink.close(complete=True)
                if self._packed is not self._place.handle:
                    self._packed.close()
                self._place.keep()
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Close everything, whatever the disk says, and leave the target as it was."""
        with suppress(OSError, ValueError):
            self._sink.close(complete=False)
        if self._packed is not self._place.handle:
            with suppress(OSError, ValueError):
                self._packed.close()
        self._place.abandon()

    def _make_sink(self) -> _Sink:
        if self._format.kind == "jsonl":
            return _Lines(self._packed)
        if self._format.kind == "parquet":
            return _Parquet(self._packed, self._schema)
        return _Table(self._packed, "," if self._format.kind == "csv" else "\t", self._schema)


def same_file(one: str | Path, other: str | Path) -> bool:
    """Do both names mean one file, through links too; `-` is no file."""
    if "-" in (str(one), str(other)):
        return False
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there yet
        return os.path.realpath(one) == os.path.realpath(other)


@contextmanager
def explained(path: str | Path) -> Iterator[None]:
    """Turn what the system says about a file into an OutputError that says what to do."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        way_out = _WAYS_OUT.get(problem.errno or 0, str(problem))
        name = "the standard output" if str(path) == "-" else str(path)
        raise OutputError(f"cannot write {name}: {way_out}") from None


class Place:
    """A file that is written beside its target and takes its name at the end."""

    def __init__(self, path: Path) -> None:
        self._target = path.resolve()  # a link stays a link
        self._part: Path | None = None
        if self._target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a folder")
        if self._target.exists() and not os.access(self._target, os.W_OK):
            raise PermissionError(errno.EACCES, "may not be written")
        if self._target.is_file() or not self._target.exists():
            self._part = self._target.with_name(f".{self._target.name}.{os.getpid()}.part")
        self.handle: BinaryIO = open(self._part or self._target, "wb")  # noqa: SIM115 - closed by keep or abandon

    def keep(self) -> None:
        self.handle.close()
        if self._part:
            if self._target.exists():
                shutil.copymode(self._target, self._part)
            os.replace(self._part, self._target)

    def abandon(self) -> None:
        with suppress(OSError):
            self.handle.close()
        if self._part:
            with suppress(OSError):
                self._part.unlink(missing_ok=True)


class _Stdout:
    """The standard output as bytes, so that the locale does not matter; it stays open."""

    def __init__(self) -> None:
        sys.stdout.flush()  # what was printed before comes before
        self.handle: BinaryIO = sys.stdout.buffer
        self._own = isinstance(self.handle, io.RawIOBase)  # under `python -u`, where a write may be partial
        if self._own:
            self.handle = open(self.handle.fileno(), "wb", closefd=False)  # noqa: SIM115 - closed by keep or abandon

    def keep(self) -> None:
        self.handle.flush()
        if self._own:
            self.handle.close()

    def abandon(self) -> None:
        with suppress(OSError, ValueError):
            self.handle.flush()
        if self._own:
            with suppress(OSError):
                self.handle.close()


def _packed(handle: BinaryIO, packing: Packing) -> BinaryIO:
    """The handle, with a compressor in front of it if the name asks for one."""
    if packing == ".gz":  # no name and no time inside: the same rows give the same bytes
        return cast(BinaryIO, gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=handle, mtime=0))
    if packing == ".zst":
        from zstandard import ZstdCompressor

        return cast(BinaryIO, ZstdCompressor().stream_writer(handle, closefd=False))
    return handle


def _text(value: Any) -> str:
    """A value as JSON text."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as problem:
        raise OutputError(f"a row holds a value that JSON cannot carry: {problem}") from None


def _bytes(text: str) -> bytes:
    """UTF-8; half a surrogate pair, which has none, becomes its JSON escape."""
    return text.encode("utf-8", "backslashreplace")


class _Sink(Protocol):
    """Turns rows into the bytes of one format; closed incomplete, it need not write what it holds."""

    def write(self, row: Row) -> None: ...
    def close(self, *, complete: bool) -> None: ...


class _Lines:
    """JSON lines."""

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle

    def write(self, row: Row) -> None:
        self._handle.write(_bytes(_text(dict(row)) + "\n"))

    def close(self, *, complete: bool) -> None:
        """Nothing is held back."""


class _Encoded:
    """Takes the text that `csv.writer` makes."""

    def __init__(self, handle: BinaryIO) -> None:
        self._handle = handle

    def write(self, text: str) -> None:
        self._handle.write(_bytes(text))


class _Table:
    """CSV or TSV: a header, strings as they are, nothing for None, JSON text for all else."""

    def __init__(self, handle: BinaryIO, delimiter: str, schema: Schema | None) -> None:
        # lines end with \r\n, because csv quotes a bare \r in a cell only then
        self._writer = csv.writer(_Encoded(handle), delimiter=delimiter)
        self._header: tuple[str, ...] = ()
        if schema:
            self._start(_FIELDS[schema])

    def write(self, row: Row) -> None:
        if not self._header:
            self._start(tuple(row))
        _check_fields(row, self._header)
        self._writer.writerow([_cell(row.get(name)) for name in self._header])

    def close(self, *, complete: bool) -> None:
        """Nothing is held back."""

    def _start(self, header: tuple[str, ...]) -> None:
        self._header = header
        self._writer.writerow(header)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _text(value)


def _check_fields(row: Row, known: tuple[str, ...]) -> None:
    for name in row:
        if name not in known:
            raise OutputError(
                f"a row has the field {name!r} but the columns are {', '.join(known)}; write .jsonl instead"
            )


class _Parquet:
    """Parquet, a batch of rows at a time; ids are strings."""

    def __init__(self, handle: BinaryIO, schema: Schema | None) -> None:
        self._handle = handle
        self._schema = _arrow_schema(schema) if schema else None
        self._rows: list[dict[str, Any]] = []
        self._writer: Any = None

    def write(self, row: Row) -> None:
        given = row.get("id")
        self._rows.append({**row, "id": str(given)} if given is not None else dict(row))
        if len(self._rows) >= BATCH_ROWS:
            self._flush()

    def close(self, *, complete: bool) -> None:
        if complete:
            self._flush()
        if self._writer is not None:
            self._writer.close()

    def _flush(self) -> None:
        import pyarrow
        from pyarrow.parquet import ParquetWriter

        rows, self._rows = self._rows, []
        try:
            if self._schema is None:
                self._schema = _inferred_schema(rows)
            names = tuple(self._schema.names)
            for row in rows:
                _check_fields(row, names)
            table = _arrow_table(rows, self._schema)
            if self._writer is None:
                self._writer = ParquetWriter(self._handle, self._schema)
            self._writer.write_table(table)
        except (pyarrow.ArrowException, TypeError, OverflowError) as problem:
            raise OutputError(f"the rows do not fit one Parquet schema: {problem}; write .jsonl instead") from None


def _arrow_schema(schema: Schema) -> Any:
    """A row of the contract in Arrow's types."""
    import pyarrow as arrow

    spans = arrow.list_(arrow.list_(arrow.int64()))
    tag = {"text": arrow.string(), "score": arrow.float64(), "kind": arrow.string(), "spans": spans}
    segment = {"start": arrow.int64(), "end": arrow.int64(), "score": arrow.float64()}
    types = {
        "id": arrow.string(),
        "tags": arrow.list_(arrow.struct(tag)),
        "error": arrow.string(),
        "segments": arrow.list_(arrow.struct(segment)),
        "vector": arrow.list_(arrow.float32()),
        "labels": arrow.list_(arrow.struct({"label": arrow.string(), "score": arrow.float64()})),
        "answers": arrow.list_(
            arrow.struct(
                {"text": arrow.string(), "score": arrow.float64(), "start": arrow.int64(), "end": arrow.int64()}
            )
        ),
        "replies": arrow.list_(arrow.struct({"text": arrow.string(), "score": arrow.float64()})),
        "topics": arrow.list_(arrow.string()),
    }
    if schema == "reasons":
        reply = {"text": arrow.string(), "score": arrow.float64(), "attended": types["segments"]}
        types["replies"] = arrow.list_(arrow.struct(reply))
    if schema == "phrases":
        types["tags"] = arrow.list_(arrow.struct({**tag, "title_spans": spans}))
    return arrow.schema([(name, types[name]) for name in _FIELDS[schema]])


def _inferred_schema(rows: list[dict[str, Any]]) -> Any:
    """The types of the first batch; what is only None or empty there is taken for strings."""
    import pyarrow as arrow

    names = list(dict.fromkeys(name for row in rows for name in row))
    fields = []
    for name in names:
        kind = arrow.array([_clean(row.get(name)) for row in rows]).type
        fields.append((name, _without_null(kind)))
    return arrow.schema(fields)


def _without_null(kind: Any) -> Any:
    import pyarrow as arrow

    if arrow.types.is_null(kind):
        return arrow.string()
    if arrow.types.is_list(kind):
        return arrow.list_(_without_null(kind.value_type))
    if arrow.types.is_struct(kind):
        return arrow.struct([(field.name, _without_null(field.type)) for field in kind])
    return kind


def _arrow_table(rows: list[dict[str, Any]], schema: Any) -> Any:
    import pyarrow as arrow

    try:
        return arrow.Table.from_pylist(rows, schema=schema)
    except UnicodeEncodeError:
        return arrow.Table.from_pylist([_clean(row) for row in rows], schema=schema)


def _clean(value: Any) -> Any:
    """The value with half surrogate pairs written as escapes."""
    if isinstance(value, str):
        return _bytes(value).decode("utf-8")
    if isinstance(value, Mapping):
        return {name: _clean(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    return value
