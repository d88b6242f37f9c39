"""Reading: every format, every kind of broken row in its place, every unreadable file by its message."""

from __future__ import annotations

import collections
import csv
import gzip
import io
import json
import math
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from tagsmith.data import readers
from tagsmith.data.readers import BadRow, good, read_documents, read_posts, read_rows
from tagsmith.errors import DataError
from tagsmith.records import Document, Post

CHANCE = random.Random(0)
ROWS = [{"id": "1", "text": "rain, again\nand again"}, {"id": "2", "text": 'das "Wetter" 天气 🌧'}]


def packed(data: bytes, name: str) -> bytes:
    if name.endswith(".gz"):
        return gzip.compress(data)
    return zstandard.compress(data) if name.endswith(".zst") else data


def text_of(rows: list[dict[str, str]], name: str) -> bytes:
    if ".csv" not in name and ".tsv" not in name:
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter="\t" if ".tsv" in name else ",")
    writer.writerows([list(rows[0]), *(row.values() for row in rows)])
    return text.getvalue().encode()


def saved(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def parquet(folder: Path, columns: dict[str, object], **options: object) -> Path:
    path = folder / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)
    return path


def table(folder: Path, name: str, rows: list[dict[str, str]], **options: object) -> Path:
    """Rows as a file of the format that its name asks for."""
    if name == "rows.parquet":
        return parquet(folder, {column: [row[column] for row in rows] for column in rows[0]}, **options)
    return saved(folder, name, packed(text_of(rows, name), name))


def problem_of(item: object) -> str:
    assert isinstance(item, BadRow)
    return item.problem


TEXT_NAMES = [
    f"rows{kind}{packing}" for kind in (".jsonl", ".ndjson", ".json", ".csv", ".tsv") for packing in ("", ".gz", ".zst")
]


@pytest.mark.parametrize("name", [*TEXT_NAMES, "ROWS.CSV.GZ", "a.b.jsonl"])
def test_every_text_format_and_packing_gives_the_same_rows(tmp_path, name):
    path = saved(tmp_path, name, packed(text_of(ROWS, name.lower()), name.lower()))
    assert list(read_rows(path)) == ROWS
    assert list(read_rows(str(path))) == ROWS


def test_parquet_gives_rows_with_lists_in_order_across_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "BATCH_ROWS", 3)
    path = parquet(tmp_path, {"id": list(range(10)), "tags": [["a"] * size for size in range(10)]}, row_group_size=4)
    assert list(read_rows(path)) == [{"id": size, "tags": ["a"] * size} for size in range(10)]


def test_a_dash_reads_json_lines_from_stdin_and_leaves_it_open(monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(text_of(ROWS, ".jsonl")), encoding="ascii")
    monkeypatch.setattr(sys, "stdin", stdin)
    assert list(read_rows("-")) == ROWS
    assert not stdin.closed


@pytest.mark.parametrize("name", ["rows.txt", "rows", "rows.gz", "rows.parquet.gz", "rows.jsonl.bz2"])
def test_an_unknown_suffix_lists_the_known_ones(tmp_path, name):
    with pytest.raises(DataError, match=r"\.jsonl, \.ndjson, \.json, \.csv, \.tsv, \.parquet .*\.gz or \.zst"):
        list(read_rows(saved(tmp_path, name, b"")))


