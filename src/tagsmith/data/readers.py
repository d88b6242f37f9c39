"""Files to rows to records, streaming: JSON lines, CSV, TSV and Parquet; the first three also under gzip or zstd.

    file --lines or batches--> row | BadRow --post_of--> Post | BadRow

Every data row gives one item, in order; a broken one is a BadRow in its place, and reading goes on. A file that cannot
be read is a DataError, raised when its rows are asked for. Memory is bounded by the longest row, not by the file.
Reading CSV raises Python's `csv.field_size_limit` for the process (never lowers it): 131,072 characters are too few.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

from tagsmith.errors import DataError, TagsmithError
from tagsmith.records import Document, Pair, Post, Row, document_of, id_of, pair_of, post_of

Kind = Literal["jsonl", "csv", "tsv", "parquet"]
Packing = Literal["", ".gz", ".zst"]
Handle = BinaryIO | io.BufferedIOBase
Good = TypeVar("Good")

LINE_LIMIT = 64 * 2**20  # bytes
CELL_LIMIT = 16 * 2**20  # characters
BATCH_ROWS = 1000  # rows of a Parquet file held at once
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_KINDS: dict[str, Kind] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
_PACKINGS: tuple[Packing, ...] = (".gz", ".zst")
_FOREIGN = {
    b"\x1f\x8b": "gzip data; its name should end in .gz",
    b"\x28\xb5\x2f\xfd": "zstd data; its name should end in .zst",
    b"PAR1": "a Parquet file; its name should end in .parquet",
    b"PK\x03\x04": "a zip archive or a spreadsheet; unpack it, or save it as CSV",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
}
_BROKEN = re.compile("[\0\udc80-\udcff]")  # a NUL, or a byte that was not UTF-8 (see _TextLines)


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that could not be read: the line it starts on (Parquet: its row number), counted from 1, and why."""

    number: int
    problem: str
    id: str | int | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """How a file holds its rows, and how it is packed."""

    kind: Kind
    packing: Packing = ""


def format_of(path: str | Path, *, error: type[TagsmithError] = DataError) -> Format:
    """The format that the file's name asks for; `-` is JSON lines."""
    if str(path) == "-":
        return Format("jsonl")
    name = Path(path).name.lower()
    packing: Packing = next((ending for ending in _PACKINGS if name.endswith(ending)), "")
    kind = _KINDS.get(Path(name.removesuffix(packing)).suffix)
    if kind is None or (kind == "parquet" and packing):
        raise error(
            f"the name {str(path)!r} does not say its format; it must end in {', '.join(_KINDS)} "
            f"(all but .parquet may add {' or '.join(_PACKINGS)}), or be - for JSON lines"
        )
    return Format(kind, packing)


def read_rows(path: str | Path, *, rename: Mapping[str, str] = {}) -> Iterator[Row | BadRow]:
    """The rows of a file; `rename` maps the wanted field to the column that holds it: `{"text": "content"}`."""
    for _, row in _numbered(path, rename):
        yield row


def read_posts(path: str | Path, *, rename: Mapping[str, str] = {}) -> Iterator[Post | BadRow]:
    """The posts of a file; a table without the column `text` is an error at once."""
    return read_as(post_of, path, rename=rename, need="text")


def read_documents(path: str | Path, *, rename: Mapping[str, str] = {}) -> Iterator[Document | BadRow]:
    """The documents of a file: a title, an abstract or a text, and keyphrases."""
    return read_as(document_of, path, rename=rename)


def read_as(
    make: Callable[[Row], Good], path: str | Path, *, rename: Mapping[str, str] = {}, need: str | None = None
) -> Iterator[Good | BadRow]:
    """The rows of a file as any record; a table without the column `need` is an error at once."""
    for number, row in _numbered(path, rename, need):
        yield row if isinstance(row, BadRow) else _record(make, number, row)


def read_pairs(path: str | Path, *, rename: Mapping[str, str] = {}) -> Iterator[Pair | BadRow]:
    """The queries of a file and their responses; a table without the column `query` is an error at once."""
    return read_as(pair_of, path, rename=rename, need="query")


def good(rows: Iterable[Good | BadRow], on_bad: Callable[[BadRow], None]) -> Iterator[Good]:
    """Only the rows that could be read; the others go to the callback."""
    for row in rows:
        if isinstance(row, BadRow):
            on_bad(row)
        else:
            yield row


def _record(make: Callable[[Row], Good], number: int, row: Row) -> Good | BadRow:
    try:
        return make(row)
    except (DataError, TypeError) as problem:  # TypeError: a value of a type that no field can have
        return BadRow(number, str(problem), id_of(row))


