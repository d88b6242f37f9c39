"""Batch jobs: every row once, in order, as the single commands give it, whatever is killed in between."""

from __future__ import annotations

import errno
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

from conftest import sample_documents, sample_labelled, sample_pairs, sample_questions, sample_rows, write_rows
from tagsmith.cluster import make_job, run_job
from tagsmith.cluster.chunks import Chunk, Part, Place, cut, find_inputs
from tagsmith.cluster.crew import TRIES, Crew, Gone
from tagsmith.cluster.local import LocalTeam, cores
from tagsmith.cluster.maker import Maker, Ready, Setup
from tagsmith.data.readers import read_rows
from tagsmith.data.writers import RowWriter
from tagsmith.errors import BatchError, BundleError, ConfigError, DataError, OutputError
from tagsmith.pipelines.work import TAKES, Ask

TASKS = {
    "hashtag": ("tiny_bundle", "tag", sample_rows),
    "rank": ("rank_bundle", "tag", sample_rows),
    "keyphrase": ("keyphrase_bundle", "tag", sample_documents),
    "reply": ("reply_bundle", "reply", sample_pairs),
    "classify": ("classify_bundle", "classify", sample_labelled),
    "answer": ("answer_bundle", "answer", sample_questions),
    "extract": ("extract_bundle", "extract", sample_documents),
}
loaded: dict[Setup, Maker] = {}


class HereTeam:
    """Workers that are no processes: they answer when they are waited for, and die when `fate` says so."""

    def __init__(self, setup, fate=lambda worker, chunk: None):
        if setup not in loaded:
            loaded[setup] = Maker(setup)
            assert loaded[setup].load() == Ready()
        self.maker = loaded[setup]
        self.fate = fate
        self.hired = 0
        self.said = deque()
        self.closed = False

    def hire(self):
        self.hired += 1
        self.said.append((self.hired, Ready()))
        return self.hired

    def give(self, worker, chunk):
        self.said.append((worker, self.fate(worker, chunk) or chunk))

    def hear(self, *, wait):
        if not wait:  # they take their time
            return []
        assert self.said, "this would wait for ever"
        worker, message = self.said.popleft()
        return [(worker, self.maker.make(message) if isinstance(message, Chunk) else message)]

    def close(self):
        self.closed = True


def here(size=2, **options):
    return lambda job: (HereTeam(Setup.of(job), **options), size)


def rows_of(folder):
    """The rows of all parts, by the parts' names."""
    return [row for path in sorted(Path(folder).glob("part-*")) for row in read_rows(path)]


def command(*words):
    return [sys.executable, "-m", "tagsmith", *map(str, words)]


def fails(run_cli, words, *given):
    done = run_cli("batch", *given)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert words in done.err


@pytest.fixture
def posts(tmp_path):
    """Sixty posts in two files, the second packed; a row that is no JSON, and one without a text."""
    rows = sample_rows()
    folder = tmp_path / "posts"
    folder.mkdir()
    write_rows(folder / "a.jsonl", rows[:35])
    text = "".join(json.dumps(row) + "\n" for row in rows[35:50])
    text += "not JSON\n" + '{"id": "none"}\n' + "".join(json.dumps(row) + "\n" for row in rows[50:])
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "_ignored.txt").write_text("by its name no data")
    return folder


@pytest.mark.parametrize("task", TASKS)
def test_rows_are_those_of_the_single_command(task, request, run_cli, tmp_path):
    fixture, name, sample = TASKS[task]
    bundle = request.getfixturevalue(fixture)
    path = write_rows(tmp_path / "in.jsonl", [*sample(), {"id": "bad", "text": 3}])
    options = ("--seed", 5, "--top", 2) if task == "reply" else ("--top", 2)
    wanted = run_cli(name, "--model", bundle, "--input", path, "--json", *options)
    assert wanted.code == 1
    seed = 5 if task == "reply" else None
    job = make_job(path, Ask(str(bundle), top=2, seed=seed), format="jsonl")
    done = run_job(job, tmp_path / "out", here())
    assert rows_of(tmp_path / "out") == wanted.rows
    assert (done.rows, done.errors, done.parts) == (len(wanted.rows), 1, 1)


