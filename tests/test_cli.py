"""The command line: data on stdout, talk on stderr, exit codes, and what happens when something is wrong."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from conftest import Result, sample_rows, write_rows
from tagsmith.cli import app
from tagsmith.data.readers import read_rows
from tagsmith.data.writers import RowWriter

ROWS = sample_rows()[:6]
COMMANDS = sorted(command.callback.__name__ for command in app.registered_commands)
METRICS = {"rouge1", "rouge2", "rougeL", "f1@1", "f1@5", "f1@5_full", "p@1", "r@10", "n"}


@pytest.fixture
def run(run_cli, shipped):
    """The entry point in this process, with two shipped models."""
    return run_cli


def failed(result: Result, words: str) -> bool:
    """One line of error, nothing on stdout, exit code 2."""
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert words in result.err
    return True


def command(*words) -> list[str]:
    return [sys.executable, "-m", "tagsmith", *map(str, words)]


def test_texts_become_json_lines(run):
    done = run("tag", "so happy about a flat white today", "今天的火锅太好吃了")
    assert (done.code, done.err) == (0, "")
    assert [row["id"] for row in done.rows] == [0, 1]
    for row in done.rows:
        assert list(row) == ["id", "tags", "error"]
        assert row["error"] is None
        assert list(row["tags"][0]) == ["text", "score", "kind", "spans"]
    assert len(run("tag", "a flat white", "--top", 1).rows[0]["tags"]) == 1
    assert "segments" in run("tag", "a flat white", "--evidence").rows[0]


def test_a_terminal_gets_a_table_unless_json_is_asked_for(run):
    text = "so happy about a flat white today"
    shown = run("tag", text, terminal=True)
    assert (shown.code, shown.err) == (0, "")
    assert text in shown.out
    assert "#" in shown.out
    assert not shown.out.startswith("{")
    assert run("tag", text, "--json", terminal=True).out == run("tag", text).out
    assert run("tag", text, "--table").out == shown.out
    assert failed(run("tag", text, "--table", "--output", "out.csv"), "--table is for reading here")
    failing = run("tag", "", text, terminal=True)
    assert (failing.code, failing.err) == (1, "error: the text is empty; give at least one word\n")
    assert text in failing.out


@pytest.mark.parametrize("given", ["in.jsonl", "in.csv", "in.tsv.gz", "in.parquet"])
@pytest.mark.parametrize("wanted", ["out.jsonl.zst", "out.csv", "out.tsv", "out.parquet"])
def test_files_of_every_format_go_in_and_out(run, tmp_path, given, wanted):
    with RowWriter(tmp_path / given) as writer:
        for row in ROWS:
            writer.write(row)
    done = run("tag", "--input", tmp_path / given, "--output", tmp_path / wanted, "--evidence")
    assert (done.code, done.out, done.err) == (0, "", "")
    found = list(read_rows(tmp_path / wanted))
    assert [str(row["id"]) for row in found] == [str(row["id"]) for row in ROWS]
    first = found[0]["tags"]
    assert {"text", "score", "kind", "spans"} == set((json.loads(first) if isinstance(first, str) else first)[0])
    assert "segments" in found[0]


def test_stdin_is_read_and_stdout_written_by_a_dash(run):
    lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    done = run("tag", "--input", "-", "--output", "-", stdin=lines)
    assert [row["id"] for row in done.rows] == [row["id"] for row in ROWS]


def test_rows_that_cannot_be_read_keep_their_place(run, tmp_path):
    path = tmp_path / "in.jsonl"
    lines = [
        '{"id": 1, "text": "a flat white"}',
        '{"id": 2, "text": "a fla',
        '{"id": 3, "body": "a flat white"}',
        json.dumps({"id": 4, "text": "x" * 2**20}),
        json.dumps({"id": 5, "text": "\ud800 half a letter"}),
        json.dumps({"id": 6, "text": "\x00\x1b[31m \x07control\x7f characters"}),
        '{"id": 7, "text": "   "}',
    ]
    path.write_text("\n".join(lines))
    done = run("tag", "--input", path)
    assert (done.code, done.err) == (1, "")
    assert [row["id"] for row in done.rows] == [1, None, 3, 4, 5, 6, 7]
    errors = [row["error"] for row in done.rows]
    assert errors[0] is None
    assert errors[1].startswith("row 2: the line is not JSON: ")
    assert errors[2].startswith("row 3: the row has no field 'text' (its fields: 'id', 'body')")
    assert errors[3] == "the text has 1,048,576 characters, the most is 200,000; tag it in parts"
    assert errors[4].startswith("the text has a lone surrogate")
    assert errors[5] is None
    assert errors[6].startswith("the text is empty")
    assert all(row["tags"] == [] for row in done.rows if row["error"])


def test_bytes_that_are_no_text_on_the_command_line_are_a_row_in_error(run):
    done = run("tag", os.fsdecode(b"caf\xe9"), "a flat white")
    assert done.code == 1
    assert "lone surrogate" in done.rows[0]["error"]
    assert done.rows[1]["error"] is None


def test_a_table_without_the_column_is_an_error_and_field_names_another(run, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("number,content\n7,a flat white\n8,the barista\n")
    assert failed(run("tag", "--input", path), "has no column 'text'; its columns: 'number', 'content'")
    done = run("tag", "--input", path, "--field", "text=content", "--field", "id=number")
    assert (done.code, [row["id"] for row in done.rows]) == (0, ["7", "8"])
    assert failed(run("tag", "--input", path, "--field", "text"), "--field takes OUR_NAME=THEIR_NAME, not 'text'")


def test_texts_and_a_file_are_one_or_the_other(run, tmp_path):
    for words in ((), ("a flat white", "--input", tmp_path / "in.jsonl")):
        assert failed(run("tag", *words), "give texts or --input FILE, one of the two")
    for words in ((), ("a.toml", "--data", "b.csv")):
        assert failed(run("train", *words), "give a recipe or --data FILE, one of the two")


def test_the_command_line_itself_is_checked(run):
    assert failed(run("tga"), "No such command 'tga'")
    assert failed(run("tag", "--colour"), "No such option: --colour")
    assert failed(run("tag", "x", "--top", 0), "Invalid value for '--top'")
    assert failed(run("evaluate", "hashtag-en"), "Missing argument")
    nothing = run()
    assert (nothing.code, nothing.err) == (2, "")
    assert "Usage: tagsmith" in nothing.out


def test_files_that_are_not_there_or_cannot_be_written_are_named(run, tmp_path):
    path = write_rows(tmp_path / "in.jsonl", ROWS)
    assert failed(run("tag", "--input", tmp_path / "no.jsonl"), "there is no file")
    assert failed(run("tag", "--input", path, "--output", tmp_path / "no" / "out.csv"), "its folder does not exist")
    (tmp_path / "folder.csv").mkdir()
    assert failed(run("tag", "--input", path, "--output", tmp_path / "folder.csv"), "it is a folder")
    assert failed(run("tag", "--input", path, "--output", path / "out.csv"), "is a file, not a folder")
    assert failed(run("tag", "--input", path, "--output", tmp_path / "out.txt"), "does not say its format")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bundles", "folder.csv", "in.jsonl"]


def test_the_input_is_never_written_over(run, tmp_path):
    path = write_rows(tmp_path / "in.jsonl", ROWS)
    before = path.read_bytes()
    (tmp_path / "link.jsonl").symlink_to(path)
    for other in (path, tmp_path / "link.jsonl"):
        assert failed(run("tag", "--input", path, "--output", other), "is also the input; write to another file")
    assert path.read_bytes() == before


def test_a_failure_half_way_leaves_the_old_output(run, tmp_path):
    path, out = tmp_path / "in.csv", tmp_path / "out.jsonl"
    out.write_text("old\n")
    path.write_bytes(b"text,id\n" + b"a flat white,1\n" * 3)
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(path.read_bytes())[:-4])
    assert failed(run("tag", "--input", tmp_path / "in.csv.gz", "--output", out), "its packed data is cut off")
    assert out.read_text() == "old\n"
    assert not list(tmp_path.glob(".*"))


def test_models_that_are_not_there_or_broken_are_named(run, shipped, tmp_path):
    assert failed(run("tag", "x", "--model", "hashtag-enn"), "did you mean 'hashtag-en'?")
    assert failed(run("tag", "x", "--model", tmp_path), "is no bundle: it has no config.json")
    weights = shipped / "hashtag-en" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    assert failed(run("tag", "a flat white"), "weights.safetensors is damaged")
    assert failed(run("evaluate", "hashtag-en", tmp_path / "in.jsonl"), "weights.safetensors is damaged")


def test_ctrl_c_is_130_and_a_bug_is_one_line(run, monkeypatch):
    def interrupt(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("tagsmith.pipelines.auto.load_tagger", interrupt)
    done = run("tag", "a flat white")
    assert (done.code, done.out, done.err) == (130, "", "interrupted\n")
    monkeypatch.setattr("tagsmith.pipelines.auto.load_tagger", lambda *given: 1 // 0)
    assert failed(run("tag", "a flat white"), "ZeroDivisionError: integer division or modulo by zero; this is a bug")
    shown = run("--debug", "tag", "a flat white")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("Traceback")
    assert "load_tagger" in shown.err
    assert shown.err.splitlines()[-1].startswith("error: ZeroDivisionError")


def test_debug_shows_where_an_error_of_ours_comes_from_and_changes_nothing_else(run):
    plain, shown = run("tag", "x", "--model", "hashtag-enn"), run("--debug", "tag", "x", "--model", "hashtag-enn")
    assert failed(plain, "did you mean 'hashtag-en'?")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("Traceback")
    assert "find_bundle" in shown.err
    assert shown.err.endswith(plain.err)
    assert run("--debug", "tag", "a flat white") == run("tag", "a flat white")


def test_evaluate_gives_the_metrics_of_the_contract(run, tmp_path):
    rows = [{**row, "part": "short" if number % 2 else "long"} for number, row in enumerate(ROWS)]
    path = write_rows(tmp_path / "in.jsonl", rows)
    done = run("evaluate", "hashtag-en", path, "--json")
    assert (done.code, done.err) == (0, "")
    (scores,) = done.rows
    assert set(scores) == {*METRICS, "parts"}
    assert scores["n"] == 6
    assert all(0 <= scores[name] <= 1 for name in METRICS - {"n"})
    assert {name: part["n"] for name, part in scores["parts"].items()} == {"long": 3, "short": 3}
    assert run("evaluate", "hashtag-en", path, "--limit", 2).rows[0]["n"] == 2
    table = run("evaluate", "hashtag-en", path, terminal=True)
    assert table.code == 0
    assert all(word in table.out for word in ("rouge1", "short", "long", "p@1"))


def test_evaluate_says_what_it_left_out_and_what_it_lacks(run, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(ROWS[0]) + "\n" + "not json\n" * 7)
    done = run("evaluate", "hashtag-en", path)
    assert (done.code, done.rows[0]["n"]) == (1, 1)
    assert done.err.splitlines()[0].startswith("row 2 left out: the line is not JSON")
    assert done.err.splitlines()[-1] == "... and 2 more"
    path.write_text('{"text": "no tags here"}\n')
    assert failed(run("evaluate", "hashtag-en", path), "has no row with a text and tags")
    assert failed(run("evaluate", "hashtag-en", tmp_path / "no.jsonl"), "there is no file")


def test_models_are_listed(run):
    done = run("models")
    assert (done.code, done.err) == (0, "")
    assert {row["task"] for row in done.rows} == {"hashtag"}
    assert all(row["megabytes"] >= 0 for row in done.rows)
    shown = run("models", terminal=True)
    assert shown.code == 0
    assert "language" in shown.out
    assert not shown.out.startswith("{")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run, name):
    done = run(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert f"tagsmith {name}" in done.out
    overview = run("--help")
    assert overview.code == 0
    assert name in overview.out


def write_csv(path, rows, *, field="hashtags"):
    lines = [f'{number},"{text}","{" ".join("#" + tag for tag in tags)}"' for number, (text, tags) in enumerate(rows)]
    path.write_text("\n".join([f"id,text,{field}", *lines]), encoding="utf-8")
    return path


def posts(count: int, tag: str):
    return [(f"{tag} is number {number} of my week", [tag, "Daily"]) for number in range(count)]


QUICK = ("--set", "train.steps=2", "--set", "train.log_every=1")


def test_a_file_of_posts_is_enough_to_train(run, tmp_path):
    data, out = write_csv(tmp_path / "posts.csv", posts(30, "Chess"), field="labels"), tmp_path / "mine"
    assert failed(run("train", "--data", data, "--out", out), "the first 30 rows of")
    done = run("train", "--data", data, "--out", out, "--field", "hashtags=labels", *QUICK)
    assert done.code == 0
    assert done.rows == [{"bundle": str(out / "bundle")}]
    assert "step 2/2" in done.err
    config = json.loads((out / "bundle" / "config.json").read_text())
    assert (config["name"], config["measured"]["steps"]) == ("mine", 2)
    assert run("tag", "my chess club", "--model", out / "bundle").code == 0
    # other posts in the same place: nothing of the old ones is used again
    assert json.loads((out / "corpus" / "corpus.json").read_text())["posts"] == 28
    again = write_csv(tmp_path / "others.csv", posts(50, "Ramen"))
    assert run("train", "--data", again, "--out", out, *QUICK).code == 0
    assert json.loads((out / "corpus" / "corpus.json").read_text())["posts"] == 47
    # but a run that goes on finds what it had
    (tmp_path / "others.csv").write_text("id,text,hashtags\n1,the dev post,#x\n2,another one,#y\n")
    assert run("train", "--data", again, "--out", out, *QUICK, "--set", "train.steps=3", "--resume").code == 0
    assert json.loads((out / "corpus" / "corpus.json").read_text())["posts"] == 47


def test_training_may_begin_with_any_bundle(run, shipped, tiny_bundle, tmp_path):
    for one in shipped.iterdir():
        (one / "config.json").unlink()
    data, out = write_csv(tmp_path / "posts.csv", posts(30, "Chess")), tmp_path / "mine"
    done = run("train", "--data", data, "--out", out, "--set", f"start={tiny_bundle}", *QUICK)
    assert done.code == 0
    spellings = json.loads((out / "bundle" / "spellings.json").read_text())
    assert spellings == {"chess": "Chess", "daily": "Daily"}  # those of the data and of the model it began with
    assert failed(run("train", "--data", data, "--out", out), "there is no model or folder 'hashtag-en'")


def test_training_that_cannot_start_says_why(run, tiny_recipe, tmp_path):
    out = ("--out", tmp_path / "out")
    data = write_csv(tmp_path / "posts.csv", posts(30, "Chess"))
    assert failed(run("train", tmp_path / "no.toml"), "there is no recipe")
    assert failed(run("train", "--data", tmp_path / "no.csv"), "there is no file")
    assert failed(run("train", "--data", data, "--task", "topic"), "there is no task 'topic'")
    assert failed(run("train", "--data", data, "--set", "train.epoch=2"), "did you mean 'epochs'?")
    assert failed(run("train", tiny_recipe, *out, "--set", "nothing"), "--set takes section.key=value")
    assert failed(run("train", tiny_recipe, *out, "--set", "tokenizer.size=9"), "did you mean 'tokeniser'?")
    assert failed(run("train", tiny_recipe, "--out", data / "x"), "Not a directory")
    (tmp_path / "bad.toml").write_text(tiny_recipe.read_text().replace("width", "widht"))
    done = run("train", tmp_path / "bad.toml", *out)
    assert done.code == 2
    assert done.err.endswith("error: SegTrmConfig has no setting 'widht'; did you mean 'width'?\n")
    done = run("train", tiny_recipe, *out, "--resume")
    assert done.code == 2
    assert "there is no checkpoint" in done.err


def test_dev_files_without_tags_are_an_error(run, tiny_recipe, tmp_path):
    (tmp_path / "dev.jsonl").write_text('{"text": "no tags"}\n')
    changes = ("--set", f"data.dev=['{tmp_path}/dev.jsonl']")
    done = run("train", tiny_recipe, "--out", tmp_path / "out", *changes)
    assert done.code == 2
    assert "no post with text and tags to choose by; check data.dev" in done.err


@pytest.mark.parametrize("words", [("--help",), ("tag", "--help"), ("tga",)])
def test_help_does_not_load_torch(words):
    code = (
        "import sys, tagsmith, tagsmith.cli; tagsmith.TagsmithError; tagsmith.Post\n"
        f"sys.argv = ['tagsmith', *{words!r}]\n"
        "try: tagsmith.cli.main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'pyarrow', 'tokenizers', 'accelerate'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("what", ["tag", "evaluate"])
def test_a_full_disk_is_one_line_and_2(tiny_bundle, tmp_path, what):
    path = write_rows(tmp_path / "in.jsonl", ROWS)
    words = ("tag", "--model", tiny_bundle, "--input", path) if what == "tag" else ("evaluate", tiny_bundle, path)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command(*words), stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write the standard output: ")
    assert done.stderr.count("\n") == 1


def test_a_closed_pipe_is_one_line_and_no_traceback(tiny_bundle, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(ROWS[0]) + "\n" + '{"text": ""}\n' * 20_000)
    with subprocess.Popen(
        command("tag", "--model", tiny_bundle, "--input", path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = json.loads(process.stdout.readline())
        process.stdout.close()
        talk = process.stderr.read().decode()
        assert process.wait(timeout=120) == 2
    assert first["id"] == ROWS[0]["id"]
    assert talk == "error: whoever read the output stopped reading; the rest was not written\n"


def test_an_interrupt_is_130_and_leaves_nothing_half_written(tiny_bundle, tmp_path):
    out = tmp_path / "out.jsonl"
    with subprocess.Popen(
        command("tag", "--model", tiny_bundle, "--input", "-", "--output", out),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b'{"text": ""}\n' * 10_000)
        process.stdin.flush()  # and no end: it waits for more
        deadline = time.monotonic() + 60
        while not any(part.stat().st_size for part in tmp_path.glob(".out.jsonl.*.part")):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        talk = process.stderr.read().decode()
        assert process.wait(timeout=60) == 130
    assert talk == "interrupted\n"
    assert list(tmp_path.iterdir()) == []
