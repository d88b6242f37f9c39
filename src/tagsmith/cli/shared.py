"""What several commands share: options, rows in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tagsmith.errors import ConfigError, OutputError
from tagsmith.terminal import say

if TYPE_CHECKING:
    from tagsmith.data.readers import BadRow
    from tagsmith.records import Post

Answer = TypeVar("Answer")

Texts = Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Posts.")]
Field = Annotated[list[str] | None, typer.Option("--field", help="Rename a field: --field text=content.")]
Input = Annotated[str | None, typer.Option("--input", help="JSONL, CSV, TSV or Parquet; .gz/.zst; - is stdin.")]
Output = Annotated[str, typer.Option("--output", help="Where to write, by suffix; - is stdout.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, also on a terminal.")]


def given_rows(
    texts: list[str] | None, input: str | None, output: str, field: list[str] | None, *, command: str
) -> Iterable[Post | BadRow]:
    """The texts of the command line or the rows of a file, one of the two."""
    from tagsmith.data.writers import same_file
    from tagsmith.records import Post

    if bool(texts) == (input is not None):
        raise ConfigError(f"give texts or --input FILE, one of the two; `tagsmith {command} --help` shows examples")
    if input is not None and output != "-" and same_file(input, output):
        raise OutputError(f"{output} is also the input; write to another file")
    return [Post(text, id=number) for number, text in enumerate(texts)] if texts else posts_of(input or "-", field)


def answered(
    stream: Callable[[Iterable[Post]], Iterator[tuple[Post, Answer]]],
    rows: Iterable[Post | BadRow],
    failed: Callable[[BadRow], Answer],
) -> Iterator[tuple[Post, Answer]]:
    """A post and its answer for each row in order; rows that could not be read keep their place."""
    from tagsmith.data.readers import BadRow
    from tagsmith.records import Post

    bad: dict[int, BadRow] = {}

    def readable() -> Iterator[Post]:
        for place, row in enumerate(rows):
            if isinstance(row, BadRow):
                bad[place] = row
                yield Post("")  # keeps the place
            else:
                yield row

    for place, (post, answer) in enumerate(stream(readable())):
        broken = bad.pop(place, None)
        yield post, answer if broken is None else failed(broken)


def posts_of(path: str, field: list[str] | None) -> Iterator[Post | BadRow]:
    """The posts of a file."""
    from tagsmith.data.readers import read_posts

    return read_posts(path, rename=fields_of(field))


def fields_of(given: Sequence[str] | None) -> dict[str, str]:
    """`--field` as a mapping from our name to theirs."""
    pairs = [one.partition("=") for one in given or ()]
    for ours, equals, theirs in pairs:
        if not (ours and equals and theirs):
            raise ConfigError(f"--field takes OUR_NAME=THEIR_NAME, not {ours + equals + theirs!r}")
    return {ours: theirs for ours, _, theirs in pairs}


def say_bad(rows: Sequence[BadRow]) -> None:
    """Which rows were left out, the first few."""
    for row in rows[:5]:
        say(f"row {row.number} left out: {row.problem}")
    if len(rows) > 5:
        say(f"... and {len(rows) - 5} more")
