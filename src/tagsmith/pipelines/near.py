"""Posts in, the nearest posts of a saved index out, as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tagsmith.pipelines.embed import Embedder
from tagsmith.pipelines.index import Neighbour, PostIndex, maker_of
from tagsmith.pipelines.run import CHUNK
from tagsmith.pipelines.tag import problem
from tagsmith.records import Post


@dataclass(frozen=True, slots=True)
class Near:
    """The answer for one post: its nearest posts, best first, or the reason why there are none."""

    posts: tuple[Neighbour, ...] = ()
    id: str | int | None = None
    error: str | None = None


def open_index(folder: str, model: str | None = None) -> PostIndex:
    """An index with the model that made it, or with that model where it lies now."""
    return PostIndex.open(folder, Embedder.load(model or maker_of(folder)))


def near_stream(index: PostIndex, posts: Iterable[Post], *, top: int, exact: bool) -> Iterator[tuple[Post, Near]]:
    """Any number of posts, in bounded memory."""
    rest = iter(posts)
    while chunk := list(islice(rest, CHUNK)):
        for post, found in zip(chunk, index.nearest(chunk, top=top, exact=exact), strict=True):
            yield post, near_answer(post, found)


class NearStages:
    """prepare, forward, finish for an index, for those who run them by themselves."""

    batch = 256

    def __init__(self, index: PostIndex, *, top: int = 10) -> None:
        self.index = index
        self.top = top

    def prepare(self, posts: Sequence[Post]) -> list[Post | None]:
        return [post if problem(post.text) is None else None for post in posts]

    def shape(self, ready: Post) -> int:
        return 0  # the index sorts its vectors' texts by itself

    def tokens(self, ready: Post) -> int:
        return 1 + len(ready.text) // 4  # about; the index does not tell

    def forward(self, ready: Sequence[Post]) -> list[list[Neighbour]]:
        return self.index.nearest(ready, top=self.top)

    def finish(self, posts: Sequence[Post], found: Sequence[list[Neighbour] | None]) -> list[Near]:
        return [near_answer(post, one or []) for post, one in zip(posts, found, strict=True)]


def near_answer(post: Post, found: Sequence[Neighbour]) -> Near:
    """The answer for one post, or why there is none."""
    if found:
        return Near(tuple(found), id=post.id)
    return Near(id=post.id, error=problem(post.text) or "the text has nothing that can be read")


def near_row(answer: Near) -> dict[str, Any]:
    """The answer as a JSON object."""
    found = [
        {"id": one.post.id, "text": one.post.text, "tags": list(one.post.tags), "score": one.score}
        for one in answer.posts
    ]
    return {"id": answer.id, "nearest": found, "error": answer.error}
