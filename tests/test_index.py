"""A saved index of posts: whole or refused, the graph agrees with the exact twin, and no answer leans on another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
import pytest

from tagsmith.errors import BundleError, ConfigError, DataError, OutputError
from tagsmith.pipelines import index as index_module
from tagsmith.pipelines.index import FILES, Built, Neighbour, PostIndex, build_index
from tagsmith.records import Post

WORDS = ("sea", "ramen", "train", "rain", "chess", "comet", "garden", "bike", "novel", "coffee", "film", "moon", "tyre")


@dataclass(frozen=True)
class Letters:
    """Counts runs of three letters in a few drawers; a text without letters is unreadable."""

    name: str = "letters"
    fingerprint: str = "5eed" * 16
    width: int = 32

    def embed(self, posts: Sequence[Post]) -> np.ndarray:
        vectors = np.zeros((len(posts), self.width), np.float32)
        for row, post in zip(vectors, posts, strict=True):
            for start in range(len(post.text.strip())):
                mark = crc32(post.text[start : start + 3].encode("utf-8", "surrogatepass"))
                row[mark % self.width] += 1 if mark & 1024 else -1
            if row.any():
                row /= np.linalg.norm(row)
        return vectors


@dataclass(frozen=True)
class Given(Letters):
    """Looks a post's vector up under the number that is its text."""

    table: np.ndarray | None = None

    def embed(self, posts: Sequence[Post]) -> np.ndarray:
        return self.table[[int(post.text) for post in posts]]


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def written(count: int, *, seed: int = 0) -> list[Post]:
    """Posts of a few words each; among many some are alike."""
    draw = np.random.default_rng(seed)
    return [Post(" ".join(draw.choice(WORDS, size=draw.integers(1, 6))), id=number) for number in range(count)]


def clustered(count: int, width: int, *, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(100, width))
    return unit(centres[draw.integers(0, 100, count)] + 0.5 * draw.normal(size=(count, width)))


def of_vectors(vectors: np.ndarray, folder, *, queries: np.ndarray) -> tuple[PostIndex, list[Post]]:
    """An index of given vectors, and the posts that stand for the queries."""
    embedder = Given(width=vectors.shape[1], table=np.concatenate((vectors, queries)))
    build_index((Post(str(number), id=number) for number in range(len(vectors))), embedder, folder)
    asked = [Post(str(len(vectors) + number)) for number in range(len(queries))]
    return PostIndex.open(folder, embedder), asked


def ids(answers: list[list[Neighbour]]) -> list[list[object]]:
    return [[one.post.id for one in answer] for answer in answers]


def leftovers(folder) -> list[str]:
    """What stands beside an index."""
    return sorted(path.name for path in folder.parent.iterdir() if path != folder)


@pytest.fixture
def folder(tmp_path):
    """A small index."""
    build_index(written(50), Letters(), tmp_path / "index")
    return tmp_path / "index"


def change_facts(folder, **changes) -> None:
    facts = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**facts, **changes}))


def test_posts_come_back_as_they_were(tmp_path):
    posts = [
        Post("two\nlines,\r\nand a\ttab", id="名前-1", tags=("旅行", "Été 🌊")),
        Post('ramen 🍜 in 東京 \u2028 \x00 "quoted" \\ ', id=7, tags=("#kept", "")),
        Post("no id, no tags"),
        Post("half a pair in a tag", id="\udc80", tags=("\ud83d",)),
    ]
    assert build_index(iter(posts), Letters(), tmp_path / "index") == Built(indexed=4, left_out=0)
    index = PostIndex.open(tmp_path / "index", Letters())
    assert len(index) == 4
    for exact in (False, True):
        found = index.nearest(posts, top=1, exact=exact)
        assert [[one.post for one in answer] for answer in found] == [[post] for post in posts]
        assert all(type(one.score) is float and one.score == 1.0 for answer in found for one in answer)


def test_the_graph_finds_what_the_exact_twin_finds(tmp_path):
    vectors, near = clustered(20_000, 64), np.random.default_rng(1)
    queries = unit(vectors[:300] + 0.02 * near.normal(size=(300, 64)))
    index, asked = of_vectors(vectors, tmp_path / "index", queries=queries)
    fast, slow = ids(index.nearest(asked)), ids(index.nearest(asked, exact=True))
    shares = [len(set(one) & set(other)) / 10 for one, other in zip(fast, slow, strict=True)]
    assert np.mean(shares) >= 0.95