def test_vectors_and_other_voices_and_lists_too(run_cli, rank_bundle, tiny_bundle, keyphrase_bundle, tmp_path):
    from tagsmith.bundle import save_twin

    twin = rank_bundle.parent / "embed"
    save_twin(twin, name="embed", task="embed", same_as=rank_bundle.name, card="", measured={})
    posts, documents = tmp_path / "posts.jsonl", tmp_path / "documents.jsonl"
    write_rows(posts, sample_rows())
    write_rows(documents, sample_documents())
    terms = tmp_path / "terms.txt"
    terms.write_text("broth\nflat white\ntomatoes\n")
    cases = [
        ("embed", posts, Ask(str(twin)), ()),
        ("tag", posts, Ask(str(tiny_bundle), voices=(str(rank_bundle),)), ("--with", rank_bundle)),
        ("tag", posts, Ask(str(tiny_bundle), evidence=True), ("--evidence",)),
        ("tag", documents, Ask(str(keyphrase_bundle), vocab=str(terms)), ("--vocab", terms)),
    ]
    for number, (name, path, ask, options) in enumerate(cases):
        wanted = run_cli(name, "--model", ask.model, "--input", path, *options).rows
        out = tmp_path / str(number)
        run_job(make_job(path, ask, format="jsonl"), out, here())
        assert rows_of(out) == wanted
    old = make_job(documents, cases[3][2], format="jsonl")
    terms.write_text("broth\n")
    with pytest.raises(OutputError, match="holds another job: its checksum 'vocab' was "):
        run_job(make_job(documents, cases[3][2], format="jsonl"), tmp_path / "3", here(), resume=True)
    assert old.sums["model"] == make_job(documents, cases[3][2]).sums["model"]


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_a_folder_keeps_its_order_and_its_bad_rows(posts, tiny_bundle, run_cli, tmp_path, format):
    job = make_job(posts, Ask(str(tiny_bundle)), format=format, part_rows=10)
    done = run_job(job, tmp_path / "out", here())
    wanted = []
    for path in (posts / "a.jsonl", posts / "b.jsonl.gz"):
        one = tmp_path / f"one.{format}"
        run_cli("tag", "--model", tiny_bundle, "--input", path, "--output", one)
        wanted += list(read_rows(one))
    found = rows_of(tmp_path / "out")
    assert [(row["id"], row["error"]) for row in found] == [(row["id"], row["error"]) for row in wanted]
    assert [[tag["text"] for tag in row["tags"]] for row in found] == [
        [tag["text"] for tag in row["tags"]] for row in wanted
    ]
    assert (done.rows, done.errors) == (62, 2)
    assert "row 16: the line is not JSON" in found[50]["error"]
    names = sorted(path.name for path in (tmp_path / "out").glob("part-*"))
    assert names == [f"part-00000-00000{n}.{format}" for n in range(4)] + [
        f"part-00001-00000{n}.{format}" for n in range(3)
    ]
    if format == "parquet":
        assert pyarrow.parquet.read_table(tmp_path / "out").num_rows == 62  # the manifest does not disturb it


def test_parts_of_whole_sorted_groups_have_the_very_same_digits(tiny_bundle, run_cli, tmp_path):
    rows = [{**row, "id": number, "text": f"{row['text']} {number}"} for number, row in enumerate(sample_rows() * 36)]
    path = write_rows(tmp_path / "in.jsonl", rows)
    assert len(rows) > 2048
    run_cli("tag", "--model", tiny_bundle, "--input", path, "--output", tmp_path / "one.jsonl")
    run_job(make_job(path, Ask(str(tiny_bundle)), format="jsonl", part_rows=2048), tmp_path / "out", here())
    assert (
        b"".join(part.read_bytes() for part in sorted((tmp_path / "out").glob("part-*")))
        == (tmp_path / "one.jsonl").read_bytes()
    )


