"""Commands that suggest tags and measure how well: tag, evaluate, models."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagsmith.cli.replying import Beam, evaluate_replies, is_replier, pairs_of
from tagsmith.cli.shared import (
    AsJson,
    Field,
    Input,
    Output,
    Texts,
    check_given,
    documents_of,
    fields_of,
    given_rows,
    posts_of,
    say_bad,
)
from tagsmith.errors import ConfigError
from tagsmith.terminal import Counter, put, say, show, show_scores, table

if TYPE_CHECKING:
    from tagsmith.data.readers import BadRow
    from tagsmith.records import Document, Post, Tags

Model = Annotated[str | None, typer.Option(help="A shipped model or a folder; default: by language.")]
Vocab = Annotated[str | None, typer.Option(help="Keep to the terms of this file, one a line (keyphrases).")]
With = Annotated[
    list[str] | None,
    typer.Option("--with", help="A second voice: another model, or an index whose nearest posts lend their tags."),
]


def tag(  # noqa: PLR0913 - one for each option
    texts: Texts = None,
    model: Model = None,
    voices: With = None,
    input: Input = None,
    output: Output = "-",
    top: Annotated[int | None, typer.Option(min=1, max=100, help="Tags for each post, at most.")] = None,
    evidence: Annotated[bool, typer.Option("--evidence", help="Also the segments the model selected.")] = False,
    vocab: Vocab = None,
    missing: Annotated[str | None, typer.Option(help="Where to write frequent suggestions that --vocab lacks.")] = None,
    field: Field = None,
    as_json: AsJson = False,
    as_table: Annotated[bool, typer.Option("--table", help="For reading, also when piped.")] = False,
) -> int:
    """Suggest hashtags for posts, keyphrases for documents: each with its score, and where it stands in the text."""
    from tagsmith.data.writers import RowWriter
    from tagsmith.pipelines.work import tag_work, tagger_for

    if as_table and (as_json or output != "-"):
        raise ConfigError("--table is for reading here; leave out --json and --output, or --table")
    check_given(texts, input, output, command="tag")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # little to gain, and every thread has memory of its own
    tagger = tagger_for(model, voices or ())
    counted = None
    work = tag_work(tagger, top=top, evidence=evidence)
    if vocab is not None or missing is not None:
        find, counted = _bound(tagger, vocab, missing, top)
        work = tag_work(tagger, stream=find)
    answers = work.answers(given_rows(texts, input, field, reads=work.reads))
    wrong = 0
    if as_table or (texts and output == "-" and not as_json and sys.stdout.isatty()):
        wrong = _show_tags(answers, mark="" if work.reads == "documents" else "#")
        _write_missing(counted, missing)
        return wrong
    with RowWriter(output, schema=work.schema) as writer, Counter("tagging", quiet=bool(texts)) as counter:
        for _, answer in answers:
            writer.write(work.row(answer))
            wrong += answer.error is not None
            counter.add(1)
    _write_missing(counted, missing)
    return 1 if wrong else 0


def evaluate(
    model: Annotated[str, typer.Argument(help="A shipped model or a folder.")],
    file: Annotated[
        str, typer.Argument(help="Posts with hashtags, documents with keyphrases, queries with responses.")
    ],
    voices: With = None,
    beam: Beam = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Score only the first so many rows.")] = None,
    field: Field = None,
    as_json: AsJson = False,
) -> int:
    """Measure a model on rows whose tags, labels, answers or responses are known."""
    from functools import partial
    from itertools import islice

    from tagsmith.data.readers import good
    from tagsmith.pipelines.evaluate import evaluate_tagger
    from tagsmith.pipelines.evaluate_documents import evaluate_documents
    from tagsmith.pipelines.work import read as read_records
    from tagsmith.pipelines.work import tagger_for

    bad: list[BadRow] = []
    measure: Any
    wanted = "tags"
    if is_replier(model):
        wanted = "responses"
        read, fields = pairs_of, "'query' and 'responses'"
        measure = lambda rows: evaluate_replies(model, rows, judges=voices or (), beam=beam)  # noqa: E731
    elif beam is not None:
        raise ConfigError(f"--beam is for models that reply; {model} does not")
    elif (reader := None if voices else _reader(model)) is not None:
        rows = good(read_records(reader.reads, file, rename=fields_of(field)), bad.append)
        with Counter("scoring") as counter:
            scores = _evaluate_reader(reader, counter.watch(islice(rows, limit)), file)
        return _show_measured(scores, bad, as_json)
    else:
        tagger = tagger_for(model, voices or ())
        if getattr(tagger, "reads", "posts") == "documents":
            read, fields = documents_of, "'abstract' (or 'text') and 'keyphrases'"
            measure = partial(evaluate_documents, tagger)
        else:
            read, fields = posts_of, "'text' and 'hashtags' (or 'tags')"
            measure = partial(evaluate_tagger, tagger)
    with Counter("scoring") as counter:
        scores = measure(counter.watch(islice(good(read(file, field), bad.append), limit)))
    if not scores["n"]:
        say_bad(bad)
        raise ConfigError(f"{file} has no row with a text and {wanted}; the fields are {fields}")
    return _show_measured(scores, bad, as_json)


def _show_measured(scores: dict[str, Any], bad: list[BadRow], as_json: bool) -> int:
    say_bad(bad)
    if as_json or not sys.stdout.isatty():
        put(json.dumps(scores))
    else:
        show_scores(scores)
    return 1 if bad else 0


def _reader(model: str) -> Any:
    """The model if it reads by a title or question, else None."""
    from tagsmith.bundle import describe_bundle, find_bundle
    from tagsmith.pipelines.load import READERS, load

    return load(model) if describe_bundle(find_bundle(model)).task in READERS else None


def _evaluate_reader(reader: Any, rows: Iterable[Any], file: str) -> dict[str, Any]:
    from tagsmith.pipelines.evaluate_reading import FIELDS, evaluate_reader

    scores = evaluate_reader(reader, rows)
    if not scores["n"]:
        raise ConfigError(f"{file} has no row that tells what is right; the fields are {FIELDS[reader.task]}")
    return scores


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


def _bound(tagger: Any, vocab: str | None, missing: str | None, top: int | None) -> tuple[Any, Any]:
    """How to find tags within a list of terms, and the count of what it lacks where asked for."""
    from tagsmith.pipelines.missing import Missing, stream_beside
    from tagsmith.pipelines.work import within

    if vocab is None:
        raise ConfigError("--missing tells what a list of terms lacks; name the list with --vocab")
    bound, terms = within(tagger, vocab)
    for count, what in ((terms.repeated, "say what an earlier one says"), (terms.too_long, "are too long")):
        if count:
            say(f"{vocab}: {count:,} terms left out, they {what}")
    if missing is None:
        return lambda given: bound.stream(given, top=top), None
    counted = Missing(terms)
    return lambda given: stream_beside(bound, tagger, given, counted, top=top), counted


def _write_missing(counted: Any, path: str | None) -> None:
    """One row for each phrase that the list lacks."""
    from tagsmith.data.writers import RowWriter

    if counted is None or path is None:
        return
    with RowWriter(path) as writer:
        for text, documents in counted.frequent():
            writer.write({"text": text, "documents": documents})
    say(f"{path}: {len(counted.frequent()):,} phrases that two documents or more would have got")


def _show_tags(answers: Iterable[tuple[Post | Document, Tags]], *, mark: str) -> int:
    """Texts and their tags for a reader; the words of a tag that stand in the text are marked there."""
    from rich.text import Text

    code = 0
    for post, answer in answers:
        if answer.error:
            say(f"error: {answer.error}")
            code = 1
            continue
        shown = Text(post.text)
        for piece in answer.segments or ():
            shown.stylize("underline", piece.start, piece.end)
        for found in answer.tags:
            for start, end in found.spans:
                shown.stylize("bold green", start, end)
        show(shown)
        made = table("", "", "")
        for found in answer.tags:
            made.add_row(f"  {mark}{found.text}", f"{found.score:.3f}", "in the text" if found.spans else "")
        show(made)
        if answer.segments:
            read = " | ".join(post.text[piece.start : piece.end] for piece in answer.segments)
            show(Text(f"  read: {read}\n", style="dim"))
    return code
