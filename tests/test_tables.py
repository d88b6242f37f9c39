"""The scripts that train and show the tables: which rows they have, and a row from its recipe to its results."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

import pytest
import torch

from conftest import sample_labelled, write_rows
from tagsmith.records import Pair

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


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import reply_relevance
    import reply_table

    return reply_table, reply_relevance


def test_drawn_replies_are_shown_beside_searched_ones(scripts, tmp_path, capsys):
    table, _ = scripts
    scores = dict.fromkeys((*table.METRICS, "repetition_rate"), 0.25)
    lines = [
        {"row": "chat-en-lm", "way": "drawn", "n": 10, **scores, "copy_rate": 0.01, "dist2": 0.5},
        {"row": "chat-en-lm", "way": "beam", "n": 10, **scores, "copy_rate": 0.04, "repetition_rate": 0.0},
        {"row": "chat-en-s2s", "way": "drawn", "n": 10, **scores},
    ]
    near = [
        {"row": "chat-en-lm", "way": way, "relevance": value, "chance": 0.1}
        for way, value in (("drawn", 0.31), ("beam", 0.29))
    ]
    write_rows(tmp_path / "rows.jsonl", lines)
    write_rows(tmp_path / "near.jsonl", near)
    table.show(tmp_path / "rows.jsonl", tmp_path / "near.jsonl")
    shown = capsys.readouterr().out
    assert "| chat-en-lm | 0.310 | 0.290 | 0.100 | 0.500 | 0.250 | 1.273 (-0.14), 0.441 (+0.18) |" in shown
    assert "| chat-en-lm | 4.0 | 1.0 | -75 % | 0.0 | 25.0 |" in shown
    assert shown.count("chat-en-s2s") == 1  # never searched: in the first table alone


def test_runs_of_a_row_are_shown_as_their_mean(scripts):
    table, _ = scripts
    lines = [{"row": "lm", "way": "drawn", "n": 10, "hit_q": value} for value in (0.1, 0.3)]
    lines.append({"row": "lm", "way": "beam", "n": 10, "hit_q": 0.5})
    assert table.means(lines) == [
        {"row": "lm", "way": "drawn", "n": 10, "hit_q": pytest.approx(0.2), "runs": 2},
        {"row": "lm", "way": "beam", "n": 10, "hit_q": 0.5, "runs": 1},
    ]


def test_a_reply_is_as_relevant_as_its_nearest_reference(scripts, tmp_path):
    _, relevance = scripts
    turns = {"q1": 0.0, "a": 0.0, "far": 90.0, "q2": 180.0, "b": 60.0}
    vectors = {
        text: torch.tensor([math.cos(math.radians(turn)), math.sin(math.radians(turn))]) for text, turn in turns.items()
    }
    pairs = [Pair("q1", ("far", "a")), Pair("q2", ("far",))]
    found = relevance.measure(pairs, ["b", ""], lambda texts: {text: vectors[text] for text in texts})
    assert found["relevance"] == pytest.approx(math.cos(math.radians(30)) / 2)  # "far" is nearer; no reply counts 0
    assert found["relevance_query"] == pytest.approx(math.cos(math.radians(60)) / 2)
    assert found["chance"] == pytest.approx(math.cos(math.radians(30)) / 2)
    write_rows(tmp_path / "said.jsonl", [{"replies": [{"text": "b"}]}, {"replies": []}, {"error": "x"}])
    assert relevance.read_replies(tmp_path / "said.jsonl") == ["b", "", ""]