def test_chunks_cross_no_file_and_know_the_last(tmp_path):
    for name, count in (("a", 4), ("b", 0), ("c", 3)):
        write_rows(tmp_path / f"{name}.jsonl", [{"text": f"{name}{number}"} for number in range(count)])
    files = find_inputs(tmp_path)
    chunks = list(cut(files, "posts", {}, 2))
    assert [chunk.place for chunk in chunks] == [Place(0, 0), Place(0, 1, True), Place(2, 0), Place(2, 1, True)]
    assert [[post.text for post in chunk.rows] for chunk in chunks] == [
        ["a0", "a1"],
        ["a2", "a3"],
        ["c0", "c1"],
        ["c2"],
    ]
    left = cut(files, "posts", {}, 2, skip_file=lambda file: file == 0, skip=lambda place: place.chunk == 0)
    assert [chunk.place for chunk in left] == [Place(2, 1, True)]


def test_as_many_workers_as_allowed_start_side_by_side_and_few_chunks_are_held(posts, tiny_bundle):
    team = HereTeam(Setup.of(make_job(posts, Ask(str(tiny_bundle)))))
    real, slow, read = team.hire, [], []

    def hire():
        worker = real()
        if worker > 1:
            slow.append(team.said.pop())  # all but the first take long to load their model
        return worker

    def chunks():
        for number in range(40):
            read.append(number)
            yield Chunk(Place(0, number), ())

    team.hire = hire
    crew = Crew(team, 5)
    crew.start()
    made = crew.parts(chunks())
    first = next(made)
    assert (first.place.chunk, team.hired, len(read)) == (0, 5, 6)  # one for each, and one more
    team.said += slow
    places = [part.place.chunk for part in (first, *made)]
    assert sorted(places) == list(range(40))
    assert team.hired == 5


def test_workers_that_die_are_replaced_and_their_chunks_done_again(posts, tiny_bundle, tmp_path):
    job = make_job(posts, Ask(str(tiny_bundle)), format="jsonl", part_rows=5)
    run_job(job, tmp_path / "calm", here())
    seen, lost = [], []

    def fate(worker, chunk):
        seen.append((chunk.place.file, chunk.place.chunk))
        return Gone("of the test") if worker % 3 == 0 or len(seen) == 1 else None

    run_job(job, tmp_path / "out", here(3, fate=fate), on_lost=lost.append)
    assert len(lost) > 1
    assert len(seen) == len(set(seen)) + len(lost)
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "calm")


def test_what_ends_every_worker_ends_the_job(posts, tiny_bundle, tmp_path):
    job = make_job(posts, Ask(str(tiny_bundle)), format="jsonl", part_rows=10)

    def fate(worker, chunk):
        return Gone("it was too long") if chunk.place.chunk == 2 else None

    with pytest.raises(BatchError, match=f"{TRIES} workers ended on chunk 2 of input file 0.*because it was too long"):
        run_job(job, tmp_path / "out", here(fate=fate))
    done = run_job(job, tmp_path / "out", here(), resume=True)
    assert done.rows == 62

    team = HereTeam(Setup.of(job))
    team.hire = lambda: team.said.append((0, Gone("no memory"))) or 0
    with pytest.raises(BatchError, match="ended before they had loaded the model, the last because no memory"):
        Crew(team, 2).start()


def test_an_interrupted_job_goes_on_where_it_was(posts, tiny_bundle, tmp_path):
    ask = Ask(str(tiny_bundle))
    job = make_job(posts, ask, format="jsonl", part_rows=5)
    run_job(job, tmp_path / "calm", here())
    out, made = tmp_path / "out", []

    def stop(part):
        made.append(part)
        if len(made) % 3 == 0:
            raise KeyboardInterrupt

    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            run_job(job, out, here(), resume=True, on_part=stop)
    with open(out / "_parts.log", "ab") as log:
        log.write(b'{"file": 1, "chu')  # it was killed while it wrote
    victim = next(out.glob("part-*"))
    victim.unlink()  # noted, but not there
    (out / ".part-00000-000009.jsonl.1.part").write_bytes(b"left over")
    before = []
    done = run_job(job, out, here(), resume=True, on_part=made.append, on_begin=before.append)
    assert before[0] in (50, 52, 54, 55)
    assert (done.rows, done.errors, done.parts) == (62, 2, 13)
    places = [(part.place.file, part.place.chunk) for part in made]
    assert len(places) == len(set(places)) + 1  # the one that was taken away
    assert rows_of(out) == rows_of(tmp_path / "calm")
    assert sorted(path.name for path in out.iterdir()) == sorted(path.name for path in (tmp_path / "calm").iterdir())

    def never(job):
        raise AssertionError("a finished job needs no workers")

    assert run_job(job, out, never, resume=True) == done


