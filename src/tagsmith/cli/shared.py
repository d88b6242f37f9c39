"""What several commands share: options, rows in, rows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagsmith.errors import ConfigError, OutputError
from tagsmith.terminal import say

if TYPE_CHECKING:
    from tagsmith.data.readers import BadRow
    from tagsmith.pipelines.work import Reads
    from tagsmith.records import Document, Post

Texts = Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Posts.")]
Field = Annotated[list[str] | None, typer.Option("--field", help="Rename a field: --field text=content.")]
Input = Annotated[str | None, typer.Option("--input", help="JSONL, CSV, TSV or Parquet; .gz/.zst; - is stdin.")]
Output = Annotated[str, typer.Option("--output", help="Where to write, by suffix; - is stdout.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, also on a terminal.")]


def check_given(texts: list[str] | None, input: str | None, output: str, *, command: str) -> None:
    """The texts of the command line or the rows of a file, one of the two, and not written over."""
    from tagsmith.data.writers import same_file

    if bool(texts) == (input is not None):
        raise ConfigError(f"give texts or --input FILE, one of the two; `tagsmith {command} --help` shows examples")
    if input is not None and output != "-" and same_file(input, output):
        raise OutputError(f"{output} is also the input; write to another file")


def given_rows(
    texts: list[str] | None, input: str | None, field: list[str] | None, *, reads: Reads = "posts"
) -> Iterable[Any]:
    """What `check_given` allowed, as posts or documents."""
    from tagsmith.records import Document, Post

    if texts:
        make: Any = Document if reads == "documents" else Post
        return [make(text, id=number) for number, text in enumerate(texts)]
    return (documents_of if reads == "documents" else posts_of)(input or "-", field)


def posts_of(path: str, field: list[str] | None) -> Iterator[Post | BadRow]:
    """The posts of a file."""
    from tagsmith.data.readers import read_posts

    return read_posts(path, rename=fields_of(field))


def documents_of(path: str, field: list[str] | None) -> Iterator[Document | BadRow]:
    """The documents of a file."""
    from tagsmith.data.readers import read_documents

    return read_documents(path, rename=fields_of(field))


def fields_of(given: Sequence[str] | None) -> dict[str, str]:
    """`--field` as a mapping from our name to theirs."""
    pairs = [one.partition("=") for one in given or ()]
    for ours, equals, theirs in pairs:
        if not (ours and equals and theirs):
            raise ConfigError(f"--field takes OUR_NAME=THEIR_NAME, not {ours + equals + theirs!r}")
    return {ours: theirs for ours, _, theirs in pairs}


def with_title(field: Sequence[str] | None, title: str | None) -> dict[str, str]:
    """The same, with `--title-field NAME` for `--field title=NAME`."""
    return fields_of([*(field or ()), *([f"title={title}"] if title else [])])


def say_bad(rows: Sequence[BadRow]) -> None:
    """Which rows were left out, the first few."""
    for row in rows[:5]:
        say(f"row {row.number} left out: {row.problem}")
    if len(rows) > 5:
        say(f"... and {len(rows) - 5} more")
