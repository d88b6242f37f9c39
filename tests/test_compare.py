"""`tagsmith compare`: one row for each system, each run in a process of its own, and what happens when one fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import sample_documents, sample_rows, write_rows
from tagsmith.errors import ConfigError, DataError
from tagsmith.metrics.phrases import MAIN, ScoredDocument, keyphrase_metrics
from tagsmith.metrics.tags import Scored, hashtag_metrics
from tagsmith.models.singlerank import SingleRank
from tagsmith.pipelines.alone import run_alone, write_texts
from tagsmith.pipelines.compare import Comparison, Gold, kind_of, read_gold
from tagsmith.pipelines.measure import items_of, peak_megabytes
from tagsmith.pipelines.systems import KEYBERT_MODEL, check_systems, load_system, plain_text
from tagsmith.records import Document, Post
from test_cli import failed

DOCUMENTS = [
    {
        "title": "Safe ship control",
        "abstract": "A multi-step matrix game for the control of a ship in collision situations.",
        "keyphrases": ["ship control", "matrix game", "optimal control"],
    },
    {"title": "Ramen broth", "text": "The broth of ramen needs pork bones.", "keyphrases": ["ramen", "pork bones"]},
    {"abstract": "Graph colouring by local search.", "keyphrases": "graph colouring; local search"},
]
POSTS = [
    {"text": "we march for climate action https://example.org/a", "hashtags": ["ClimateAction"]},
    {"text": "slow ramen, my friends", "tags": ["Ramen", "Friends"]},
]
QUALITY = {"documents": [*MAIN], "posts": ["f1@1", "f1@5", "r@10"]}


@pytest.fixture
def run(run_cli):
    """The entry point in this process."""
    return run_cli


@pytest.fixture
def documents(tmp_path) -> Path:
    return write_rows(tmp_path / "documents.jsonl", DOCUMENTS)


@pytest.fixture
def posts(tmp_path) -> Path:
    return write_rows(tmp_path / "posts.jsonl", POSTS)


@pytest.fixture
def other_library(tmp_path, monkeypatch):
    """Puts a module of that name where this process and new ones find it."""
    folder = tmp_path / "libraries"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))

    def write(name: str, source: str) -> None:
        (folder / f"{name}.py").write_text(source, encoding="utf-8")

    return write


def gold_of(path: Path, limit: int | None = None) -> Gold:
    return read_gold(str(path), rename={}, limit=limit, on_bad=lambda row: None)


def test_every_baseline_has_a_row_with_quality_speed_and_memory(run, documents):
    done = run("compare", documents, "--models", "tfidf,textrank, singlerank,noun-phrases")
    assert (done.code, done.err) == (0, "")
    assert [row["system"] for row in done.rows] == ["tfidf", "textrank", "singlerank", "noun-phrases"]
    costs = ["texts_per_cpu_second", "load_seconds", "peak_megabytes"]
    for row in done.rows:
        assert list(row) == ["system", "kind", "n", "top", *QUALITY["documents"], "predicted", *costs, "error"]
        assert (row["kind"], row["n"], row["top"], row["error"]) == ("documents", 3, 10, None)
        assert row["texts_per_cpu_second"] > 1
        # a process of its own: this one holds torch and is far larger, and a peak must not be inherited from it
        assert 5 < row["peak_megabytes"] < 120 < peak_megabytes()
    texts = [plain_text(item) for item in gold_of(documents).items]
    ranked = [[phrase for phrase, _ in SingleRank().rank(text)] for text in texts]
    gold = [item.keyphrases for item in gold_of(documents).items]
    expected = keyphrase_metrics(map(ScoredDocument, texts, ranked, gold))
    assert {name: done.rows[2][name] for name in MAIN} == pytest.approx(
        {name: expected[name] for name in MAIN}, abs=1e-6
    )
    assert done.rows[2]["predicted"] == pytest.approx(sum(map(len, ranked)) / 3, abs=0.01)


def test_a_post_is_scored_by_hashtags_and_phrases_are_run_together(run, posts):
    done = run("compare", posts, "--models", "noun-phrases")
    (row,) = done.rows
    assert (done.code, row["kind"], row["n"], row["top"]) == (0, "posts", 2, 5)
    # "march", "climate action" and nothing of the link; "slow ramen", "friends"
    assert row["predicted"] == 2
    assert row["f1@1"] == 0
    assert row["f1@5"] == pytest.approx((2 / 3 + 1 / 2) / 2, abs=1e-6)
    assert row["r@10"] == pytest.approx((1 + 1 / 2) / 2)


def test_top_and_limit_and_field(run, tmp_path):
    rows = [{"body": row["text"], "labels": row.get("hashtags") or row["tags"]} for row in POSTS]
    path = write_rows(tmp_path / "mine.jsonl", rows)
    words = ("compare", path, "--models", "noun-phrases", "--field", "text=body", "--field", "hashtags=labels")
    assert run(*words).rows[0]["n"] == 2
    (row,) = run(*words, "--limit", 1, "--top", 1).rows
    assert (row["n"], row["top"], row["predicted"]) == (1, 1, 1)
    assert failed(run(*words[:4]), "does not say what is right")
    assert failed(run(*words, "--top", 0), "--top")


def test_a_terminal_gets_a_table_unless_json_is_asked_for(run, documents):
    shown = run("compare", documents, "--models", "noun-phrases", terminal=True)
    assert shown.code == 0
    assert not shown.out.startswith("{")
    assert all(word in shown.out for word in ("system", "present", "f1@10", "noun-phrases", "CPU s", "MB"))
    assert shown.err == "3 documents, 10 phrases asked of each\n"
    assert run("compare", documents, "--models", "noun-phrases", "--json", terminal=True).rows[0]["n"] == 3


def test_stdin_is_read_by_a_dash(run, documents):
    done = run("compare", "-", "--models", "noun-phrases", stdin=documents.read_bytes())
    assert (done.code, done.rows[0]["n"]) == (0, 3)
    assert failed(run("compare", "-", "--models", "noun-phrases"), "stdin has no row that can be read")


def test_a_csv_is_read_as_well(run, tmp_path):
    path = tmp_path / "documents.csv"
    path.write_text("title,abstract,keyphrases\nRamen,Pork bones,ramen; pork bones\n", encoding="utf-8")
    assert run("compare", path, "--models", "noun-phrases").rows[0]["present_f1@M"] == 1


def test_a_model_is_measured_as_it_tags(run, tiny_bundle, tmp_path):
    from tagsmith.pipelines.load import load_tagger

    rows = sample_rows()[:5]
    done = run("compare", write_rows(tmp_path / "posts.jsonl", rows), "--models", f"{tiny_bundle},tfidf", "--top", 10)
    assert (done.code, [row["system"] for row in done.rows]) == (0, [str(tiny_bundle), "tfidf"])
    answers = load_tagger(tiny_bundle).tag([Post(row["text"]) for row in rows], top=10)
    expected = hashtag_metrics(
        Scored([tag.text for tag in answer.tags], row["hashtags"]) for answer, row in zip(answers, rows, strict=True)
    )
    assert {name: done.rows[0][name] for name in QUALITY["posts"]} == pytest.approx(
        {name: expected[name] for name in QUALITY["posts"]}, abs=1e-6
    )
    assert done.rows[0]["peak_megabytes"] > done.rows[1]["peak_megabytes"] + 50  # torch


def test_a_keyphrase_model_is_measured_on_documents(run, keyphrase_bundle, tmp_path):
    file = write_rows(tmp_path / "documents.jsonl", sample_documents()[:12])
    (row,) = run("compare", file, "--models", keyphrase_bundle, "--json").rows
    assert row["error"] is None
    assert row["present_f1@5"] > 0.3
    assert row["absent_f1@M"] > 0.3


def test_a_system_that_fails_has_a_row_and_the_others_still_run(run, documents, other_library):
    other_library("yake", "from tagsmith.errors import BundleError\nraise BundleError('weights are\\ndamaged')")
    done = run("compare", documents, "--models", "yake,noun-phrases")
    assert done.code == 1
    first, second = done.rows
    assert first["error"] == "weights are\ndamaged"
    assert done.err == "yake failed: weights are\ndamaged\n"
    assert {first[name] for name in (*MAIN, "predicted", "texts_per_cpu_second", "peak_megabytes")} == {None}
    assert list(first) == list(second)
    assert second["error"] is None
    assert second["present_f1@5"] > 0
    shown = run("compare", documents, "--models", "yake", terminal=True)
    assert (shown.code, shown.out.count("-")) == (1, 9)


YAKE = """
print("a greeting that is no answer")
class KeywordExtractor:
    def __init__(self, n, top):
        assert (n, top) == (3, 2)
    def extract_keywords(self, text):
        return [("Ramen", 0.01), ("pork bones", 0.2)]