def test_finished_files_are_not_read_again(posts, tiny_bundle, tmp_path):
    job = make_job(posts, Ask(str(tiny_bundle)), format="jsonl", part_rows=40)

    def stop(part):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(job, tmp_path / "out", here(1), on_part=stop)
    (posts / "a.jsonl").unlink()
    assert run_job(job, tmp_path / "out", here(), resume=True).rows == 62


def test_another_job_is_not_resumed(posts, tiny_bundle, rank_bundle, tmp_path):
    ask = Ask(str(tiny_bundle))
    job = make_job(posts, ask, format="jsonl", part_rows=20)
    out = tmp_path / "out"
    run_job(job, out, here())
    with pytest.raises(OutputError, match="is not empty; go on with --resume, or choose another folder"):
        run_job(job, out, here())
    others = {
        "its task was 'hashtag', not 'rank'": make_job(posts, Ask(str(rank_bundle)), format="jsonl", part_rows=20),
        "its option 'top' was None, not 3": make_job(posts, replace(ask, top=3), format="jsonl", part_rows=20),
        "its format was 'jsonl', not 'parquet'": make_job(posts, ask, part_rows=20),
        "its part_rows was 20, not 21": make_job(posts, ask, format="jsonl", part_rows=21),
        "its field 'id' was None, not 'text'": replace(job, fields={"id": "text"}),
        "its input was 2 files, not 1": make_job(posts / "a.jsonl", ask, format="jsonl", part_rows=20),
    }
    os.utime(posts / "a.jsonl", (1, 1))
    others["its input 'a.jsonl' was changed since"] = make_job(posts, ask, format="jsonl", part_rows=20)
    for words, other in others.items():
        with pytest.raises(OutputError, match=f"holds another job: {words}"):
            run_job(other, out, here(), resume=True)
    (out / "_manifest.json").write_text("{")
    with pytest.raises(OutputError, match=r"_manifest\.json cannot be read"):
        run_job(job, out, here(), resume=True)


def test_replies_drawn_by_chance_keep_their_chances_when_resumed(reply_bundle, tmp_path):
    path = write_rows(tmp_path / "in.jsonl", sample_pairs())
    job = make_job(path, Ask(str(reply_bundle)), format="jsonl", part_rows=12)
    out = tmp_path / "out"

    def stop(part):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(job, out, here(1), on_part=stop)
    run_job(job, out, here(1), resume=True)
    seed = json.loads((out / "_manifest.json").read_text())["job"]["options"]["seed"]
    assert isinstance(seed, int)
    run_job(make_job(path, Ask(str(reply_bundle), seed=seed), format="jsonl", part_rows=12), tmp_path / "all", here(1))
    assert rows_of(out) == rows_of(tmp_path / "all")


def test_a_full_disk_leaves_only_whole_parts(posts, tiny_bundle, tmp_path, monkeypatch):
    job = make_job(posts, Ask(str(tiny_bundle)), format="jsonl", part_rows=10)
    out, real, calls = tmp_path / "out", os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) > 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"cannot write .*: the disk is full; free some space"):
        run_job(job, out, here())
    monkeypatch.setattr(os, "fsync", real)
    assert not list(out.glob(".*"))
    assert 0 < len(rows_of(out)) < 62
    assert run_job(job, out, here(), resume=True).rows == len(rows_of(out)) == 62


def test_two_jobs_do_not_share_a_folder(posts, tiny_bundle, tmp_path):
    job = make_job(posts, Ask(str(tiny_bundle)), format="jsonl", part_rows=10)

    def meanwhile(part):
        with pytest.raises(OutputError, match="is being written by another batch"):
            run_job(job, tmp_path / "out", here(), resume=True)

    assert run_job(job, tmp_path / "out", here(), on_part=meanwhile).rows == 62


