"""Commands about vectors: embed, index, nearest."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tagsmith.cli.shared import (
    AsJson,
    Field,
    Input,
    Output,
    Texts,
    check_given,
    given_rows,
    posts_of,
    say_bad,
)
from tagsmith.terminal import Counter, put, say, show, table

if TYPE_CHECKING:
    from tagsmith.data.readers import BadRow

Model = Annotated[str, typer.Option(help="A shipped model or a folder.")]


def embed(
    texts: Texts = None,
    model: Model = "embed-en",
    input: Input = None,
    output: Annotated[str, typer.Option(help="JSONL, CSV, Parquet or .npy; - is stdout.")] = "-",
    field: Field = None,
) -> int:
    """Turn posts into vectors of length 1: near posts have near vectors."""
    from tagsmith.data.arrays import vector_writer
    from tagsmith.pipelines.embed import Embedder
    from tagsmith.pipelines.work import embed_work

    check_given(texts, input, output, command="embed")
    rows = given_rows(texts, input, field)
    embedder = Embedder.load(model)
    answers = embed_work(embedder).answers(rows)
    wrong = 0
    with vector_writer(output, embedder.width) as writer, Counter("embedding", quiet=bool(texts)) as counter:
        for _, answer in answers:
            writer.write(answer)
            wrong += answer.error is not None
            counter.add(1)
    if wrong and output.endswith(".npy"):
        say(f"{wrong} rows could not be read; their vectors are zeros")
    return 1 if wrong else 0


def index(
    file: Annotated[str, typer.Argument(help="Posts; those with tags can lend them to others.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder of the index.")],
    model: Model = "embed-en",
    field: Field = None,
) -> int:
    """Build an index of posts, to ask for the nearest ones."""
    from tagsmith.data.readers import good
    from tagsmith.pipelines.embed import Embedder
    from tagsmith.pipelines.index import build_index

    bad: list[BadRow] = []
    with Counter("indexing") as counter:
        posts = counter.watch(good(posts_of(file, field), bad.append))
        built = build_index(posts, Embedder.load(model), out)
    say_bad(bad)
    if built.left_out:
        say(f"{built.left_out} posts left out: they have no text that can be read")
    put(json.dumps({"index": str(out), "posts": built.indexed}))
    return 1 if bad or built.left_out else 0


def nearest(  # noqa: PLR0913 - one for each option
    folder: Annotated[str, typer.Argument(metavar="INDEX", help="The folder of an index.")],
    texts: Texts = None,
    input: Input = None,
    output: Output = "-",
    model: Annotated[str | None, typer.Option(help="The model that made the index, if it has moved.")] = None,
    top: Annotated[int, typer.Option(min=1, max=1000, help="Posts for each, at most.")] = 10,
    exact: Annotated[bool, typer.Option("--exact", help="Compare with every post of the index.")] = False,
    field: Field = None,
    as_json: AsJson = False,
) -> int:
    """The nearest posts of an index."""
    from tagsmith.data.writers import RowWriter
    from tagsmith.pipelines.near import Near, near_row, near_stream, open_index
    from tagsmith.pipelines.work import answered

    check_given(texts, input, output, command="nearest")
    rows = given_rows(texts, input, field)
    saved = open_index(folder, model)
    answers = answered(
        lambda posts: near_stream(saved, posts, top=top, exact=exact),
        rows,
        lambda bad: Near(id=bad.id, error=f"row {bad.number}: {bad.problem}"),
    )
    if texts and output == "-" and not as_json and sys.stdout.isatty():
        shown = table("nearness", "post", "tags")
        for _, answer in answers:
            for one in answer.posts:
                shown.add_row(f"{one.score:.3f}", one.post.text, " ".join(f"#{tag}" for tag in one.post.tags))
        show(shown)
        return 0
    wrong = 0
    with RowWriter(output) as writer, Counter("searching", quiet=bool(texts)) as counter:
        for _, answer in answers:
            writer.write(near_row(answer))
            wrong += answer.error is not None
            counter.add(1)
    return 1 if wrong else 0