def test_the_exact_twin_is_a_full_product(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "BLOCK", 64)  # many blocks, the last one short
    vectors, queries = clustered(1000, 24), clustered(40, 24, seed=1)
    index, asked = of_vectors(vectors, tmp_path / "index", queries=queries)
    kept, given = (unit(rows.astype(np.float16).astype(np.float64)).astype(np.float64) for rows in (vectors, queries))
    product = given @ kept.T
    best = np.argsort(-product, axis=1, kind="stable")[:, :17]
    for row, places, answer in zip(product, best, index.nearest(asked, top=17, exact=True), strict=True):
        assert [one.post.id for one in answer] == places.tolist()
        assert [one.score for one in answer] == pytest.approx(row[places].tolist(), abs=6e-5)


def test_thousands_of_equal_posts_hide_nobody(tmp_path):
    draw = np.random.default_rng(2)
    vectors = clustered(2000, 16)
    mixed = draw.permutation(np.concatenate((vectors, np.repeat(vectors[:2], 2000, axis=0))))
    index, asked = of_vectors(mixed, tmp_path / "index", queries=vectors[:200])
    fast, slow = ids(index.nearest(asked)), ids(index.nearest(asked, exact=True))
    shares = [len(set(one) & set(other)) / 10 for one, other in zip(fast, slow, strict=True)]
    assert np.mean(shares) >= 0.99
    assert fast[:2] == slow[:2]  # ten of two thousand, the same ten


def test_equal_posts_come_in_the_order_of_the_index(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "BLOCK", 5)
    texts = ["chess", "sea", "rain", "sea", "sea", "chess", "sea", "rain", "sea"]
    build_index([Post(text, id=place) for place, text in enumerate(texts)], Letters(), tmp_path / "index")
    index = PostIndex.open(tmp_path / "index", Letters())
    for exact in (False, True):
        assert ids(index.nearest([Post("sea")], top=3, exact=exact)) == [[1, 3, 4]]
        found = index.nearest([Post("sea")], top=9, exact=exact)[0]
        assert [one.post.id for one in found][:5] == [1, 3, 4, 6, 8]
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert index.nearest([Post("rain")], top=9) == index.nearest([Post("rain")], top=9, exact=True)


def test_other_posts_just_as_near_come_in_the_order_of_the_index_too(tmp_path):
    around = unit(np.eye(40) + np.eye(1, 40))[1:]  # 39 directions, all as far from the first axis
    vectors = np.random.default_rng(4).permutation(np.concatenate((around, around[:5])))
    index, asked = of_vectors(vectors, tmp_path / "index", queries=np.eye(1, 40, dtype=np.float32))
    for exact in (False, True):
        for top in (1, 2, 7, 40, 44):
            assert ids(index.nearest(asked, top=top, exact=exact)) == [list(range(top))]


def test_no_score_is_minus_nothing(tmp_path):
    index, asked = of_vectors(unit(np.array([[1, -1e-5]])), tmp_path / "index", queries=unit(np.array([[1e-6, 1.0]])))
    assert str(index.nearest(asked)[0][0].score) == "0.0"


@pytest.mark.parametrize("exact", [False, True])
def test_a_querys_answer_does_not_depend_on_its_neighbours(tmp_path, exact):
    vectors, queries = clustered(3000, 48), clustered(60, 48, seed=3)
    index, asked = of_vectors(vectors, tmp_path / "index", queries=queries)
    together = index.nearest(asked, exact=exact)
    assert [index.nearest([post], exact=exact)[0] for post in asked] == together
    assert index.nearest(asked[::-1], exact=exact) == together[::-1]
    assert index.nearest([], exact=exact) == []


@pytest.mark.parametrize("exact", [False, True])
def test_more_queries_than_a_chunk(folder, monkeypatch, exact):
    index = PostIndex.open(folder, Letters())
    asked = [*written(7, seed=5), Post(""), *written(5, seed=6)]
    whole = index.nearest(asked, exact=exact)
    monkeypatch.setattr(index_module, "CHUNK", 4)
    assert index.nearest(asked, exact=exact) == whole


def test_unreadable_posts_are_left_out_and_find_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "CHUNK", 2)  # one chunk is wholly unreadable
    posts = [Post("sea", 0), Post(" ", 1), Post("", 2), Post("\n", 3), Post("rain", 4)]
    assert build_index(posts, Letters(), tmp_path / "index") == Built(indexed=2, left_out=3)
    index = PostIndex.open(tmp_path / "index", Letters())
    for exact in (False, True):
        answers = ids(index.nearest([Post(""), Post("rain"), Post(" "), Post("sea")], top=1, exact=exact))
        assert answers == [[], [4], [], [0]]
        assert index.nearest([Post("")], exact=exact) == [[]]


def test_a_vector_that_is_no_number_is_unreadable(tmp_path):
    vectors = clustered(10, 8)
    vectors[3] = np.nan
    index, _ = of_vectors(vectors, tmp_path / "index", queries=vectors[:1])
    assert len(index) == 9
    assert index.nearest([Post("3")]) == [[]]