def test_inputs_that_cannot_be_are_named_and_nothing_is_written(run_cli, posts, tiny_bundle, tmp_path):
    out, model = tmp_path / "out", ("--model", tiny_bundle)
    fails(run_cli, "there is no file or folder", tmp_path / "no", out, *model)
    (tmp_path / "empty").mkdir()
    fails(run_cli, "has no files", tmp_path / "empty", out, *model)
    fails(run_cli, "batch reads files", "-", out, *model)
    fails(run_cli, "there is no model or folder 'hashtag-xx'", posts, out, "--model", "hashtag-xx")
    fails(run_cli, "does not say its format", posts / "_ignored.txt", out, *model)
    fails(run_cli, "lies inside the input", posts, posts / "out", *model)
    fails(run_cli, "is a file; name a folder", posts, posts / "a.jsonl", *model)
    fails(run_cli, "is not empty; choose another folder", posts / "a.jsonl", posts, *model)
    fails(run_cli, "holds no batch job to resume", posts / "a.jsonl", posts, *model, "--resume")
    fails(run_cli, "--seed is for models of the task reply;", posts, out, *model, "--seed", 0)
    fails(run_cli, "are for --engine ray", posts, out, *model, "--address", "auto")
    fails(run_cli, "'spark' is not one of 'local', 'ray'", posts, out, *model, "--engine", "spark")
    (posts / "c.csv").write_text("text\nhello\n")
    fails(run_cli, "mixes formats: c.csv is csv, a.jsonl is jsonl", posts, out, *model)
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "a.csv").write_text("text\nhello\n")
    (tables / "b.csv").write_text("txt\nhello\n")
    fails(run_cli, "b.csv has no column 'text'", tables, out, *model)
    (tables / "b.csv").unlink()
    (tables / "c.csv.gz").write_bytes(gzip.compress(b"text\nhello\n")[:12])
    fails(run_cli, "c.csv.gz ends too early", tables, out, *model)
    assert not out.exists()


def test_a_file_that_breaks_half_way_stops_the_job_with_whole_parts(tiny_bundle, tmp_path):
    rows = [{"id": number, "text": "a flat white", "noise": os.urandom(300).hex()} for number in range(300)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(lines.encode())[:-1000])
    job = make_job(tmp_path / "in.jsonl.gz", Ask(str(tiny_bundle)), format="jsonl", part_rows=30)
    with pytest.raises(DataError, match="ends too early"):
        run_job(job, tmp_path / "out", here())
    sizes = [len(list(read_rows(part))) for part in (tmp_path / "out").glob("part-*")]
    assert set(sizes) == {30}
    assert not list((tmp_path / "out").glob(".*"))
    assert not json.loads((tmp_path / "out" / "_manifest.json").read_text())["finished"]


def test_no_rows_are_no_parts(tiny_bundle, tmp_path):
    (tmp_path / "in.jsonl").write_text("")
    done = run_job(make_job(tmp_path / "in.jsonl", Ask(str(tiny_bundle))), tmp_path / "out", here())
    assert (done.rows, done.errors, done.parts) == (0, 0, 0)


def test_what_may_be_asked_is_known_for_every_task():
    from tagsmith.pipelines.load import PIPELINES

    assert set(TAKES) == set(PIPELINES)
    with pytest.raises(BundleError, match="is for the task 'dance'; this version of Tagsmith knows answer, classify"):
        Ask("m").check("dance")
    with pytest.raises(ConfigError, match="--with is for models of the task hashtag or rank or keyphrase or reply;"):
        Ask("m", voices=("v",)).check("classify")
    with pytest.raises(ConfigError, match="one judge at most"):
        Ask("m", voices=("v", "w")).check("reply")
    with pytest.raises(ConfigError, match="--top is 1 to 100 for models of the task hashtag, not 101"):
        Ask("m", top=101).check("hashtag")
    with pytest.raises(ConfigError, match="at least 1 row"):
        make_job("in.jsonl", Ask("m"), part_rows=0)