def _numbered(
    path: str | Path, rename: Mapping[str, str], need: str | None = None
) -> Iterator[tuple[int, Row | BadRow]]:
    """Each row with its number; a table must have the column `need`."""
    with _explained(path):
        if str(path) != "-" and not Path(path).exists():
            raise FileNotFoundError
        if Path(path).is_dir():
            raise IsADirectoryError
        shape = format_of(path)
        columns = _Columns(path, rename, need)
        if shape.kind == "parquet":
            yield from _parquet_rows(path, columns)
            return
        with _opened(path, shape.packing) as handle:
            lines = _lines(path, handle)
            if shape.kind == "jsonl":
                yield from _json_rows(lines, columns)
            else:
                yield from _table_rows(lines, columns, "," if shape.kind == "csv" else "\t")


@contextmanager
def _explained(path: str | Path) -> Iterator[None]:
    """Turn what the system says about a file into a DataError."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"there is no file {path}; check its name and folder") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder, not a file; name one file in it") from None
    except PermissionError:
        raise DataError(f"{path} may not be read by this user; change its permissions") from None
    except EOFError:
        raise DataError(f"{path} ends too early: its packed data is cut off; copy or download it again") from None
    except (OSError, zlib.error) as problem:
        raise DataError(f"{path} cannot be read: {problem}; it may be damaged or not what its name says") from None


@contextmanager
def _opened(path: str | Path, packing: Packing) -> Iterator[Handle]:
    """The file's bytes, unpacked; stdin is left open."""
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    with open(path, "rb") as file:
        if packing and not file.peek(1):
            raise EOFError  # even a packed empty file has a header
        if packing == ".gz":
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield unpacked
        elif packing == ".zst":
            with io.BufferedReader(_ZstdStream(file), 2**17) as unpacked_frames:
                yield unpacked_frames
        else:
            yield file


class _ZstdStream(io.RawIOBase):
    """Unpacks zstd frame after frame, and notices a missing end, which zstandard's own stream reader passes over."""

    def __init__(self, file: BinaryIO | io.BufferedReader) -> None:
        from zstandard import ZstdDecompressor

        self._file = file
        self._unpacker = ZstdDecompressor(max_window_size=2**31)  # files made with `zstd --long=31` too
        self._frame = self._unpacker.decompressobj()
        self._inside = False  # a frame has begun and not ended
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = self._frame.unused_data if self._frame.eof else b""
            chunk = chunk or self._file.read(1024)  # small: 4 bytes of input can unpack to 128 kB
            if not chunk:
                if self._inside:
                    raise EOFError
                return 0
            self._ready = memoryview(self._unpack(chunk))
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def _unpack(self, chunk: bytes) -> bytes:
        from zstandard import ZstdError

        if self._frame.eof:
            self._frame = self._unpacker.decompressobj()
        try:
            data = self._frame.decompress(chunk)
        except ZstdError as problem:
            raise OSError(str(problem)) from None
        self._inside = not self._frame.eof
        return data


def _lines(path: str | Path, handle: Handle) -> Iterator[bytes]:
    """The lines of a text; one of more than LINE_LIMIT bytes comes cut to LINE_LIMIT + 1."""
    line = handle.readline(LINE_LIMIT + 1)
    for start, what in _FOREIGN.items():
        if line.startswith(start):
            raise DataError(f"{path} is not text but {what}")
    line = line.removeprefix(BYTE_ORDER_MARK)
    while line:
        rest = line
        while not rest.endswith(b"\n") and (rest := handle.readline(2**20)):
            pass  # the rest of a line that was cut
        yield line
        line = handle.readline(LINE_LIMIT + 1)


def _too_long(line: bytes) -> str | None:
    return f"the line has more than {LINE_LIMIT:,} bytes" if len(line) > LINE_LIMIT else None


def _json_rows(lines: Iterable[bytes], columns: _Columns) -> Iterator[tuple[int, Row | BadRow]]:
    for number, line in enumerate(lines, 1):
        if not line.isspace():
            row = _json_row(number, line)
            yield number, row if isinstance(row, BadRow) else columns.renamed(row)


def _json_row(number: int, line: bytes) -> Row | BadRow:
    if problem := _too_long(line):
        return BadRow(number, problem)
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return BadRow(number, f"the line is not UTF-8 text: byte {line[error.start]:#04x} at place {error.start}")
    except RecursionError:
        return BadRow(number, "the line is JSON nested too deeply")
    except ValueError as error:
        return BadRow(number, f"the line is not JSON: {error}")
    if not isinstance(row, dict):
        return BadRow(number, f"the line is JSON but not an object: {row!r:.40}; each line must hold one {{...}}")
    return row