BAD_LINES = {
    "not JSON": b'{"text": "cut',
    "not an object: [1, 2]": b"[1, 2]",
    "not an object: 7": b"7",
    "not UTF-8 text: byte 0xff at place 10": b'{"text": "\xff"}',
    "not JSON: Invalid control character": b'{"text": "a\0b"}',
    "nested too deeply": b"[" * 100_000,
    "not JSON: Exceeds the limit": b'{"text": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("words", BAD_LINES)
def test_a_broken_json_line_is_reported_in_its_place(tmp_path, words):
    path = saved(tmp_path, "rows.jsonl", b'{"a": 1}\n' + BAD_LINES[words] + b'\n{"a": 2}\n')
    before, bad, after = read_rows(path)
    assert (before, after) == ({"a": 1}, {"a": 2})
    assert words in problem_of(bad)
    assert bad.number == 2


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.jsonl.zst"])
def test_a_line_longer_than_the_limit_is_one_bad_row(tmp_path, monkeypatch, name):
    monkeypatch.setattr(readers, "LINE_LIMIT", 20)
    fits = b'{"a": "' + b"x" * 10 + b'"}'
    assert len(fits + b"\n") == 20
    too_long = fits.replace(b"x", b"xxxxx")
    path = saved(tmp_path, name, packed(b"\n".join([fits, too_long, fits, too_long]), name))
    row = {"a": "x" * 10}
    first, second, third, fourth = read_rows(path)
    assert (first, third) == (row, row)
    assert "more than 20 bytes" in problem_of(second) == problem_of(fourth)


def test_blank_lines_are_skipped_but_counted_and_a_last_line_needs_no_end(tmp_path):
    path = saved(tmp_path, "rows.jsonl", b'\n  \t\r\n{"a": 1}\r\n\n{"a"\n{"a": NaN}')
    first, bad, last = read_rows(path)
    assert first == {"a": 1}
    assert isinstance(bad, BadRow)
    assert bad.number == 5
    assert not isinstance(last, BadRow)
    assert math.isnan(last["a"])


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.tsv", "rows.jsonl.gz"])
def test_a_byte_order_mark_is_passed_over(tmp_path, name):
    path = saved(tmp_path, name, packed(b"\xef\xbb\xbf" + text_of(ROWS, name), name))
    assert list(read_rows(path)) == ROWS


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv"])
@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\n\n"])
def test_an_empty_file_has_no_rows(tmp_path, name, data):
    assert list(read_posts(saved(tmp_path, name, data))) == []


def test_broken_table_rows_are_reported_in_their_places(tmp_path):
    lines = [
        b"id,text",
        b'1,"two\r',
        b'lines"',
        b"2",
        b"3,a,b",
        b"4,\xff",
        b"5,a\0b",
        b'6,"a"b',
        b"",
        b"7,",
        b'8,"open',
    ]
    rows = list(read_rows(saved(tmp_path, "rows.csv", b"\n".join(lines))))
    bad = {row.number: row for row in rows if isinstance(row, BadRow)}
    assert [row for row in rows if not isinstance(row, BadRow)] == [
        {"id": "1", "text": "two\r\nlines"},
        {"id": "7", "text": None},
    ]
    assert "1 cells but the header has 2" in bad[4].problem
    assert "3 cells but the header has 2" in bad[5].problem
    assert "'text' holds a NUL or bytes that are not UTF-8" in bad[6].problem
    assert (bad[6].id, bad[7]) == ("4", BadRow(7, bad[6].problem, "5"))
    assert "not well formed" in bad[8].problem
    assert "quote left open" in bad[11].problem
    assert len(rows) == 8


def test_a_table_line_longer_than_the_limit_is_one_bad_row(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "LINE_LIMIT", 20)
    path = saved(tmp_path, "rows.csv", b"id,text\n1," + b"x" * 40 + b"\n2,b\n")
    bad, row = read_rows(path)
    assert "more than 20 bytes" in problem_of(bad)
    assert row == {"id": "2", "text": "b"}


def test_cells_of_ten_megabytes_are_read(tmp_path):
    csv.field_size_limit(131_072)
    cell = "x" * 10_000_000
    path = saved(tmp_path, "rows.csv", f"id,text\n1,{cell}\n".encode())
    assert list(read_rows(path)) == [{"id": "1", "text": cell}]


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"te\xffxt,id", "not UTF-8"),
        (b"te\0xt,id", "not UTF-8"),
        (b"text,text", "'text' twice"),
        (b'"text', "header row"),
    ],
)
def test_a_header_that_cannot_be_used_is_an_error(tmp_path, header, words):
    with pytest.raises(DataError, match=words):
        list(read_rows(saved(tmp_path, "rows.csv", header + b"\n1,2")))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.parquet"])
def test_renamed_fields(tmp_path, name):
    rows = [{"text": "old", "content": "new", "body": "b"}]
    path = table(tmp_path, name, rows)
    assert list(read_rows(path, rename={"text": "content"})) == [{"text": "new", "body": "b"}]
    assert list(read_rows(path, rename={"text": "body", "body": "text"})) == [
        {"text": "b", "body": "old", "content": "new"}
    ]
    assert [post.text for post in read_posts(path, rename={"text": "body"}) if isinstance(post, Post)] == ["b"]


def test_a_renamed_column_that_a_table_lacks_names_the_nearest(tmp_path):
    for path in (saved(tmp_path, "rows.csv", b"id,content\n1,a\n"), parquet(tmp_path, {"id": [1], "content": ["a"]})):
        with pytest.raises(
            DataError, match=r"no column 'contnt'; its columns: 'id', 'content'; did you mean 'content'"
        ):
            list(read_rows(path, rename={"text": "contnt"}))


def test_a_table_without_text_is_one_error_that_names_the_option(tmp_path):
    for path in (saved(tmp_path, "rows.tsv", b"id\tbody\n1\ta\n"), parquet(tmp_path, {"id": [1], "body": ["a"]})):
        with pytest.raises(DataError, match=r"no column 'text'; its columns: 'id', 'body'.*`--field text=NAME`"):
            list(read_posts(path))
        assert len(list(read_rows(path))) == 1


