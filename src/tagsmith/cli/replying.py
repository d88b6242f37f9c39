"""Replies on the command line: reply, and what `evaluate` does for models that reply."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagsmith.cli.shared import AsJson, Field, Input, Output, answered, check_given, fields_of
from tagsmith.errors import ConfigError
from tagsmith.terminal import Counter, say, show, table

if TYPE_CHECKING:
    from tagsmith.data.readers import BadRow
    from tagsmith.records import Pair, Replies

Queries = Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="What is to be answered.")]
Beam = Annotated[int | None, typer.Option(min=1, max=200, help="Search with a beam instead of drawing by chance.")]


def reply(  # noqa: PLR0913 - one for each option
    texts: Queries = None,
    model: Annotated[str | None, typer.Option(help="A shipped model or a folder; default: by language.")] = None,
    judge: Annotated[str | None, typer.Option("--with", help="A model of swapped pairs that ranks replies.")] = None,
    input: Input = None,
    output: Output = "-",
    top: Annotated[int | None, typer.Option(min=1, max=100, help="Different replies for each text, at most.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same number gives the same replies.")] = None,
    about: Annotated[str | None, typer.Option(help="Topic words to steer towards: coffee,tea.")] = None,
    block: Annotated[str | None, typer.Option(help="A file of words no reply says, one a line.")] = None,
    longest: Annotated[int | None, typer.Option(min=1, help="Words (Chinese: characters) of a reply, at most.")] = None,
    beam: Beam = None,
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Also the words attended to, and the topics inferred.")
    ] = False,
    field: Field = None,
    as_json: AsJson = False,
) -> int:
    """Reply to short texts: several different replies, each with its score."""
    from tagsmith.data.writers import RowWriter
    from tagsmith.records import Replies, reply_row
    from tagsmith.text.block_list import read_block_list

    check_given(texts, input, output, command="reply")
    blocked = read_block_list(block) if block is not None else None
    topics = [word.strip() for word in (about or "").split(",") if word.strip()]
    replier = _replier(model, judge, beam)
    answers = answered(
        lambda given: replier.stream(
            given, top=top, seed=seed, about=topics, block=blocked, longest=longest, evidence=evidence
        ),
        _rows(texts, input, field),
        lambda bad: Replies(id=bad.id, error=f"row {bad.number}: {bad.problem}"),
    )
    if texts and output == "-" and not as_json and sys.stdout.isatty():
        return _show(answers)
    wrong = 0
    schema: Any = "reasons" if evidence else "replies"
    with RowWriter(output, schema=schema) as writer, Counter("replying", quiet=bool(texts)) as counter:
        for _, answer in answers:
            writer.write(reply_row(answer))
            wrong += answer.error is not None
            counter.add(1)
    return 1 if wrong else 0


def evaluate_replies(model: str, pairs: Iterable[Pair], *, judges: Sequence[str], beam: int | None) -> dict[str, Any]:
    """The metrics of a model that replies."""
    from tagsmith.pipelines.evaluate_replies import evaluate_replier

    if len(judges) > 1:
        raise ConfigError(f"replies have one judge at most, not {len(judges)}; name one with --with")
    replier = _replier(model, judges[0] if judges else None, beam)
    scores = evaluate_replier(replier, pairs)
    if scores["n"] and "hit_q" not in scores:
        say("hit_q and hit_r are left out: they need jieba; install it with `pip install 'tagsmith[zh]'`")
    return scores


def pairs_of(path: str, field: list[str] | None) -> Any:
    """The queries of a file and their responses."""
    from tagsmith.data.readers import read_pairs

    return read_pairs(path, rename=fields_of(field))


def is_replier(model: str) -> bool:
    """Does the model reply? Told without loading it."""
    from tagsmith.bundle import describe_bundle, find_bundle

    return describe_bundle(find_bundle(model)).task == "reply"


def _replier(model: str | None, judge: str | None, beam: int | None) -> Any:
    from tagsmith.pipelines.auto import AutoReplier
    from tagsmith.pipelines.load import load_replier

    if model is None:
        if judge or beam:
            raise ConfigError("--with and --beam are for one model; name it with --model")
        return AutoReplier()
    replier = load_replier(model)
    if judge:
        replier = replier.judged_by(judge)
    return replier.searching(beam) if beam else replier


def _rows(texts: list[str] | None, input: str | None, field: list[str] | None) -> Iterable[Pair | BadRow]:
    from tagsmith.records import Pair

    if texts:
        return [Pair(text, id=number) for number, text in enumerate(texts)]
    return pairs_of(input or "-", field)


def _show(answers: Iterable[tuple[Pair, Replies]]) -> int:
    """Queries and replies for a reader; what was attended to is marked in the query."""
    from rich.text import Text

    code = 0
    for pair, answer in answers:
        if answer.error:
            say(f"error: {answer.error}")
            code = 1
            continue
        shown = Text(pair.text)
        for one in answer.replies[:1]:
            for piece in one.attended or ():
                shown.stylize("underline", piece.start, piece.end)
        show(shown)
        made = table("", "")
        for one in answer.replies:
            made.add_row(f"  {one.text}", f"{one.score:.3f}")
        show(made)
        if answer.topics:
            show(Text(f"  topics: {', '.join(answer.topics)}\n", style="dim"))
    return code