def test_more_may_be_asked_for_than_there_is(folder):
    index = PostIndex.open(folder, Letters())
    for exact in (False, True):
        found = index.nearest(written(3, seed=4), top=1000, exact=exact)
        assert [len(answer) for answer in found] == [50] * 3
        assert all(-1 <= one.score <= 1 for answer in found for one in answer)


def test_an_index_of_one_post(tmp_path):
    build_index([Post("sea", 1)], Letters(), tmp_path / "index")
    index = PostIndex.open(tmp_path / "index", Letters())
    assert (
        index.nearest([Post("sea")]) == index.nearest([Post("sea")], exact=True) == [[Neighbour(Post("sea", 1), 1.0)]]
    )


def test_top_is_at_least_one(folder):
    with pytest.raises(ConfigError, match="top must be at least 1, not 0"):
        PostIndex.open(folder, Letters()).nearest([Post("sea")], top=0)


def test_files_are_mapped_and_half_precision(folder):
    index = PostIndex.open(folder, Letters())
    for array in (index.vectors, index._twins, index._offsets, index._rows):
        assert isinstance(array, np.memmap)
    assert index.vectors.dtype == np.float16
    assert np.load(folder / "vectors.npy", mmap_mode="r").shape == (50, 32)
    assert np.load(folder / "offsets.npy").shape == (51,)
    facts = json.loads((folder / "index.json").read_text())
    assert (facts["model"], facts["width"], facts["count"]) == ("letters", 32, 50)
    assert facts["sizes"] == {name: (folder / name).stat().st_size for name in FILES}


def test_posts_are_read_a_chunk_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "CHUNK", 10)
    taken, reports, ahead = 0, [], []

    def posts():
        nonlocal taken
        for post in written(25):
            taken += 1
            yield post

    class Watching(Letters):
        def embed(self, posts):
            ahead.append((len(posts), taken))
            return super().embed(posts)

    build_index(posts(), Watching(), tmp_path / "index", on_progress=reports.append)
    assert ahead == [(10, 10), (10, 20), (5, 25)]
    assert reports == [10, 20, 25]


@pytest.mark.parametrize("problem", [ValueError("the model is tired"), KeyboardInterrupt(), RuntimeError("CUDA")])
def test_a_failed_build_leaves_the_older_index_and_nothing_else(folder, monkeypatch, problem):
    monkeypatch.setattr(index_module, "CHUNK", 10)
    before = PostIndex.open(folder, Letters()).nearest(written(5))

    class Tired(Letters):
        def embed(self, posts):
            if posts[0].id >= 20:
                raise problem
            return super().embed(posts)

    with pytest.raises(type(problem)) as caught:
        build_index(written(50, seed=9), Tired(), folder)
    assert caught.value is problem
    assert leftovers(folder) == []
    assert PostIndex.open(folder, Letters()).nearest(written(5)) == before


