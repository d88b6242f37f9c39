"""Commands that read a text by the light of its title or of a question: classify, answer, extract."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagsmith.cli.shared import AsJson, Field, Input, Output, check_given, fields_of, with_title
from tagsmith.errors import ConfigError
from tagsmith.terminal import Counter, say, show, table

if TYPE_CHECKING:
    from tagsmith.pipelines.work import Work

Texts = Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Texts.")]
Passages = Annotated[list[str] | None, typer.Argument(metavar="PASSAGE", help="Passages that may have the answer.")]
Title = Annotated[str, typer.Option(help="The title of the texts given here.")]
TitleField = Annotated[str | None, typer.Option("--title-field", help="The field of the file that holds the title.")]
Asked = Annotated[str | None, typer.Option(help="The question, where passages are given here.")]
Top = Annotated[int | None, typer.Option(min=1, max=1000, help="So many for each row, at most.")]


def classify(  # noqa: PLR0913 - one for each option
    texts: Texts = None,
    title: Title = "",
    model: Annotated[str, typer.Option(help="A shipped model or a folder.")] = "topic-en",
    input: Input = None,
    output: Output = "-",
    top: Top = None,
    title_field: TitleField = None,
    field: Field = None,
    as_json: AsJson = False,
) -> int:
    """File texts under labels: each with a score that says how often such a label is right."""
    from tagsmith.pipelines.work import read
    from tagsmith.records import Labelled

    check_given(texts, input, output, command="classify")
    work = _work(model, "classify", top)
    given = [Labelled(text, title, number) for number, text in enumerate(texts or ())]
    rows = given or read(work.reads, input or "-", rename=with_title(field, title_field))
    answers = work.answers(rows)
    if texts and _for_reading(output, as_json):
        return _show(answers, lambda item, one: [(label.label, label.score, "") for label in one.labels])
    return _write(work, answers, output, quiet=bool(texts))


def answer(
    passages: Passages = None,
    question: Asked = None,
    model: Annotated[str, typer.Option(help="A shipped model or a folder.")] = "answer-en",
    input: Input = None,
    output: Output = "-",
    top: Top = None,
    field: Field = None,
    as_json: AsJson = False,
) -> int:
    """Answer questions with a piece of a passage; none where the passage does not say."""
    from tagsmith.pipelines.work import read
    from tagsmith.records import Question

    check_given(passages, input, output, command="answer")
    if passages and not question:
        raise ConfigError("a passage needs a question; give it with --question 'who ...?'")
    work = _work(model, "answer", top)
    given = [Question(question or "", text, id=number) for number, text in enumerate(passages or ())]
    rows = given or read(work.reads, input or "-", rename=fields_of(field))
    answers = work.answers(rows)
    if passages and _for_reading(output, as_json):
        return _show(answers, _answer_lines)
    return _write(work, answers, output, quiet=bool(passages))


def extract(  # noqa: PLR0913
    texts: Texts = None,
    title: Title = "",
    model: Annotated[str, typer.Option(help="A shipped model or a folder.")] = "extract-en",
    input: Input = None,
    output: Output = "-",
    top: Top = None,
    title_field: TitleField = None,
    field: Field = None,
    as_json: AsJson = False,
) -> int:
    """Find the keyphrases that stand in documents: each with its score and its places in text and title."""
    from tagsmith.pipelines.work import read
    from tagsmith.records import Document

    check_given(texts, input, output, command="extract")
    work = _work(model, "extract", top)
    given = [Document(text, title, number) for number, text in enumerate(texts or ())]
    rows = given or read(work.reads, input or "-", rename=with_title(field, title_field))
    answers = work.answers(rows)
    if texts and _for_reading(output, as_json):
        return _show(answers, lambda item, one: [(tag.text, tag.score, f"{len(tag.spans)}x") for tag in one.tags])
    return _write(work, answers, output, quiet=bool(texts))


def _work(model: str, task: str, top: int | None) -> Work:
    from tagsmith.pipelines.load import load_reader
    from tagsmith.pipelines.work import read_work

    return read_work(load_reader(model, task), top=top)


def _for_reading(output: str, as_json: bool) -> bool:
    return output == "-" and not as_json and sys.stdout.isatty()


def _write(work: Work, answers: Iterable[tuple[Any, Any]], output: str, *, quiet: bool) -> int:
    """A row for each answer, in order."""
    from tagsmith.data.writers import RowWriter

    wrong = 0
    with RowWriter(output, schema=work.schema) as writer, Counter("reading", quiet=quiet) as counter:
        for _, one in answers:
            writer.write(work.row(one))
            wrong += one.error is not None
            counter.add(1)
    return 1 if wrong else 0


def _answer_lines(item: Any, one: Any) -> list[tuple[str, float | None, str]]:
    found = [(each.text, each.score, f"at {each.start}") for each in one.answers]
    return found or [("the passage does not say", None, "")]


def _show(answers: Iterable[tuple[Any, Any]], lines: Callable[[Any, Any], list[Any]]) -> int:
    """The answers for a reader."""
    code = 0
    for item, one in answers:
        if one.error:
            say(f"error: {one.error}")
            code = 1
            continue
        made = table("", "", "")
        for text, score, note in lines(item, one):
            made.add_row(f"  {text}", "" if score is None else f"{score:.3f}", note)
        show(made)
    return code
