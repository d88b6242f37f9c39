"""Writing: every format comes back as it went, and a failure leaves nothing behind."""

from __future__ import annotations

import errno
import gzip
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tagsmith.data import writers
from tagsmith.data.readers import read_rows
from tagsmith.data.writers import RowWriter, same_file
from tagsmith.errors import OutputError
from tagsmith.records import Segment, Tag, Tags, to_row

TEXT_NAMES = [f"rows{kind}{packing}" for kind in (".jsonl", ".csv", ".tsv") for packing in ("", ".gz", ".zst")]
NAMES = [*TEXT_NAMES, "rows.parquet"]
ROWS = [
    {"id": "1", "text": 'rain, "again"\nand\tagain\r'},
    {"id": "2", "text": "天气 🌧 \u2028 end"},
    {"id": "3", "text": None},
]
ANSWER = to_row(Tags((Tag("rain", 0.5, "present", ((0, 4), (6, 10))), Tag("wet", 0.25, "absent")), id="1"))
FAILED = to_row(Tags(id=None, error="the row has no text"))


def write(path: str | Path, rows: list[dict[str, Any]], **options: Any) -> None:
    with RowWriter(path, **options) as writer:
        for row in rows:
            writer.write(row)


def interrupted(path: Path, error: BaseException) -> None:
    """Write one row, see the part beside the target, and fail."""
    with RowWriter(path) as writer:
        writer.write(ROWS[0])
        assert f".{path.name}.{os.getpid()}.part" in os.listdir(path.parent)
        raise error


@pytest.mark.parametrize("name", NAMES)
def test_rows_come_back_from_every_format(tmp_path, name):
    write(tmp_path / name, ROWS)
    assert list(read_rows(tmp_path / name)) == ROWS
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", TEXT_NAMES)
def test_the_suffix_decides_the_bytes(tmp_path, name):
    write(tmp_path / name, ROWS)
    start = {".gz": b"\x1f\x8b", "zst": b"\x28\xb5", "csv": b"id,text\r\n1,", "tsv": b"id\ttext", "onl": b'{"id": "1"'}
    assert (tmp_path / name).read_bytes().startswith(start[name[-3:]])


def test_the_same_rows_give_the_same_gzip_bytes(tmp_path, monkeypatch):
    write(tmp_path / "one.jsonl.gz", ROWS)
    monkeypatch.setattr(time, "time", lambda: 1e9)
    write(tmp_path / "two.jsonl.gz", ROWS)
    assert (tmp_path / "one.jsonl.gz").read_bytes() == (tmp_path / "two.jsonl.gz").read_bytes()
    assert gzip.decompress((tmp_path / "two.jsonl.gz").read_bytes()).count(b"\n") == 3


def test_tables_hold_nested_values_as_json_text_and_none_as_nothing(tmp_path):
    write(tmp_path / "rows.csv", [ANSWER, FAILED, {"id": 7, "tags": True}], schema="tags")
    first, second, third = list(read_rows(tmp_path / "rows.csv"))
    assert json.loads(first["tags"]) == ANSWER["tags"]
    assert second == {"id": None, "tags": "[]", "error": "the row has no text"}
    assert third == {"id": "7", "tags": "true", "error": None}


def test_a_schema_gives_even_an_empty_table_its_header(tmp_path):
    write(tmp_path / "rows.csv", [], schema="segments")
    assert (tmp_path / "rows.csv").read_text().split() == ["id,tags,error,segments"]
    write(tmp_path / "rows.parquet", [], schema="tags")
    assert pyarrow.parquet.read_schema(tmp_path / "rows.parquet").names == ["id", "tags", "error"]


@pytest.mark.parametrize("name", NAMES)
def test_no_rows_make_a_file_without_rows(tmp_path, name):
    write(tmp_path / name, [])
    assert list(read_rows(tmp_path / name)) == []


