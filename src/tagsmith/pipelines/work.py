"""What every door of Tagsmith does with rows: a model made ready for its task, rows to records to answers to rows.

file --read--> record | BadRow --Work.answers--> record, answer --Work.row--> row
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from tagsmith.data.readers import BadRow, read_as
from tagsmith.data.writers import Schema
from tagsmith.errors import BundleError, ConfigError
from tagsmith.records import (
    Answers,
    Labels,
    Post,
    Replies,
    Tags,
    Vector,
    answers_row,
    document_of,
    labelled_of,
    labels_row,
    pair_of,
    post_of,
    question_of,
    reply_row,
    to_row,
    vector_row,
)

Answer = TypeVar("Answer")
Reads = Literal["posts", "documents", "pairs", "labelled", "questions"]
Stream = Callable[[Iterable[Any]], Iterator[tuple[Any, Any]]]

MAKERS: dict[Reads, tuple[Callable[[Any], Any], str | None]] = {  # and the column that a table must have
    "posts": (post_of, "text"),
    "documents": (document_of, None),
    "pairs": (pair_of, "query"),
    "labelled": (labelled_of, None),
    "questions": (question_of, "question"),
}
TAG = ("voices", "top", "evidence")
TAKES: dict[str, tuple[str, ...]] = {  # what may be asked of a model, by its task
    "hashtag": TAG,
    "rank": TAG,
    "keyphrase": (*TAG, "vocab"),
    "embed": (),
    "reply": ("voices", "top", "evidence", "seed", "about", "block", "longest", "beam"),
    "classify": ("top",),
    "answer": ("top",),
    "extract": ("top",),
}
READS: dict[str, Reads] = {  # what a model reads, by its task
    "hashtag": "posts",
    "rank": "posts",
    "keyphrase": "documents",
    "embed": "posts",
    "reply": "pairs",
    "classify": "labelled",
    "answer": "questions",
    "extract": "documents",
}


@dataclass(frozen=True)
class Ask:
    """Everything that changes the answers; plain values, so that it can travel and be kept."""

    model: str
    voices: tuple[str, ...] = ()
    top: int | None = None
    evidence: bool = False
    vocab: str | None = None
    seed: int | None = None
    about: tuple[str, ...] = ()
    block: str | None = None
    longest: int | None = None
    beam: int | None = None

    def check(self, task: str) -> None:
        """Is it something that a model for this task can be asked?"""
        if task not in TAKES:
            known = ", ".join(sorted(TAKES))
            raise BundleError(f"{self.model} is for the task {task!r}; this version of Tagsmith knows {known}")
        for name, default in DEFAULTS.items():
            if getattr(self, name) != default and name not in TAKES[task]:
                option = "with" if name == "voices" else name
                others = [other for other, takes in TAKES.items() if name in takes]
                raise ConfigError(
                    f"--{option} is for models of the task {' or '.join(others)}; {self.model} is for {task!r}"
                )
        most = 1000 if task in ("classify", "answer", "extract") else 100
        if self.top is not None and not 1 <= self.top <= most:
            raise ConfigError(f"--top is 1 to {most} for models of the task {task}, not {self.top}")
        if task == "reply" and len(self.voices) > 1:
            raise ConfigError(f"replies have one judge at most, not {len(self.voices)}; name one with --with")


DEFAULTS = {one.name: one.default for one in fields(Ask) if one.name != "model"}


@dataclass(frozen=True)
class Work:
    """A model made ready for its task."""

    reads: Reads
    stream: Stream
    answer: Callable[..., Any]  # the kind of its answers, made from `id` and `error` for a row that cannot be read
    row: Callable[[Any], dict[str, Any]]
    schema: Schema

    def answers(self, rows: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """A record and its answer for each row in order; rows that could not be read keep their place."""
        return answered(self.stream, rows, lambda bad: self.answer(id=bad.id, error=f"row {bad.number}: {bad.problem}"))


def answered(
    stream: Callable[[Iterable[Any]], Iterator[tuple[Any, Answer]]],
    rows: Iterable[Any],
    failed: Callable[[BadRow], Answer],
) -> Iterator[tuple[Any, Answer]]:
    """A record and its answer for each row in order; rows that could not be read keep their place."""
    bad: dict[int, BadRow] = {}

    def readable() -> Iterator[Any]:
        for place, row in enumerate(rows):
            if isinstance(row, BadRow):
                bad[place] = row
                yield Post("")  # keeps the place
            else:
                yield row

    for place, (post, answer) in enumerate(stream(readable())):
        broken = bad.pop(place, None)
        yield post, answer if broken is None else failed(broken)


def read(reads: Reads, path: str | Path, *, rename: Mapping[str, str] = {}) -> Iterator[Any]:
    """The rows of a file as the records that a model reads."""
    make, need = MAKERS[reads]
    return read_as(make, path, rename=rename, need=need)


def tag_work(tagger: Any, *, top: int | None = None, evidence: bool = False, stream: Stream | None = None) -> Work:
    """Tags, or keyphrases for what reads documents; `stream` where they are found in another way."""
    reads: Reads = getattr(tagger, "reads", "posts")
    schema: Schema = "phrases" if reads == "documents" else "segments" if evidence else "tags"
    return Work(reads, stream or (lambda given: tagger.stream(given, top=top, evidence=evidence)), Tags, to_row, schema)


def embed_work(embedder: Any) -> Work:
    """Vectors."""
    return Work("posts", embedder.stream, Vector, vector_row, "vectors")


def reply_work(replier: Any, **asked: Any) -> Work:
    """Replies; `asked` is what `Replier.stream` takes."""
    schema: Schema = "reasons" if asked.get("evidence") else "replies"
    return Work("pairs", lambda given: replier.stream(given, **asked), Replies, reply_row, schema)


def read_work(reader: Any, *, top: int | None = None) -> Work:
    """Labels, answers or marked keyphrases, as the reader's task is."""
    kinds: dict[str, tuple[Any, Any, Schema]] = {
        "classify": (Labels, labels_row, "labels"),
        "answer": (Answers, answers_row, "answers"),
        "extract": (Tags, to_row, "phrases"),
    }
    return Work(reader.reads, lambda given: reader.stream(given, top=top), *kinds[reader.task])


