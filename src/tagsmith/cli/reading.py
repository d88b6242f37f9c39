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

Line = tuple[str, float | None, str]  # what was found, its score, a note
Lines = Callable[[Any], list[Line]]

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
    return _tell(work.answers(rows), work, output, lines=_label_lines if texts else None, as_json=as_json)


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
    return _tell(work.answers(rows), work, output, lines=_answer_lines if passages else None, as_json=as_json)


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
    return _tell(work.answers(rows), work, output, lines=_tag_lines if texts else None, as_json=as_json)


def _work(model: str, task: str, top: int | None) -> Work:
    from tagsmith.pipelines.load import load_reader
    from tagsmith.pipelines.work import read_work

    return read_work(load_reader(model, task), top=top)


def _tell(answers: Iterable[tuple[Any, Any]], work: Work, output: str, *, lines: Lines | None, as_json: bool) -> int:
    """Answers to texts given here (`lines`: how they look) for a reader, where one looks on; else as rows."""
    if lines and output == "-" and not as_json and sys.stdout.isatty():
        return _show(answers, lines)
    return _write(work, answers, output, quiet=lines is not None)


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


def _label_lines(one: Any) -> list[Line]:
    return [(label.label, label.score, "") for label in one.labels]


def _tag_lines(one: Any) -> list[Line]:
    return [(tag.text, tag.score, f"{len(tag.spans)}x") for tag in one.tags]


def _answer_lines(one: Any) -> list[Line]:
    found = [(each.text, each.score, f"at {each.start}") for each in one.answers]
    return found or [("the passage does not say", None, "")]


def _show(answers: Iterable[tuple[Any, Any]], lines: Lines) -> int:
    """The answers for a reader."""
    code = 0
    for _, one in answers:
        if one.error:
            say(f"error: {one.error}")
            code = 1
            continue
        made = table("", "", "")
        for text, score, note in lines(one):
            made.add_row(f"  {text}", "" if score is None else f"{score:.3f}", note)
        show(made)
    return code
