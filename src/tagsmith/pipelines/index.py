"""A saved index of posts, to find the nearest ones to a post.

    posts --embedder--> vectors --> graph --> folder
    post --embedder--> vector --graph--> candidates --exact scores--> Neighbours

my-index/
├── index.json     the format, the model that made it, the number of posts, the size of every other file
├── vectors.npy    (posts, width) in half precision, rows of length 1
├── graph.usearch  the distinct vectors, each under the place of the first post that has it
├── twins.npy      for each post the place of the next one with the very same vector, or -1
├── posts.jsonl    id, text and tags of each post
└── offsets.npy    where each row of posts.jsonl begins, and where the last one ends

A graph of nearest vectors falls apart where thousands are equal, as those of greetings are: hence the twins.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tagsmith.data.arrays import write_header
from tagsmith.errors import BundleError, ConfigError, DataError, OutputError
from tagsmith.pipelines.run import CHUNK
from tagsmith.records import Post

Halves = NDArray[np.float16]
Scores = NDArray[np.float64]
Places = NDArray[np.int64]
Progress = Callable[[int], None]
Found = list[tuple[float, int]]  # score and place, best first

FORMAT = 1
AGAIN = "build it again: `tagsmith index FILE OUT`"
FILES = ("vectors.npy", "graph.usearch", "twins.npy", "posts.jsonl", "offsets.npy")  # and index.json
BLOCK = 4096  # vectors scored or linked at once
DIGITS = 4  # of scores
LINKS = 16  # of a vector in the graph
EFFORT = 128  # vectors looked at to add one to the graph, or to find its nearest


class Embeds(Protocol):
    """Turns posts into vectors."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...  # of the weights: sha256 in hex
    @property
    def width(self) -> int: ...
    def embed(self, posts: Sequence[Post]) -> NDArray[np.float32]: ...  # (posts, width), length 1; zeros: unreadable