class _TextLines(Iterator[str]):
    """Lines as text for `csv.reader`; bytes that are not UTF-8 become surrogates, to be found in their cells."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self.count = 0

    def __next__(self) -> str:
        line = next(self._lines)
        self.count += 1
        if problem := _too_long(line):
            raise csv.Error(problem)
        return line.decode("utf-8", "surrogateescape")


def _table_rows(lines: Iterator[bytes], columns: _Columns, delimiter: str) -> Iterator[tuple[int, Row | BadRow]]:
    if csv.field_size_limit() < CELL_LIMIT:
        csv.field_size_limit(CELL_LIMIT)
    source = _TextLines(lines)
    reader = csv.reader(source, delimiter=delimiter, strict=True)  # strict: an open quote must not eat the file
    header = _header(columns.path, reader)
    if not header:
        return
    columns.check(header)
    while True:
        number = source.count + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            yield number, BadRow(number, f"the row is not well formed: {problem}; is a quote left open?")
            continue
        if cells:
            yield number, _table_row(number, header, cells, columns)


def _header(path: str | Path, reader: Iterator[list[str]]) -> list[str]:
    """The first row that is not blank; none for an empty file."""
    try:
        header = next((cells for cells in reader if cells), [])
    except csv.Error as problem:
        raise DataError(f"{path} has no readable header row: {problem}") from None
    if any(map(_BROKEN.search, header)):
        raise DataError(f"{path} has a header row that is not UTF-8 text; save it as UTF-8")
    return header


def _table_row(number: int, header: Sequence[str], cells: Sequence[str], columns: _Columns) -> Row | BadRow:
    if len(cells) != len(header):
        return BadRow(number, f"the row has {len(cells)} cells but the header has {len(header)}")
    row = columns.renamed({name: cell or None for name, cell in zip(header, cells)})
    for name, cell in zip(header, cells):
        if _BROKEN.search(cell):
            known = row.get("id")
            return BadRow(
                number,
                f"the cell {name!r} holds a NUL or bytes that are not UTF-8",
                None if known is None or _BROKEN.search(known) else known,
            )
    return row


def _parquet_rows(path: str | Path, columns: _Columns) -> Iterator[tuple[int, Row | BadRow]]:
    import pyarrow
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        with open(path, "rb") as handle, ParquetFile(handle, buffer_size=2**20) as file:
            columns.check(file.schema_arrow.names)
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                for row in _batch_rows(batch, number):
                    number += 1
                    yield number, row if isinstance(row, BadRow) else columns.renamed(row)
    except (pyarrow.ArrowException, UnicodeDecodeError) as problem:  # the latter: a column's name
        raise DataError(
            f"{path} cannot be read as Parquet: {problem}; it may be cut off or of another format"
        ) from None


def _batch_rows(batch: Any, before: int) -> list[Row | BadRow]:
    """The rows of an Arrow batch, at once if all of them convert, else one by one."""
    try:
        return batch.to_pylist()
    except (ValueError, LookupError, OverflowError) as problem:
        if batch.num_rows == 1:
            return [BadRow(before + 1, f"the row has a value that cannot be read: {problem}")]
    return [row for place in range(batch.num_rows) for row in _batch_rows(batch.slice(place, 1), before + place)]


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which column of the file holds which field."""

    path: str | Path
    rename: Mapping[str, str]  # wanted field -> column
    need: str | None

    def check(self, names: Sequence[str]) -> None:
        """A table's header must have the columns asked for, each once."""
        for field, column in self.rename.items():
            if column not in names:
                raise DataError(f"{self._lacks(column, names)} (asked for by `--field {field}={column}`)")
        if self.need and self.need not in self.renamed(dict.fromkeys(names)):
            raise DataError(f"{self._lacks(self.need, names)}; name the one to use with `--field {self.need}=NAME`")
        twice = [name for place, name in enumerate(names) if name and name in names[:place]]
        if twice:
            raise DataError(f"{self.path} has the column {twice[0]!r} twice; rename one of them")

    def renamed(self, row: Row) -> Row:
        """The row under the wanted names; a renamed column does not keep its old name."""
        if not self.rename:
            return row
        moved = {field: row[column] for field, column in self.rename.items() if column in row}
        hidden = {*self.rename, *self.rename.values()}
        return moved | {name: value for name, value in row.items() if name not in hidden}

    def _lacks(self, column: str, names: Sequence[str]) -> str:
        close = difflib.get_close_matches(column, names, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        return f"{self.path} has no column {column!r}; its columns: {', '.join(map(repr, names))}{hint}"