@pytest.mark.parametrize("first", [ANSWER, FAILED])
def test_parquet_batches_agree_whatever_the_first_one_holds(tmp_path, monkeypatch, first):
    monkeypatch.setattr(writers, "BATCH_ROWS", 2)
    rows = [first, first, ANSWER, {**ANSWER, "id": 17}, FAILED]
    path = tmp_path / "rows.parquet"
    write(path, rows, schema="tags")
    assert list(read_rows(path)) == [*rows[:3], {**ANSWER, "id": "17"}, FAILED]
    assert pyarrow.parquet.ParquetFile(path).num_row_groups == 3


def test_parquet_holds_segments(tmp_path):
    row = to_row(Tags(id="1", segments=(Segment(0, 4, 0.5),)))
    write(tmp_path / "rows.parquet", [FAILED, row], schema="segments")
    assert list(read_rows(tmp_path / "rows.parquet")) == [{**FAILED, "segments": None}, row]


def test_a_parquet_schema_without_a_name_is_inferred_with_strings_for_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(writers, "BATCH_ROWS", 2)
    rows = [{"id": None, "words": []}, {"id": None, "words": [], "note": None}, {"id": 3, "words": ["a"], "note": "b"}]
    write(tmp_path / "rows.parquet", rows)
    assert list(read_rows(tmp_path / "rows.parquet")) == [
        {"id": None, "words": [], "note": None},
        {"id": None, "words": [], "note": None},
        {"id": "3", "words": ["a"], "note": "b"},
    ]