def test_posts_and_rows_that_are_none(tmp_path):
    rows = [
        {"id": 1, "text": "a", "hashtags": ["#x"]},
        {"id": 2, "body": "b"},
        {"id": [3], "text": 3},
        {"id": "4", "text": "d", "hashtags": 5},
        {"id": 5, "text": "e", "seen": 5},
    ]
    path = saved(tmp_path, "rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())
    post, *bad, last = read_posts(path)
    assert post == Post("a", id=1, tags=("x",))
    assert last == Post("e", id=5)  # what cannot tell anything about the tags is left out
    assert [(row.number, row.id) for row in bad if isinstance(row, BadRow)] == [(2, 2), (3, "[3]"), (4, "4")]
    assert "--field text=NAME" in problem_of(bad[0])
    assert "must be a string" in problem_of(bad[1])


def test_the_tags_of_a_table_cell_are_split(tmp_path):
    path = saved(tmp_path, "rows.csv", b'text,hashtags\na,"#x, #y"\nb,\n')
    assert next(read_rows(path)) == {"text": "a", "hashtags": "#x, #y"}
    assert list(read_posts(path)) == [Post("a", tags=("x", "y")), Post("b")]


def test_good_passes_the_good_and_reports_the_bad():
    seen: list[BadRow] = []
    assert list(good([{"a": 1}, BadRow(2, "broken"), {"a": 2}], seen.append)) == [{"a": 1}, {"a": 2}]
    assert seen == [BadRow(2, "broken")]


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(DataError, match=r"there is no file .*rows\.jsonl"):
        list(read_rows(tmp_path / "rows.jsonl"))
    for name in ("rows.jsonl", "rows.parquet", "rows"):
        folder = tmp_path / "folders" / name
        folder.mkdir(parents=True)
        with pytest.raises(DataError, match="is a folder, not a file"):
            list(read_rows(folder))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_an_unreadable_file_is_named(tmp_path, monkeypatch, name):
    def refuse(*_: object) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(readers, "open", refuse, raising=False)
    with pytest.raises(DataError, match=f"{name} may not be read"):
        list(read_rows(saved(tmp_path, name, b"")))


def before_the_cut(path: Path) -> list[object]:
    """The rows that come before the error about a cut file."""
    rows: list[object] = []
    with pytest.raises(DataError, match=r"ends too early.*again"):
        collections.deque(map(rows.append, read_rows(path)), maxlen=0)
    return rows


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.jsonl.zst", "rows.csv.gz", "rows.csv.zst"])
def test_a_cut_file_gives_the_rows_before_the_cut_and_then_an_error(tmp_path, name):
    rows = [{"id": str(number), "text": CHANCE.randbytes(50).hex()} for number in range(20_000)]
    whole = packed(text_of(rows, name), name)
    before = before_the_cut(saved(tmp_path, name, whole[: len(whole) // 2]))
    assert len(before) > 5000
    assert before == rows[: len(before)]
    assert len(before_the_cut(saved(tmp_path, name, whole[:-1]))) > len(before)
    assert before_the_cut(saved(tmp_path, name, b"")) == []


def test_packed_pieces_follow_each_other_with_skippable_ones_and_a_long_window(tmp_path):
    data = gzip.compress(b'{"a": 1}\n') + gzip.compress(b'{"a": 2}\n')
    assert list(read_rows(saved(tmp_path, "rows.jsonl.gz", data))) == [{"a": 1}, {"a": 2}]
    skip = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    long = zstandard.ZstdCompressionParameters.from_level(1, window_log=28, enable_ldm=True)
    second = zstandard.ZstdCompressor(compression_params=long).compressobj()  # unknown size: the window is written
    data = skip + zstandard.compress(b'{"a": 1}\n') + skip + second.compress(b'{"a": 2}\n') + second.flush() + skip
    assert list(read_rows(saved(tmp_path, "rows.jsonl.zst", data))) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.jsonl.zst", "rows.parquet"])
def test_data_that_is_not_what_its_name_says(tmp_path, name):
    with pytest.raises(DataError, match=rf"{name} cannot be read"):
        list(read_rows(saved(tmp_path, name, b'{"text": "plain"}\n' * 3)))


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.jsonl.zst", "rows.parquet"])
def test_damaged_data_never_raises_anything_else(tmp_path, name):
    whole = table(tmp_path, name, [{"text": CHANCE.randbytes(9).hex()} for _ in range(500)]).read_bytes()
    failures = 0
    for place in range(4, len(whole), len(whole) // 40):
        path = saved(tmp_path, name, whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            list(read_rows(path))
        except DataError:
            failures += 1
    assert failures > 3  # Parquet has no checksums: a changed text is not an error


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (gzip.compress(b"{}", mtime=0), "should end in .gz"),
        (zstandard.compress(b"{}"), "should end in .zst"),
        (b"PAR1....", "should end in .parquet"),
        (b"PK\x03\x04....", "save it as CSV"),
        ("id,text\n".encode("utf-16"), "UTF-16 text; save it as UTF-8"),
    ],
)
def test_a_file_of_another_kind_is_named(tmp_path, data, words):
    for name in ("rows.jsonl", "rows.csv"):
        with pytest.raises(DataError, match=words):
            list(read_rows(saved(tmp_path, name, data)))


def test_a_binary_file_gives_bad_rows_only(tmp_path):
    rows = list(read_rows(saved(tmp_path, "rows.jsonl", b"\x7fELF" + bytes(range(256)) * 40)))
    assert [type(row) for row in rows] == [BadRow] * 41


def test_a_parquet_value_that_is_not_utf8_spoils_its_row_only(tmp_path):
    values = pyarrow.array([b"a", b"\xff", b"c"]).view(pyarrow.string())
    first, bad, last = read_rows(parquet(tmp_path, {"text": values}))
    assert (first, last) == ({"text": "a"}, {"text": "c"})
    assert "cannot be read" in problem_of(bad)
    assert bad.number == 2
    data = (tmp_path / "rows.parquet").read_bytes().replace(b"text", b"t\xffxt")  # the column's name
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        list(read_rows(saved(tmp_path, "rows.parquet", data)))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.jsonl.gz", "rows.jsonl.zst"])
def test_reading_three_rows_reads_only_the_start_and_closes_the_file(tmp_path, monkeypatch, name):
    rows = [{"id": str(number), "text": f"{number:060}"} for number in range(50_000)]
    path = table(tmp_path, name, rows)
    handle = io.BufferedReader(io.FileIO(path))
    monkeypatch.setattr(readers, "open", lambda *_: handle, raising=False)
    stream = read_posts(path)
    assert [next(stream) for _ in range(3)] == [Post(row["text"], id=row["id"]) for row in rows[:3]]
    # a block of 128 KiB (gzip's since Python 3.13, behind a header of ten bytes), or a tenth of a larger file
    assert handle.tell() <= max(131_072 + 10, path.stat().st_size // 10)
    assert not handle.closed
    stream.close()  # type: ignore[attr-defined]
    assert handle.closed


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.csv", "rows.jsonl.zst", "rows.parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path, name):
    rows = [{"id": str(number), "text": f"{number:0200}"} for number in range(20_000)]  # 4 MB
    path = table(tmp_path, name, rows, **({"row_group_size": 2000} if name == "rows.parquet" else {}))
    list(read_rows(saved(tmp_path, "warm.jsonl", b"{}")))
    tracemalloc.start()
    assert sum(1 for _ in read_rows(path)) == len(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_500_000


def test_reading_text_imports_neither_torch_nor_pyarrow(tmp_path):
    path = saved(tmp_path, "rows.jsonl", b'{"text": "a"}\n')
    code = (
        "import sys\nfrom tagsmith.data.readers import read_posts\nassert len(list(read_posts(sys.argv[1]))) == 1\n"
        "assert not {'torch', 'pyarrow', 'zstandard'} & set(sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def test_documents_have_a_title_a_text_and_keyphrases(tmp_path):
    rows = [
        {"id": 1, "title": "A study", "abstract": "Of things.", "keyphrases": ["one thing", "two"], "part": "iid"},
        {"title": "A title alone"},
        {"text": "a text", "abstract": None, "keyphrases": "first one; second, with comma"},
        {"text": "b", "keyphrases": "one, two"},
        {"abstract": "", "variants": [["model", "models"], ["set"]]},
        {"body": "what is this"},
        {"abstract": 7, "id": "seven"},
        {"abstract": "x", "keyphrases": [3]},
    ]
    path = tmp_path / "documents.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = list(read_documents(path))
    assert found[:5] == [
        Document("Of things.", "A study", 1, ("one thing", "two"), parts=("iid",)),
        Document("", "A title alone"),
        Document("a text", keyphrases=("first one", "second, with comma")),
        Document("b", keyphrases=("one", "two")),
        Document("", variants=(("model", "models"), ("set",))),
    ]
    assert [row.number for row in found[5:]] == [6, 7, 8]
    assert found[5].problem.startswith(
        "the row has no field 'abstract', 'text' or 'title' (its fields: 'body'); rename"
    )
    assert found[6] == BadRow(7, "the field 'abstract' must be a string, not int", "seven")
    assert found[7].problem.startswith("the field 'keyphrases' must be a list of strings or one string")


def test_documents_are_renamed_as_posts_are(tmp_path):
    path = tmp_path / "papers.csv"
    path.write_text("name,summary,terms\nT,S,a; b\n", encoding="utf-8")
    fields = {"title": "name", "abstract": "summary", "keyphrases": "terms"}
    assert list(read_documents(path, rename=fields)) == [Document("S", "T", keyphrases=("a", "b"))]
