"""The scripts that train and show the tables: which rows they have, and a row from its recipe to its results."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

from conftest import sample_labelled, write_rows

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def reader_table(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import reader_table

    return reader_table


def test_names_of_rows_say_what_they_are(reader_table):
    row = reader_table.Row.of("extract-inspec-tg-crf@granite#2")
    assert row == ("extract", "inspec", "tg-crf", "granite", 2)
    assert row.name == "extract-inspec-tg-crf@granite#2"
    assert reader_table.Row.of("classify-inews_zh").name == "classify-inews_zh@ernie#1"
    assert reader_table.Row.of("answer-squad_en").body == "hypernet"


def test_every_row_of_the_tables_has_a_recipe(reader_table):
    counts = {"extract": 3 * 2 * (3 * 3 + 2), "classify": 4 * 2 * 3, "answer": 4}
    for group, count in counts.items():
        names = reader_table.rows_of(group)
        assert len(set(names)) == count
        for name in names:
            row = reader_table.Row.of(name)
            assert (reader_table.RECIPES / "reader" / f"{row.recipe}.toml").exists(), name


def test_a_row_is_trained_measured_and_shown(reader_table, tmp_path, capsys, monkeypatch):
    for part in ("train", "dev", "test"):
        folder = tmp_path / "data" / "classify" / "reuters_en"
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(folder / f"{part}.jsonl", sample_labelled())
    monkeypatch.setitem(reader_table.FAMILIES, "minilm", "none")
    changes = ["backbone=", "train.steps=2", "train.evaluate_every=2", "tokeniser.size=300", "model.reader_layers=1"]
    changes += [f"model.{name}=16" for name in ("hidden", "width", "inner")] + ["model.heads=2"]
    args = argparse.Namespace(
        root=tmp_path / "data",
        backbones=tmp_path,
        runs=tmp_path / "runs",
        cache=tmp_path / "cache",
        out=tmp_path / "results.jsonl",
        threads=1,
        limit=None,
        set=changes,
    )
    for name in ("classify-reuters_en@minilm#1", "classify-reuters_en-plain@minilm#1"):
        reader_table.run(name, args)
    lines = [json.loads(line) for line in args.out.read_text().splitlines()]
    assert [line["body"] for line in lines] == ["hypernet", "plain"]
    assert all(0 <= line["accuracy"] <= 1 and line["n"] == len(sample_labelled()) for line in lines)
    monkeypatch.setattr(sys, "argv", ["reader_table.py", "show", str(args.out)])
    reader_table.main()
    assert "| reuters_en | minilm | plain | 1 |" in capsys.readouterr().out


def work(row: str) -> None:
    if row == "broken":
        raise ValueError(row)
    Path(row).touch()


def test_rows_that_fail_do_not_end_the_others(reader_table, tmp_path, capfd):
    rows = [str(tmp_path / "one"), "broken", str(tmp_path / "two")]
    reader_table.side_by_side(work, rows, jobs=1, seconds=60)
    assert (tmp_path / "one").exists()
    assert (tmp_path / "two").exists()
    assert "broken: failed" in capfd.readouterr().out
    reader_table.side_by_side(work, [str(tmp_path / "late")], jobs=1, seconds=-1)
    assert not (tmp_path / "late").exists()