def work_of(ask: Ask) -> Work:
    """The model that is asked for, made ready for the task it was trained for."""
    from tagsmith.bundle import describe_bundle, find_bundle
    from tagsmith.pipelines.embed import Embedder
    from tagsmith.pipelines.load import READERS, load_reader

    task = describe_bundle(find_bundle(ask.model)).task
    ask.check(task)
    if task == "embed":
        return embed_work(Embedder.load(ask.model))
    if task == "reply":
        return _replies(ask)
    if task in READERS:
        return read_work(load_reader(ask.model, task), top=ask.top)
    tagger = tagger_for(ask.model, ask.voices)
    if ask.vocab is not None:
        tagger = within(tagger, ask.vocab)[0]
        return tag_work(tagger, stream=lambda given: tagger.stream(given, top=ask.top))
    return tag_work(tagger, top=ask.top, evidence=ask.evidence)


def _replies(ask: Ask) -> Work:
    from tagsmith.text.block_list import read_block_list

    replier = replier_for(ask.model, ask.voices[0] if ask.voices else None, ask.beam)
    block = read_block_list(ask.block) if ask.block is not None else None
    asked = {"top": ask.top, "seed": ask.seed, "about": ask.about, "longest": ask.longest, "evidence": ask.evidence}
    replier.wish(**asked, block=block)  # so that a wish that cannot be is told now
    return reply_work(replier, **asked, block=block)


def tagger_for(model: str | None, voices: Sequence[str] = ()) -> Any:
    """The tagger asked for, with its other voices; without a model, one for each language."""
    if model is None and not voices:
        from tagsmith.pipelines.auto import AutoTagger

        return AutoTagger()
    from tagsmith.pipelines.load import load_tagger

    if model is None:
        raise ConfigError("--with adds a voice to a model; name that model with --model")
    first = load_tagger(model)
    if not voices:
        return first
    from tagsmith.pipelines.join import JoinedTagger
    from tagsmith.pipelines.merge import MergedTagger

    others = [voice_of(name) for name in voices]
    if "documents" in (getattr(voice, "reads", "") for voice in (first, *others)):
        return JoinedTagger([first, *others])
    return MergedTagger(first, others)


def voice_of(name: str) -> Any:
    """A model, or the tags of near posts."""
    from tagsmith.pipelines.load import load_tagger
    from tagsmith.pipelines.merge import Neighbours
    from tagsmith.pipelines.near import open_index

    if (Path(name) / "index.json").exists():
        return Neighbours(open_index(name))
    return load_tagger(name)


def within(tagger: Any, vocab: str) -> tuple[Any, Any]:
    """The tagger kept to the terms of a file, and the terms."""
    from tagsmith.text.term_list import read_terms

    if not hasattr(tagger, "within"):
        raise ConfigError("--vocab is for models that write keyphrases; take --model keyphrase-en")
    terms = read_terms(vocab)
    return tagger.within(terms), terms


def replier_for(model: str | None, judge: str | None = None, beam: int | None = None) -> Any:
    """The replier asked for; without a model, one for each language."""
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