"""
KEYBERT = """
class KeyBERT:
    def __init__(self, model="default"):
        self.model = model
    def extract_keywords(self, text, *, keyphrase_ngram_range, stop_words, top_n):
        assert (keyphrase_ngram_range, stop_words) == ((1, 3), "english")
        return [(self.model, 0.9), ("pork bones", 0.2)][:top_n]
"""


def test_other_libraries_are_used_where_they_are_installed(run, tmp_path, other_library, monkeypatch):
    path = write_rows(tmp_path / "ramen.jsonl", [DOCUMENTS[1], {"title": "", "text": " ", "keyphrases": ["x"]}])
    other_library("yake", YAKE)
    other_library("keybert", KEYBERT)
    monkeypatch.setenv(KEYBERT_MODEL, "ramen")
    done = run("compare", path, "--models", "yake,keybert", "--top", 2)
    assert (done.code, done.err) == (0, "")
    for row in done.rows:
        assert row["error"] is None
        assert row["predicted"] == 1  # two of the first, none of the empty text
        assert row["present_f1@M"] == pytest.approx(0.5)
    monkeypatch.delenv(KEYBERT_MODEL)
    assert load_system("keybert", lambda: [], top=1).answer([Document("some text")]) == [["default"]]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("raise RuntimeError('no model here')", "RuntimeError: no model here"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by signal 9; was there too little memory?"),
        ("import os; os._exit(3)", "its process ended with exit code 3"),
    ],
)
def test_a_library_that_breaks_is_told_in_one_line(posts, other_library, tmp_path, source, error):
    other_library("yake", source)
    with Comparison(gold_of(posts)) as comparison:
        row = comparison.run("yake")
    assert error in row["error"]
    assert "\n" not in row["error"]
    assert row["f1@5"] is None


def test_a_library_that_is_missing_is_named_with_its_pip_command(run, posts, monkeypatch):
    monkeypatch.setattr("tagsmith.pipelines.systems.find_spec", lambda name: None)
    assert failed(run("compare", posts, "--models", "tfidf,yake"), "get it with `pip install yake`")
    with pytest.raises(ConfigError, match="pip install keybert"):
        load_system("keybert", lambda: [], top=5)


@pytest.fixture
def nothing_runs(monkeypatch):
    def never(*given, **options):
        raise AssertionError("nothing may run")

    monkeypatch.setattr("tagsmith.pipelines.compare.run_alone", never)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("models", "words"),
    [
        (
            "tfidf,tfidff",
            "there is no system 'tfidff'; known: tfidf, textrank, singlerank, noun-phrases, yake, keybert, ",
        ),
        (
            "no-such-model",
            "keybert, extract-en, hashtag-en, hashtag-zh, keyphrase-en, tags-en, or the folder of a model you trained",
        ),
        ("tfidf,textrank,tfidf", "'tfidf' is named twice; name each system once"),
        (" , ", "--models takes names with commas between"),
    ],
)
def test_names_that_cannot_be_are_2_before_anything_runs(run, posts, models, words):
    assert failed(run("compare", posts, "--models", models), words)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", "has no row that can be read; give JSON lines"),
        ('{"text": "ram\n', "has no row that can be read (row 1: the line is not JSON"),
        ('{"id": 1, "text": "ramen"}\n', "(the fields of its first rows: 'id', 'text'); documents need 'keyphrases'"),
        ('{"text": "ramen", "hashtags": []}\n', "has no row with a text and hashtags among the 1 that could be read"),
        ('{"text": "ramen", "keyphrases": []}\n', "has no row with a text and keyphrases"),
    ],
)
def test_a_file_without_gold_is_2(run, tmp_path, lines, words):
    path = tmp_path / "given.jsonl"
    path.write_text(lines, encoding="utf-8")
    assert failed(run("compare", path, "--models", "tfidf"), words)


@pytest.mark.usefixtures("nothing_runs")
def test_a_file_that_is_missing_is_2(run, tmp_path):
    assert failed(run("compare", tmp_path / "none.jsonl", "--models", "tfidf"), "there is no file")
    assert failed(run("compare", tmp_path / "none.jsonl"), "--models")


def test_broken_rows_and_rows_without_gold_are_told_and_left_out(run, tmp_path):
    path = tmp_path / "posts.jsonl"
    rows = [json.dumps(POSTS[0]), '{"text": "a fla', '{"hashtags": ["x"]}', '{"text": "ramen"}', json.dumps(POSTS[1])]
    path.write_text("\n".join(rows), encoding="utf-8")
    done = run("compare", path, "--models", "noun-phrases")
    assert (done.code, done.rows[0]["n"], done.rows[0]["error"]) == (1, 2, None)
    assert "row 2 left out: the line is not JSON" in done.err
    assert "row 3 left out: the row has no field 'text'" in done.err
    assert "1 rows without hashtags left out" in done.err


def test_documents_and_posts_are_told_apart_by_their_fields(documents, posts, tmp_path):
    assert kind_of(str(documents), {}) == "documents"
    assert kind_of(str(posts), {}) == "posts"
    later = [{"text": "a", "keyphrases": None}, {"text": "b", "keyphrases": ["b"]}]
    assert kind_of(str(write_rows(tmp_path / "later.jsonl", later)), {}) == "documents"
    with pytest.raises(DataError, match="does not say what is right"):
        kind_of(str(documents), {"phrases": "keyphrases"})


def test_systems_are_shown_no_gold(documents, posts, tmp_path):
    for path, kind in ((documents, "documents"), (posts, "posts")):
        gold, file = gold_of(path), tmp_path / "texts.jsonl"
        write_texts(gold.items, file)
        seen = list(items_of(file, kind))
        assert [item.text for item in seen] == [item.text for item in gold.items]
        assert not any(getattr(item, "keyphrases", ()) or getattr(item, "tags", ()) for item in seen)
        assert "optimal control" not in file.read_text()
    odd = [Post("lone \ud800 surrogate")]
    write_texts(odd, tmp_path / "odd.jsonl")
    assert list(items_of(tmp_path / "odd.jsonl", "posts")) == odd


def test_an_interrupt_ends_the_process_and_leaves_nothing(posts, monkeypatch):
    started: list[subprocess.Popen[bytes]] = []

    class Watched(subprocess.Popen):
        def __init__(self, *words, **options):
            super().__init__(*words, **options)
            started.append(self)

    def interrupt(count):
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Watched)
    with Comparison(gold_of(posts)) as comparison:
        folder = comparison._file.parent
        assert folder.exists()
        with pytest.raises(KeyboardInterrupt):
            comparison.run("noun-phrases", interrupt)
        assert [process.returncode is None for process in started] == [False]
    assert not folder.exists()


def test_an_interrupt_of_the_command_is_130(tmp_path, other_library):
    path = write_rows(tmp_path / "posts.jsonl", POSTS)
    mark = tmp_path / "started"
    other_library("yake", f"import pathlib, time; pathlib.Path({str(mark)!r}).write_text(''); time.sleep(600)")
    words = [sys.executable, "-m", "tagsmith", "compare", str(path), "--models", "yake"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            while not mark.exists():
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (130, b"", b"interrupted\n")


def test_a_process_does_not_outlive_the_one_that_asked(tmp_path):
    os.mkfifo(tmp_path / "texts.jsonl")  # nobody writes: it would wait for ever
    words = [sys.executable, "-m", "tagsmith.pipelines.measure", "tfidf", "posts", "5", str(tmp_path / "texts.jsonl")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.stdin.close()
        try:
            assert process.wait(timeout=10) == 1
        finally:
            process.kill()


def test_answers_are_heard_of_one_by_one(posts, tmp_path):
    write_texts(gold_of(posts).items, tmp_path / "texts.jsonl")
    heard: list[int] = []
    outcome = run_alone("noun-phrases", "posts", 1, tmp_path / "texts.jsonl", heard.append)
    assert heard == [1, 1]
    assert outcome.phrases == [["march"], ["SlowRamen"]]
    assert outcome.error is None


def test_what_extractors_read():
    assert plain_text(Document("Body.", title="Title")) == "Title. Body."
    assert plain_text(Document("Body.")) == "Body."
    read = plain_text(Post("@ann see https://x.org/y or mail a@b.org about #ClimateAction")).split()
    assert read == ["see", "or", "mail", "about", "climate", "action"]
    check_systems(["tfidf", "textrank"])
