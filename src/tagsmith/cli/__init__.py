"""The command line: parse, call one public function, write JSON lines. stdout is data, stderr is talk."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Annotated, Any

import typer

from tagsmith.cli.batching import batch
from tagsmith.cli.comparing import compare
from tagsmith.cli.reading import answer, classify, extract
from tagsmith.cli.replying import reply
from tagsmith.cli.serving import serve
from tagsmith.cli.tagging import evaluate, models, tag
from tagsmith.cli.training import forget, learn, train
from tagsmith.cli.vectors import embed, index, nearest
from tagsmith.errors import TagsmithError
from tagsmith.terminal import say

app = typer.Typer(
    name="tagsmith",
    help="Short text in, the words people would file it under out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
COMMANDS = (
    tag,
    classify,
    answer,
    extract,
    embed,
    reply,
    evaluate,
    compare,
    train,
    learn,
    forget,
    index,
    nearest,
    models,
    batch,
    serve,
)
for command in COMMANDS:
    app.command()(command)


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show where in the code an error comes from.")] = False,
) -> None:
    """What goes before a command; `main` reads it."""


def main() -> None:
    """The entry point: an error becomes one line and exit code 2; `--debug` shows its traceback before."""
    command = typer.main.get_command(app)
    debug = False
    try:  # not `app()`: Typer takes a closed pipe for exit code 1, which is ours for rows in error
        with command.make_context("tagsmith", sys.argv[1:]) as context:
            debug = bool(context.params.get("debug"))
            code = _invoke(command, context, debug)
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


def _invoke(command: Any, context: Any, debug: bool) -> Any:
    """Run the command; what it raises is shown in full where that was asked for."""
    try:
        return command.invoke(context)
    except Exception as problem:
        if debug and not isinstance(problem, typer.Exit):
            say("".join(traceback.format_exception(problem)).rstrip())
        raise


def _usage(problem: Exception) -> int:
    """Typer's own complaints about the command line; anything else is a bug of ours, and says so."""
    if not hasattr(problem, "format_message"):
        what = " ".join(f"{type(problem).__name__}: {problem}".split())
        say(f"error: {what}; this is a bug in Tagsmith: `tagsmith --debug COMMAND ...` shows where, please report it")
    elif message := problem.format_message().rstrip("."):  # none: help was shown because no command was given
        say(f"error: {message}; `tagsmith --help` shows the commands")
    return 2