@pytest.mark.parametrize("second", [{"a": "text"}, {"a": 2**80}, {"a": object()}])
def test_values_that_do_not_fit_the_parquet_schema(tmp_path, monkeypatch, second):
    monkeypatch.setattr(writers, "BATCH_ROWS", 1)
    with pytest.raises(OutputError, match=r"one Parquet schema.*\.jsonl"):
        write(tmp_path / "rows.parquet", [{"a": 1}, second])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_field_that_the_columns_lack_is_named(tmp_path, monkeypatch, name):
    monkeypatch.setattr(writers, "BATCH_ROWS", 1)
    with pytest.raises(OutputError, match=r"the field 'b' but the columns are a; write \.jsonl"):
        write(tmp_path / name, [{"a": "1"}, {"a": "1", "b": "2"}])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_half_a_surrogate_pair_is_written_as_an_escape(tmp_path, name):
    write(tmp_path / name, [{"text": "天 \ud83c", "words": ["\udf27"]}])
    (row,) = read_rows(tmp_path / name)
    if ".jsonl" in name:
        assert row == {"text": "天 \ud83c", "words": ["\udf27"]}
    else:
        assert row["text"] == "天 \\ud83c"
        assert "\\udf27" in row["words"][0] or row["words"] == '["\\udf27"]'


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
def test_a_value_that_json_cannot_carry(tmp_path, name):
    with pytest.raises(OutputError, match=r"JSON cannot carry.*bytes"):
        write(tmp_path / name, [{"a": [b"x"]}])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_an_exception_leaves_the_old_file_and_no_other(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        interrupted(path, KeyboardInterrupt())
    assert os.listdir(tmp_path) == [name]
    assert path.read_bytes() == b"old"


def test_the_target_changes_only_at_the_end_and_keeps_its_mode(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with RowWriter(path) as writer:
        for row in ROWS * 10_000:
            writer.write(row)
        assert path.read_bytes() == b"old"
    assert len(list(read_rows(path))) == 30_000
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.jsonl").write_bytes(b"old")
    (tmp_path / "link.jsonl").symlink_to("real.jsonl")
    write(tmp_path / "link.jsonl", ROWS)
    assert (tmp_path / "link.jsonl").is_symlink()
    assert list(read_rows(tmp_path / "real.jsonl")) == ROWS


@pytest.mark.parametrize("count", [1, 3000])
@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_is_named(tmp_path, monkeypatch, name, count):
    monkeypatch.setattr(writers, "BATCH_ROWS", 1000)
    (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(OutputError, match=f"{name}: the disk is full; free some space"):
        write(tmp_path / name, [{"id": "1", "text": os.urandom(40).hex()} for _ in range(count)])
    assert stat.S_ISCHR((tmp_path / name).stat().st_mode)


@pytest.mark.parametrize("name", NAMES)
def test_a_failing_end_removes_the_part(tmp_path, monkeypatch, name):
    def fail(*_: object) -> None:
        raise OSError(errno.EDQUOT, "quota")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OutputError, match="the disk quota is used up"):
        write(tmp_path / name, ROWS)
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written_say_why(tmp_path, monkeypatch):
    with pytest.raises(OutputError, match=r"no/rows\.jsonl: its folder does not exist; make it first"):
        write(tmp_path / "no" / "rows.jsonl", ROWS)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="a part of its path is a file"):
        write(tmp_path / "file" / "rows.jsonl", ROWS)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(OutputError, match="it is a folder"):
        write(tmp_path / "folder.csv", ROWS)
    with pytest.raises(OutputError, match=r"rows\.xlsx.*\.parquet"):
        write(tmp_path / "rows.xlsx", ROWS)
    monkeypatch.setattr(os, "access", lambda *_: False)
    (tmp_path / "locked.jsonl").write_bytes(b"old")
    with pytest.raises(OutputError, match="may not write there"):
        write(tmp_path / "locked.jsonl", ROWS)
    assert (tmp_path / "locked.jsonl").read_bytes() == b"old"


STDOUT = """
from tagsmith.data.writers import RowWriter
{before}
with RowWriter("-") as writer:
    for number in range({count}):
        writer.write({{"id": number, "text": "天 \\ud83c"}})
{after}
"""
BUFFERING = pytest.mark.parametrize("unbuffered", ["", "1"])


def run(stdout: Any, *, unbuffered: str, count: int = 1, talk: bool = False) -> subprocess.CompletedProcess[bytes]:
    """Write rows to stdout from a process of its own, in a locale that knows no UTF-8."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUNBUFFERED": unbuffered}
    before, after = ("print('before')", "print('after')") if talk else ("", "")
    command = [sys.executable, "-c", STDOUT.format(count=count, before=before, after=after)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, env=environment, check=False)


@BUFFERING
def test_a_dash_writes_utf8_lines_between_what_is_printed(unbuffered):
    found = run(subprocess.PIPE, unbuffered=unbuffered, talk=True)
    assert found.stdout.decode() == 'before\n{"id": 0, "text": "天 \\ud83c"}\nafter\n'
    assert found.returncode == 0, found.stderr


@BUFFERING
def test_a_full_disk_behind_stdout_is_named(unbuffered):
    with open("/dev/full", "wb") as full:
        found = run(full, unbuffered=unbuffered)
    assert b"OutputError: cannot write the standard output: the disk is full" in found.stderr


@BUFFERING
def test_a_closed_pipe_stays_a_broken_pipe(unbuffered):
    read, written = os.pipe()
    os.close(read)
    with os.fdopen(written, "wb") as pipe:
        found = run(pipe, unbuffered=unbuffered, count=10_000)
    assert b"BrokenPipeError" in found.stderr
    assert b"OutputError" not in found.stderr


def test_a_broken_pipe_removes_the_part(tmp_path):
    with pytest.raises(BrokenPipeError):
        interrupted(tmp_path / "rows.jsonl", BrokenPipeError())
    assert os.listdir(tmp_path) == []


def test_same_file_sees_through_links_and_missing_files(tmp_path):
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    assert same_file(one, tmp_path / "." / "folder" / ".." / "one.jsonl")
    one.write_bytes(b"")
    assert not same_file(one, other)
    other.hardlink_to(one)
    assert same_file(str(one), other)
    assert not same_file("-", "-")
