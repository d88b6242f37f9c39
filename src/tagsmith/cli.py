"""The command line: parse, call one public function, write JSON lines. stdout is data, stderr is talk."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tagsmith.errors import ConfigError, OutputError, TagsmithError
from tagsmith.terminal import Counter, TrainingTalk, put, say, show, show_scores, table

if TYPE_CHECKING:
    from tagsmith.data.readers import BadRow
    from tagsmith.pipelines.auto import AutoTagger
    from tagsmith.pipelines.tag import Tagger
    from tagsmith.records import Post, Tags

app = typer.Typer(
    name="tagsmith",
    help="Short text in, the words people would file it under out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Field = Annotated[list[str] | None, typer.Option("--field", help="Rename a field: --field text=content.")]
Input = Annotated[str | None, typer.Option("--input", help="JSONL, CSV, TSV or Parquet; .gz/.zst; - is stdin.")]
Output = Annotated[str, typer.Option("--output", help="Where to write, by suffix; - is stdout.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, also on a terminal.")]


@app.command()
def tag(  # noqa: PLR0913 - one for each option
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Posts to tag.")] = None,
    model: Annotated[str | None, typer.Option(help="A shipped model or a folder; default: by language.")] = None,
    input: Input = None,
    output: Output = "-",
    top: Annotated[int | None, typer.Option(min=1, max=100, help="Tags for each post, at most.")] = None,
    evidence: Annotated[bool, typer.Option("--evidence", help="Also the segments the model selected.")] = False,
    field: Field = None,
    as_json: AsJson = False,
    as_table: Annotated[bool, typer.Option("--table", help="For reading, also when piped.")] = False,
) -> int:
    """Suggest hashtags for posts: each with its score, whether it stands in the post, and where."""
    from tagsmith.data.writers import RowWriter, same_file
    from tagsmith.records import Post, to_row

    if bool(texts) == (input is not None):
        raise ConfigError("give texts or --input FILE, one of the two; `tagsmith tag --help` shows examples")
    if as_table and (as_json or output != "-"):
        raise ConfigError("--table is for reading here; leave out --json and --output, or --table")
    if input is not None and output != "-" and same_file(input, output):
        raise OutputError(f"{output} is also the input; write to another file")
    rows: Iterable[Post | BadRow] = (
        [Post(text, id=number) for number, text in enumerate(texts)] if texts else _posts(input or "-", field)
    )
    tagger = _tagger(model)
    answers = _answers(tagger, rows, top=top, evidence=evidence)
    if as_table or (texts and output == "-" and not as_json and sys.stdout.isatty()):
        return _show_tags(answers)
    bad = 0
    schema: Literal["tags", "segments"] = "segments" if evidence else "tags"
    with RowWriter(output, schema=schema) as writer, Counter("tagging", quiet=bool(texts)) as counter:
        for _, answer in answers:
            writer.write(to_row(answer))
            bad += answer.error is not None
            counter.add(1)
    return 1 if bad else 0


@app.command()
def evaluate(
    model: Annotated[str, typer.Argument(help="A shipped model or a folder.")],
    file: Annotated[str, typer.Argument(help="Posts with their hashtags.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Score only the first so many rows.")] = None,
    field: Field = None,
    as_json: AsJson = False,
) -> int:
    """Measure a model on posts whose tags are known."""
    from itertools import islice

    from tagsmith.data.readers import good
    from tagsmith.pipelines.evaluate import evaluate_tagger
    from tagsmith.pipelines.load import load

    bad: list[BadRow] = []
    posts = good(_posts(file, field), bad.append)
    with Counter("scoring") as counter:
        scores = evaluate_tagger(load(model), counter.watch(islice(posts, limit)))
    _say_bad(bad)
    if not scores["n"]:
        raise ConfigError(f"{file} has no row with a text and tags; the fields are 'text' and 'hashtags' (or 'tags')")
    if as_json or not sys.stdout.isatty():
        put(json.dumps(scores))
    else:
        show_scores(scores)
    return 1 if bad else 0


@app.command()
def train(
    recipe: Annotated[Path | None, typer.Argument(metavar="RECIPE", help="A TOML file.")] = None,
    task: Annotated[str, typer.Option(help="Without a recipe: what to learn.")] = "hashtag",
    data: Annotated[str | None, typer.Option(help="Without a recipe: posts with their tags.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where the model goes.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change a setting: --set train.epochs=3.")] = None,
    field: Field = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
) -> int:
    """Train a model from a recipe, or from your own file with `--data`."""
    from tagsmith.recipe import make, own_recipe, read_recipe

    if (recipe is None) == (data is None):
        raise ConfigError("give a recipe or --data FILE, one of the two; `tagsmith train --help` shows both")
    if data is not None:
        made = own_recipe(task, data, out=out, fields=_fields(field), changes=changes or ())
        folder = out or Path(f"my-{task}-model")
    else:
        made = read_recipe(Path(recipe or ""), changes or ())
        folder = out or Path("runs") / made.name
    with TrainingTalk() as talk:
        bundle = make(made, folder, resume=resume, report=talk.report)
    if os.environ.get("RANK", "0") == "0":  # of several processes the first one speaks
        say(f"the model is in {bundle}; try: tagsmith tag --model {bundle} 'your text'")
        put(json.dumps({"bundle": str(bundle)}))
    return 0


@app.command()
def models(as_json: AsJson = False) -> int:
    """List the shipped models."""
    from tagsmith.bundle import shipped_bundles

    found = shipped_bundles()
    if as_json or not sys.stdout.isatty():
        for one in found:
            row = {"name": one.name, "task": one.task, "language": one.language, "megabytes": one.megabytes}
            facts = {name: one.measured.get(name) for name in ("score", "posts_per_cpu_second")}
            put(json.dumps({**row, **facts}))
        return 0
    shown = table("model", "task", "language", "MB", "score", "posts/s")
    for one in found:
        scores = ", ".join(f"{name} {value:.3f}" for name, value in one.measured.get("score", {}).items())
        speed = str(one.measured.get("posts_per_cpu_second", ""))
        shown.add_row(one.name, one.task, one.language, str(one.megabytes), scores, speed)
    show(shown)
    return 0


def main() -> None:
    """The entry point: our own errors become one line and exit code 2."""
    command = typer.main.get_command(app)
    try:  # not `app()`: Typer takes a closed pipe for exit code 1, which is ours for rows in error
        with command.make_context("tagsmith", sys.argv[1:]) as context:
            code = command.invoke(context)
    except typer.Exit as done:
        code = done.exit_code
    except TagsmithError as problem:
        say(f"error: {problem}")
        code = 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that closing stdout does not fail again
        say("error: whoever read the output stopped reading; the rest was not written")
        code = 2
    except OSError as problem:  # a disk that fails where no part of ours was writing rows
        say(f"error: {problem}")
        code = 2
    except KeyboardInterrupt:
        say("interrupted")
        code = 130
    except Exception as problem:
        code = _usage(problem)
    sys.exit(code)


def _usage(problem: Exception) -> int:
    """Typer's own complaints about the command line; anything else is a bug and stays loud."""
    if not hasattr(problem, "format_message"):
        raise problem
    if message := problem.format_message().rstrip("."):  # none: help was shown because no command was given
        say(f"error: {message}; `tagsmith --help` shows the commands")
    return 2