def test_posts_that_cannot_be_fetched_are_not_taken_for_a_full_disk(tmp_path):
    def posts():
        yield Post("sea")
        raise TimeoutError("the line is dead")

    with pytest.raises(TimeoutError, match="the line is dead"):
        build_index(posts(), Letters(), tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_a_new_index_replaces_an_older_one_and_who_has_that_open_keeps_it(folder):
    older = PostIndex.open(folder, Letters())
    asked = written(5)
    before = older.nearest(asked)
    build_index([Post("something else", "new")], Letters(), folder)
    assert ids(PostIndex.open(folder, Letters()).nearest(asked, top=1)) == [["new"]] * 5
    assert older.nearest(asked) == older.nearest(asked, exact=True) == before
    assert leftovers(folder) == []


def test_a_link_stays_a_link(folder):
    link = folder.with_name("link")
    link.symlink_to(folder)
    build_index([Post("sea", "new")], Letters(), link)
    assert link.is_symlink()
    assert len(PostIndex.open(folder, Letters())) == 1
    assert leftovers(folder) == ["link"]


def test_an_index_lost_between_two_names_comes_back(folder):
    folder.rename(folder.with_name(".index.old"))  # as after a power cut between two renames
    with pytest.raises(DataError):
        build_index([], Letters(), folder)
    assert len(PostIndex.open(folder, Letters())) == 50
    assert leftovers(folder) == []


def test_nothing_foreign_is_replaced(folder, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(
        OutputError, match=r"mine is there and is no index: it has no index\.json; choose another place"
    ):
        build_index(written(5), Letters(), tmp_path / "mine")
    (folder / "notes.txt").write_text("some hours of work")
    with pytest.raises(OutputError, match=r"index is not only an index: it has 'notes\.txt' too; choose another place"):
        build_index(written(5), Letters(), folder)
    (tmp_path / "file").write_text("a minute of work")
    with pytest.raises(OutputError, match="file is there and is no index"):
        build_index(written(5), Letters(), tmp_path / "file")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    assert (folder / "notes.txt").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "index", "mine"]


def test_nothing_foreign_that_came_meanwhile_is_replaced(tmp_path):
    def posts():
        yield Post("sea")
        (tmp_path / "index").mkdir()

    with pytest.raises(OutputError, match="is no index"):
        build_index(posts(), Letters(), tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize(("posts", "given"), [([], 0), ([Post(" "), Post("")], 2)])
def test_nothing_to_index(tmp_path, posts, given):
    words = f"nothing to index: none of {given} posts can be read; give one with words"
    with pytest.raises(DataError, match=words):
        build_index(posts, Letters(), tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lacking", [8000, 5000, 1000], ids=["vectors", "graph", "end-of-the-graph"])
def test_a_full_disk_is_said_and_leaves_nothing(folder, lacking):
    target, most = folder.with_name("full"), (folder / "graph.usearch").stat().st_size - lacking
    script = f"""
import resource, signal, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_index import Letters, OutputError, build_index, written
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))
try:
    build_index(written(50), Letters(), {str(target)!r})
except OutputError as problem:
    sys.stdout.write(str(problem))
"""
    done = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"cannot write the index {target}: "), done
    assert done.stdout.endswith("; free some space or choose another place")
    assert leftovers(folder) == []


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot write the index .*: Not a directory; free some space or choose"):
        build_index(written(5), Letters(), tmp_path / "file" / "index")


def test_what_is_no_index_is_not_opened(tmp_path):
    with pytest.raises(BundleError, match="nowhere is no index: there is no such folder; `tagsmith index FILE OUT`"):
        PostIndex.open(tmp_path / "nowhere", Letters())
    with pytest.raises(BundleError, match=r"is no index: it has no index\.json; `tagsmith index FILE OUT` makes one"):
        PostIndex.open(tmp_path, Letters())


def test_another_model_is_refused(folder):
    other = Letters(name="embed-zh", fingerprint="beef" * 16)
    words = r"made by the model letters \(5eed5eed\), not by embed-zh \(beefbeef\); load that one or build it again"
    with pytest.raises(BundleError, match=words):
        PostIndex.open(folder, other)
    with pytest.raises(BundleError, match="made by the model letters"):
        PostIndex.open(folder, Letters(width=16))
    assert len(PostIndex.open(folder, replace(Letters(), name="moved/elsewhere"))) == 50


def test_another_format_is_refused(folder):
    change_facts(folder, format=2)
    with pytest.raises(BundleError, match="index has format 2, this Tagsmith reads 1; build it again: `tagsmith index"):
        PostIndex.open(folder, Letters())


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": 1, "model": "letters"}', "null"])
def test_facts_that_cannot_be_read(folder, text):
    (folder / "index.json").write_text(text)
    with pytest.raises(BundleError, match=r"index\.json cannot be read: .*; build it again: `tagsmith index FILE OUT`"):
        PostIndex.open(folder, Letters())


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_or_missing_file_is_named(folder, name):
    size = (folder / name).stat().st_size
    os.truncate(folder / name, size - 1)
    words = f"index/{name} is damaged: it has {size - 1} bytes, not {size}; build it again: `tagsmith index FILE OUT`"
    with pytest.raises(BundleError, match=words):
        PostIndex.open(folder, Letters())
    (folder / name).unlink()
    with pytest.raises(BundleError, match=f"{name} is damaged: it has 0 bytes, not {size}"):
        PostIndex.open(folder, Letters())


@pytest.mark.parametrize("name", ["vectors.npy", "graph.usearch", "twins.npy", "offsets.npy"])
def test_a_file_of_the_right_size_with_nonsense_inside(folder, name):
    (folder / name).write_bytes(b"?" * (folder / name).stat().st_size)
    with pytest.raises(BundleError, match=r"index is damaged: .*; build it again"):
        PostIndex.open(folder, Letters())


def test_files_of_two_indexes(folder, tmp_path):
    build_index(written(9), Letters(), tmp_path / "other")
    shutil.copy(tmp_path / "other" / "vectors.npy", folder)
    change_facts(folder, sizes={name: (folder / name).stat().st_size for name in FILES})
    with pytest.raises(BundleError, match="index is damaged: its files do not belong together; build it again"):
        PostIndex.open(folder, Letters())


def test_importing_it_loads_neither_torch_nor_usearch():
    script = "import sys, tagsmith.pipelines.index; sys.exit(bool({'torch', 'usearch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_every_post_can_be_reached(tmp_path):
    posts = written(60)
    build_index(posts, Letters(), tmp_path / "index")
    index = PostIndex.open(tmp_path / "index", Letters())
    for _ in range(3):
        assert [near[0].score for near in index.nearest(posts, top=1)] == [1.0] * 60
        assert [len(near) for near in index.nearest(posts, top=60)] == [60] * 60