class Built(NamedTuple):
    """What became of the posts."""

    indexed: int
    left_out: int  # they have nothing that can be read


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A post of the index and how near it is."""

    post: Post
    score: float  # cosine, -1..1


class PostIndex:
    """Posts in, their nearest posts of the index out: same length, same order; its files are mapped, not read."""

    def __init__(self, folder: Path, embedder: Embeds, graph: Any) -> None:
        self.embedder = embedder
        self.vectors: Halves = np.load(folder / "vectors.npy", mmap_mode="r")  # (posts, width)
        self._graph = graph
        self._twins: Places = np.load(folder / "twins.npy", mmap_mode="r")
        self._offsets: Places = np.load(folder / "offsets.npy", mmap_mode="r")
        self._rows: NDArray[np.uint8] = np.memmap(folder / "posts.jsonl", dtype=np.uint8, mode="r")

    @classmethod
    def open(cls, folder: str | Path, embedder: Embeds) -> PostIndex:
        """The index in a folder, after checking that it is whole and made by this very model."""
        from usearch.index import Index

        folder = Path(folder)
        facts = _read_facts(folder)
        _check_maker(folder, facts, embedder)
        _check_sizes(folder, facts)
        try:
            index = cls(folder, embedder, Index.restore(folder / "graph.usearch", view=True))
        except (OSError, ValueError, RuntimeError) as problem:
            raise BundleError(f"{folder} is damaged: {problem}; {AGAIN}") from None
        if index.vectors.shape != (facts["count"], facts["width"]) or len(index._offsets) != facts["count"] + 1:
            raise BundleError(f"{folder} is damaged: its files do not belong together; {AGAIN}")
        return index

    def __len__(self) -> int:
        return len(self.vectors)

    def nearest(self, posts: Sequence[Post], *, top: int = 10, exact: bool = False) -> list[list[Neighbour]]:
        """The nearest posts of each, best first and equal ones as they stand in the index; none for an unreadable one.

        `exact` compares with every post instead of walking the graph: slow, but nothing is missed.
        """
        if top < 1:
            raise ConfigError(f"top must be at least 1, not {top}")
        search = self._search_all if exact else self._search_graph
        answers: list[list[Neighbour]] = [[] for _ in posts]
        for start in range(0, len(posts), CHUNK):
            queries, asked = _embed(self.embedder, posts[start : start + CHUNK])
            for place, found in zip(asked, search(queries, top) if asked else (), strict=True):
                answers[start + place] = [self._neighbour(score, own) for score, own in found]
        return answers

    def _search_graph(self, queries: Halves, top: int) -> Iterator[Found]:
        """Candidates from the graph, scored as the slow twin does."""
        # usearch looks at least at as many as it is asked for
        matches = self._graph.search(queries, min(len(self._graph), max(2 * top, EFFORT)))
        for query, match in zip(queries, matches if len(queries) > 1 else [matches], strict=True):
            places = np.sort(match.keys.astype(np.int64))
            scores = _cosines(query[None], self.vectors[places])[0]
            yield self._with_twins(*_best(scores, places, top), top)

    def _search_all(self, queries: Halves, top: int) -> Iterator[Found]:
        """The slow twin: every post, a block at a time."""
        best = [(np.empty(0), np.empty(0, np.int64)) for _ in queries]
        for start in range(0, len(self), BLOCK):
            scores = _cosines(queries, self.vectors[start : start + BLOCK])  # (queries, block)
            places = np.arange(start, start + scores.shape[1])
            for number, (row, (high, kept)) in enumerate(zip(scores, best, strict=True)):
                best[number] = _best(np.concatenate((high, row)), np.concatenate((kept, places)), top)
        for high, kept in best:
            yield list(zip(high.tolist(), kept.tolist(), strict=True))

    def _with_twins(self, scores: Scores, places: Places, top: int) -> Found:
        """The best of these posts and of those with the same vectors."""
        found: Found = []
        for score, place in zip(scores.tolist(), places.tolist(), strict=True):
            if len(found) >= top and score < found[-1][0]:
                break
            for _ in range(top):
                found.append((score, place))
                place = int(self._twins[place])
                if place < 0:
                    break
        return sorted(found, key=lambda one: (-one[0], one[1]))[:top]

    def _neighbour(self, score: float, place: int) -> Neighbour:
        row = json.loads(self._rows[self._offsets[place] : self._offsets[place + 1]].tobytes())
        return Neighbour(Post(row["text"], row["id"], tuple(row["tags"])), round(score, DIGITS) + 0.0)  # no -0.0


def build_index(
    posts: Iterable[Post], embedder: Embeds, folder: str | Path, *, on_progress: Progress = lambda read: None
) -> Built:
    """Write an index; an older one of that name is replaced only when the new one is whole.

    Memory holds a chunk of posts, the graph, and some fifty bytes for each post while the graph is made.
    `on_progress` is told how many posts were read so far.
    """
    target = Path(folder).resolve()  # a link stays a link
    with _replacing(target) as part:
        built = _write_posts(posts, embedder, part, target=target, on_progress=on_progress)
        if not built.indexed:
            raise DataError(f"nothing to index: none of {built.left_out:,} posts can be read; give one with words")
        with _explained(target):
            _write_graph(part)
            _write_facts(part, embedder, built.indexed)
    return built


def _cosines(queries: Halves, vectors: Halves) -> Scores:
    """Cosines between rows: (queries, vectors)."""
    # a sum of products of halves is exact in float64, in any order: no score depends on what else is in the matrix
    left, right = queries.astype(np.float64), vectors.astype(np.float64)
    return left @ right.T / np.linalg.norm(right, axis=1) / np.linalg.norm(left, axis=1)[:, None]


def _best(scores: Scores, places: Places, top: int) -> tuple[Scores, Places]:
    """The highest scores, equal ones in the order given."""
    if len(scores) > top:
        kept = np.flatnonzero(scores >= np.partition(scores, -top)[-top])
        scores, places = scores[kept], places[kept]
    order = np.argsort(-scores, kind="stable")[:top]
    return scores[order], places[order]


def _embed(embedder: Embeds, posts: Sequence[Post]) -> tuple[Halves, list[int]]:
    """The vectors of the readable posts, and which those are."""
    vectors = embedder.embed(posts).astype(np.float16) + np.float16(0)  # no -0.0: equal vectors have equal bytes
    readable = np.flatnonzero(np.abs(vectors).max(axis=1) > 0)
    return vectors[readable], readable.tolist()


def _write_posts(posts: Iterable[Post], embedder: Embeds, part: Path, *, target: Path, on_progress: Progress) -> Built:
    """Everything but the graph, as the posts come."""
    rest, read, indexed, end = iter(posts), 0, 0, 0
    with _explained(target):
        _write_headers(part, 0, embedder.width)
        _append(part / "offsets.npy", bytes(8))
    while chunk := list(islice(rest, CHUNK)):
        vectors, kept = _embed(embedder, chunk)
        lines = [_line(chunk[place]) for place in kept]
        ends = end + np.cumsum([len(line) for line in lines], dtype="<i8")
        with _explained(target):  # only this: what goes wrong in reading or embedding is told as it is
            _append(part / "vectors.npy", vectors.astype("<f2").tobytes())
            _append(part / "offsets.npy", ends.tobytes())
            _append(part / "posts.jsonl", b"".join(lines))
        read, indexed, end = read + len(chunk), indexed + len(kept), end + sum(map(len, lines))
        on_progress(read)
    with _explained(target):
        _write_headers(part, indexed, embedder.width)
    return Built(indexed, read - indexed)


def _write_headers(part: Path, count: int, width: int) -> None:
    """The beginnings of the .npy files; numpy makes them of one length for any number of rows."""
    for name, kind, shape in (("vectors.npy", "<f2", (count, width)), ("offsets.npy", "<i8", (count + 1,))):
        with open(part / name, "r+b" if (part / name).exists() else "wb") as handle:
            write_header(handle, kind, shape)


def _append(path: Path, content: bytes) -> None:
    with open(path, "ab") as handle:
        handle.write(content)


def _line(post: Post) -> bytes:
    """A post as a row; half a surrogate pair, which UTF-8 does not have, becomes its JSON escape."""
    row = {"id": post.id, "text": post.text, "tags": post.tags}
    return (json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def _write_graph(part: Path) -> None:
    """The graph of the distinct vectors, and who shares one."""
    from usearch.index import Index

    vectors: Halves = np.load(part / "vectors.npy", mmap_mode="r")
    twins, first = _find_twins(np.asarray(vectors))
    np.save(part / "twins.npy", twins)
    # the inner product: rows have length 1, and usearch's own cosine finds less among vectors that are close
    graph = Index(ndim=vectors.shape[1], metric="ip", dtype="f16", connectivity=LINKS, expansion_add=EFFORT)
    for start in range(0, len(vectors), BLOCK):
        places = start + np.flatnonzero(first[start : start + BLOCK])
        graph.add(places, vectors[places], threads=1)  # several leave posts that no path leads to
    graph.save(part / "graph.usearch")
    if (part / "graph.usearch").stat().st_size != graph.serialized_length:  # usearch misses it if its last write fails
        raise OSError("the disk took only a part of it")


def _write_facts(part: Path, embedder: Embeds, count: int) -> None:
    maker = {"model": embedder.name, "fingerprint": embedder.fingerprint, "width": embedder.width}
    sizes = {name: (part / name).stat().st_size for name in FILES}
    text = json.dumps({"format": FORMAT, **maker, "count": count, "sizes": sizes}, indent=1, ensure_ascii=False)
    (part / "index.json").write_text(text, encoding="utf-8")


def _find_twins(vectors: Halves) -> tuple[Places, NDArray[np.bool_]]:
    """For each row the next equal one or -1, and which rows are the first of their kind."""
    digests = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in vectors)
    marks = np.fromiter((int.from_bytes(one) for one in digests), np.uint64, len(vectors))
    order = np.argsort(marks, kind="stable")
    equal = marks[order[1:]] == marks[order[:-1]]
    twins, first = np.full(len(vectors), -1, np.int64), np.ones(len(vectors), np.bool_)
    twins[order[:-1][equal]] = order[1:][equal]
    first[order[1:][equal]] = False
    return twins, first


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """A new folder beside the target that takes its name at the end; after an exception all is as it was."""
    part, old = folder.with_name(f".{folder.name}.{os.getpid()}.part"), folder.with_name(f".{folder.name}.old")
    with _explained(folder):
        _clear_up(folder, old)
        _check_target(folder)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
    try:
        yield part
        with _explained(folder):
            _check_target(folder)  # again: something may have come there meanwhile
            if folder.exists():
                os.replace(folder, old)
            os.replace(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        _clear_up(folder, old)


def _clear_up(folder: Path, old: Path) -> None:
    """Nothing stays of the older index, unless it is the only one: then it gets its name back."""
    if old.exists() and not folder.exists():
        os.replace(old, folder)
    shutil.rmtree(old, ignore_errors=True)


def _check_target(folder: Path) -> None:
    """Only an index may be replaced, and nothing else may be lost with it."""
    if folder.exists() and not (folder / "index.json").is_file():
        raise OutputError(f"{folder} is there and is no index: it has no index.json; choose another place")
    if others := sorted({path.name for path in folder.glob("*")} - {*FILES, "index.json"}):
        raise OutputError(f"{folder} is not only an index: it has {others[0]!r} too; choose another place or move that")


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn what the system says about writing into an OutputError; usearch says it with a RuntimeError."""
    try:
        yield
    except (OSError, RuntimeError) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise OutputError(f"cannot write the index {folder}: {why}; free some space or choose another place") from None