def _tagger(model: str | None) -> Tagger | AutoTagger:
    if model is None:
        from tagsmith.pipelines.auto import AutoTagger

        return AutoTagger()
    from tagsmith.pipelines.load import load

    return load(model)


def _answers(
    tagger: Tagger | AutoTagger, rows: Iterable[Post | BadRow], *, top: int | None, evidence: bool
) -> Iterator[tuple[str, Tags]]:
    """A text and its answer for each row in order; rows that could not be read keep their place."""
    from tagsmith.data.readers import BadRow
    from tagsmith.records import Post, Tags

    bad: dict[int, BadRow] = {}

    def readable() -> Iterator[Post]:
        for place, row in enumerate(rows):
            if isinstance(row, BadRow):
                bad[place] = row
                yield Post("")  # keeps the place
            else:
                yield row

    for place, (post, answer) in enumerate(tagger.stream(readable(), top=top, evidence=evidence)):
        broken = bad.pop(place, None)
        if broken is not None:
            answer = Tags(id=broken.id, error=f"row {broken.number}: {broken.problem}")
        yield post.text, answer


def _posts(path: str, field: list[str] | None) -> Iterator[Post | BadRow]:
    from tagsmith.data.readers import read_posts

    return read_posts(path, rename=_fields(field))


def _fields(given: Sequence[str] | None) -> dict[str, str]:
    pairs = [one.partition("=") for one in given or ()]
    for ours, equals, theirs in pairs:
        if not (ours and equals and theirs):
            raise ConfigError(f"--field takes OUR_NAME=THEIR_NAME, not {ours + equals + theirs!r}")
    return {ours: theirs for ours, _, theirs in pairs}


def _say_bad(rows: Sequence[BadRow]) -> None:
    for row in rows[:5]:
        say(f"row {row.number} left out: {row.problem}")
    if len(rows) > 5:
        say(f"... and {len(rows) - 5} more")


def _show_tags(answers: Iterable[tuple[str, Tags]]) -> int:
    """Posts and their tags for a reader; the words of a tag that stand in the post are marked there."""
    from rich.text import Text

    code = 0
    for text, answer in answers:
        if answer.error:
            say(f"error: {answer.error}")
            code = 1
            continue
        shown = Text(text)
        for piece in answer.segments or ():
            shown.stylize("underline", piece.start, piece.end)
        for found in answer.tags:
            for start, end in found.spans:
                shown.stylize("bold green", start, end)
        show(shown)
        made = table("", "", "")
        for found in answer.tags:
            made.add_row(f"  #{found.text}", f"{found.score:.3f}", "in the post" if found.spans else "")
        show(made)
        if answer.segments is not None:
            read = " | ".join(text[piece.start : piece.end] for piece in answer.segments)
            show(Text(f"  read: {read}\n", style="dim"))
    return code