def test_a_worker_notices_another_model_and_gives_its_errors_back(posts, tiny_bundle):
    setup = Setup.of(make_job(posts, Ask(str(tiny_bundle))))
    told = Maker(replace(setup, sums=(("model", "0"),))).load()
    assert isinstance(told, BatchError)
    assert "is another one on" in str(told)
    maker = Maker(setup)
    assert isinstance(maker.load(), Ready)
    told = maker.make(Chunk(Place(0, 7), (3,)))
    assert isinstance(told, BatchError)
    assert str(told).startswith("a worker failed on chunk 7 of input file 0: ")
    assert isinstance(maker.make(Chunk(Place(0, 0), ())), Part)


def test_a_damaged_model_is_told_before_anything_is_written(posts, tiny_bundle, tmp_path, run_cli):
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(tiny_bundle, broken)
    with open(broken / "weights.safetensors", "ab") as file:
        file.write(b"!")
    fails(run_cli, "weights.safetensors is damaged", posts, tmp_path / "out", "--model", broken, "--workers", 1)
    assert not (tmp_path / "out").exists()


def started(out, *words):
    """A batch in a process group of its own, as a terminal would start it."""
    return subprocess.Popen(
        command("batch", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def parts_there(process, out, count):
    """Wait until so many parts are noted; gives the workers that made them."""
    deadline = time.monotonic() + 300
    while True:
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        lines = (out / "_parts.log").read_text().splitlines() if (out / "_parts.log").exists() else []
        if len(lines) >= count:
            return [json.loads(line)["worker"] for line in lines if line.endswith("}")]
        time.sleep(0.01)


def test_processes_may_be_killed_and_interrupted_at_any_time(tiny_bundle, tmp_path):
    rows = [{"id": number, "text": f"so happy about a flat white {number}"} for number in range(1600)]
    path, out = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out"
    words = (path, out, "--model", tiny_bundle, "--format", "jsonl", "--part-rows", 10, "--workers", 2)

    with started(out, *words) as first:  # a worker is killed, then all are interrupted, as Ctrl-C does
        victim = parts_there(first, out, 1)[-1]
        os.kill(int(victim.partition(":")[2]), signal.SIGKILL)
        workers = parts_there(first, out, 25)
        os.killpg(first.pid, signal.SIGINT)
        said, talk = first.communicate(timeout=60)
    assert (first.returncode, said) == (130, "")
    killed, *others = talk.splitlines()
    assert killed == "a worker ended and is replaced: its process was ended by signal 9; was there too little memory?"
    assert others == [f"what is done stays in {out}; go on with --resume", "interrupted"]
    assert any(worker != victim for worker in workers)

    with started(out, *words, "--resume") as second:  # killed without a chance to say anything
        parts_there(second, out, len(list(out.glob("part-*"))) + 5)
        os.killpg(second.pid, signal.SIGKILL)
    assert len(list(out.glob("part-*"))) < 160

    done = subprocess.run(
        command("batch", *words, "--resume"), capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"output": str(out), "rows": 1600, "errors": 0, "parts": 160}
    found = rows_of(out)
    assert [row["id"] for row in found] == list(range(1600))
    assert all(row["tags"] for row in found)


def test_a_local_worker_is_gone_when_its_process_is(posts, tiny_bundle):
    team = LocalTeam(Setup.of(make_job(posts, Ask(str(tiny_bundle)))))
    try:
        worker = team.hire()
        team._processes[worker].terminate()
        assert team.hear(wait=True) == [(worker, Gone("its process was ended by signal 15"))]
        team.give(worker, Chunk(Place(0, 0), ()))  # nobody there, and no harm done
    finally:
        team.close()
    assert 1 <= cores() <= (os.cpu_count() or 1)


def test_parquet_goes_in_too(tiny_bundle, tmp_path):
    with RowWriter(tmp_path / "in.parquet") as writer:
        for row in sample_rows():
            writer.write({"key": str(row["id"]), "content": row["text"]})
    fields = {"id": "key", "text": "content"}
    job = make_job(tmp_path / "in.parquet", Ask(str(tiny_bundle), top=1), fields=fields, part_rows=25)
    run_job(job, tmp_path / "out", here())
    table = pyarrow.parquet.read_table(tmp_path / "out")
    assert table.column("id").to_pylist() == [str(row["id"]) for row in sample_rows()]
    assert all(len(tags) == 1 for tags in table.column("tags").to_pylist())
