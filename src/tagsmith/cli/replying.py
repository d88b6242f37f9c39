"""Replies on the command line: reply, and what `evaluate` does for models that reply."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagsmith.cli.shared import AsJson, Field, Input, Output, check_given, fields_of
from tagsmith.errors import ConfigError
from tagsmith.terminal import Counter, say, show, table

if TYPE_CHECKING:
    from tagsmith.data.readers import BadRow
    from tagsmith.records import Pair, Replies

Queries = Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="What is to be answered.")]
Seed = Annotated[int | None, typer.Option(help="The same number gives the same replies.")]
About = Annotated[str | None, typer.Option(help="Topic words to steer towards: coffee,tea.")]
Block = Annotated[str | None, typer.Option(help="A file of words no reply says, one a line.")]
Longest = Annotated[int | None, typer.Option(min=1, help="Words (Chinese: characters) of a reply, at most.")]
Beam = Annotated[int | None, typer.Option(min=1, max=200, help="Search with a beam instead of drawing by chance.")]


def reply(  # noqa: PLR0913 - one for each option
    texts: Queries = None,
    model: Annotated[str | None, typer.Option(help="A shipped model or a folder; default: by language.")] = None,
    judge: Annotated[str | None, typer.Option("--with", help="A model of swapped pairs that ranks replies.")] = None,
    input: Input = None,
    output: Output = "-",
    top: Annotated[int | None, typer.Option(min=1, max=100, help="Different replies for each text, at most.")] = None,
    seed: Seed = None,
    about: About = None,
    block: Block = None,
    longest: Longest = None,
    beam: Beam = None,
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Also the words attended to, and the topics inferred.")
    ] = False,
    field: Field = None,
    as_json: AsJson = False,
) -> int:
    """Reply to short texts: several different replies, each with its score."""
    from tagsmith.data.writers import RowWriter
    from tagsmith.pipelines.work import replier_for, reply_work
    from tagsmith.text.block_list import BlockList, read_block_list

    check_given(texts, input, output, command="reply")
    blocked = read_block_list(block) if block is not None else None
    topics = topics_of(about)
    work = reply_work(
        replier_for(model, judge, beam),
        top=top,
        seed=seed,
        about=topics,
        block=blocked,
        longest=longest,
        evidence=evidence,
    )
    answers = work.answers(_rows(texts, input, field))
    if texts and output == "-" and not as_json and sys.stdout.isatty():
        return _show(answers)
    wrong = 0
    unsaid = {word: BlockList([word]) for word in topics}
    with RowWriter(output, schema=work.schema) as writer, Counter("replying", quiet=bool(texts)) as counter:
        for _, answer in answers:
            writer.write(work.row(answer))
            wrong += answer.error is not None
            said = [
                word for word, mentions in unsaid.items() if any(mentions.blocks(one.text) for one in answer.replies)
            ]
            unsaid = {word: mentions for word, mentions in unsaid.items() if word not in said}
            counter.add(1)
    if unsaid:
        say(f"no reply says {', '.join(unsaid)}: the model found no way to; try other words, or more with --top")
    return 1 if wrong else 0


def evaluate_replies(model: str, pairs: Iterable[Pair], *, judges: Sequence[str], beam: int | None) -> dict[str, Any]:
    """The metrics of a model that replies."""
    from tagsmith.pipelines.evaluate_replies import evaluate_replier
    from tagsmith.pipelines.work import replier_for

    if len(judges) > 1:
        raise ConfigError(f"replies have one judge at most, not {len(judges)}; name one with --with")
    replier = replier_for(model, judges[0] if judges else None, beam)
    scores = evaluate_replier(replier, pairs)
    if scores["n"] and "hit_q" not in scores:
        say("hit_q and hit_r are left out: they need jieba; install it with `pip install 'tagsmith[zh]'`")
    return scores


def topics_of(about: str | None) -> tuple[str, ...]:
    """The words of `--about`."""
    return tuple(word.strip() for word in (about or "").split(",") if word.strip())


def pairs_of(path: str, field: list[str] | None) -> Any:
    """The queries of a file and their responses."""
    from tagsmith.data.readers import read_pairs

    return read_pairs(path, rename=fields_of(field))


def is_replier(model: str) -> bool:
    """Does the model reply? Told without loading it."""
    from tagsmith.bundle import describe_bundle, find_bundle

    return describe_bundle(find_bundle(model)).task == "reply"


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