def maker_of(folder: str | Path) -> str:
    """The name of the model that made an index."""
    return str(_read_facts(Path(folder))["model"])


def _read_facts(folder: Path) -> dict[str, Any]:
    if not (folder / "index.json").exists():
        why = "it has no index.json" if folder.exists() else "there is no such folder"
        raise BundleError(f"{folder} is no index: {why}; `tagsmith index FILE OUT` makes one")
    try:
        values = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        if values["format"] == FORMAT:
            return {name: values[name] for name in ("model", "fingerprint", "width", "count", "sizes")}
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise BundleError(f"{folder}/index.json cannot be read: {problem}; {AGAIN}") from None
    raise BundleError(f"{folder} has format {values['format']}, this Tagsmith reads {FORMAT}; {AGAIN}")


def _check_maker(folder: Path, facts: dict[str, Any], embedder: Embeds) -> None:
    """Vectors of two models cannot be compared."""
    if (facts["fingerprint"], facts["width"]) != (embedder.fingerprint, embedder.width):
        made, given = f"{facts['model']} ({facts['fingerprint']:.8})", f"{embedder.name} ({embedder.fingerprint:.8})"
        raise BundleError(f"{folder} was made by the model {made}, not by {given}; load that one or {AGAIN}")


def _check_sizes(folder: Path, facts: dict[str, Any]) -> None:
    for name in FILES:
        path, right = folder / name, facts["sizes"].get(name)
        if (size := path.stat().st_size if path.exists() else 0) != right:
            raise BundleError(f"{path} is damaged: it has {size} bytes, not {right}; {AGAIN}")
