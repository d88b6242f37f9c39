"""A document to its keyphrases.

title, text --terms--> ids --writer: phrase after phrase--> phrases with scores --cut, spell, place--> Tags
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Literal, NamedTuple

import torch

from tagsmith.data.trie import Trie
from tagsmith.decode import Constraint
from tagsmith.errors import DataError
from tagsmith.pipelines.phrases import GRAIN, KeyphraseSettings, PhraseFinder, Phrases, within
from tagsmith.pipelines.run import CHUNK, run, stream
from tagsmith.pipelines.tag import DIGITS, Candidate, problem, whole
from tagsmith.records import Document, Post, Tag, Tags
from tagsmith.text.spans import SpanFinder
from tagsmith.text.term_list import TermList
from tagsmith.text.terms import PRESENT, Coder, Target, Text, phrase_terms
from tagsmith.text.vocabulary import SEP, UNK

LEAST = 0.01  # of a listed term: where none fits, a list has the model write one that it hardly believes in


class Ready(NamedTuple):
    """A document made ready for the model."""

    text: Text


class KeyphraseTagger:
    """Documents, posts or texts in, `Tags` out: same length, same order."""

    reads = "documents"

    def __init__(self, finder: PhraseFinder, coder: Coder, settings: KeyphraseSettings) -> None:
        self.finder = finder
        self.coder = coder
        self.settings = settings
        self.terms: TermList | None = None  # what phrases must come from
        self.rules: tuple[Constraint, ...] = ()

    def within(self, terms: TermList) -> KeyphraseTagger:
        """The same tagger, held to a list of terms, whose spelling it uses."""
        sequences = list(self._sequences(terms))
        if not sequences:
            raise DataError(f"none of the {len(terms):,} terms can be written by this model; give words it can read")
        bound = KeyphraseTagger(self.finder, self.coder, self.settings)
        bound.terms = terms
        kinds = self.settings.kinds and not self.finder.parallel
        bound.rules = (within(Trie(sequences), self.coder.size, kinds=kinds),)
        return bound

    def _sequences(self, terms: TermList) -> Iterator[list[int]]:
        """The terms as ids; those that the model cannot write, or not to their end, are left out."""
        every = iter(terms.terms)
        longest = self.finder.longest(self.settings)
        while chunk := list(islice(every, CHUNK)):
            targets = [Target(PRESENT, phrase_terms(term), term.lower()) for term in chunk]
            for ids in self.coder.write(Text([]), targets):
                if UNK not in ids and 1 < len(ids) <= longest + 1:
                    yield [*ids[1:], SEP]

    def tag(
        self, documents: Sequence[str | Post | Document], *, top: int | None = None, evidence: bool = False
    ) -> list[Tags]:
        """Keyphrases for each document, present and absent ones in one list, best first."""
        return run(self.stages(top=top), [as_document(one) for one in documents])

    def stream(
        self, documents: Iterable[str | Post | Document], *, top: int | None = None, evidence: bool = False
    ) -> Iterator[tuple[Document, Tags]]:
        """The same for any number of documents, in bounded memory."""
        return stream(self.stages(top=top), map(as_document, documents))

    def stages(self, *, top: int | None = None, evidence: bool = False) -> _PhraseRun:
        """The three stages of `tag`, for those who run them by themselves."""
        return _PhraseRun(self, self._asked(top))

    def rank(self, documents: Sequence[Document]) -> list[Phrases]:
        """What the model wrote, as many as it believes in: for measuring."""
        return run(_RawRun(self, self.settings), documents)

    def _asked(self, top: int | None) -> KeyphraseSettings:
        if top is None or top == self.settings.top:
            return self.settings
        return replace(self.settings, top=top, keep=self.settings.keep if top < self.settings.top else 0.0)

    def answer(self, document: Document, found: Phrases | None, settings: KeyphraseSettings) -> Tags:
        """The phrases worth returning, as they are written in the document, and where they stand in it."""
        if found is None:
            wrong = problem(whole(document)) or "the document has nothing that can be read; give words"
            return Tags(id=document.id, error=wrong)
        in_title, in_text = SpanFinder(document.title), SpanFinder(document.text)
        tags = []
        for one in believed(self._listed(found.candidates), settings.keep, top=settings.top):
            title_spans, spans = in_title.find(one.words), in_text.find(one.words)
            written = [document.text[start:end] for start, end in spans]
            written = written or [document.title[start:end] for start, end in title_spans]
            text = (self.terms and self.terms.spelling(one.words)) or plainest(one.words, written)
            kind: Literal["present", "absent"] = "present" if spans or title_spans else "absent"
            score = round(min(one.score, 1.0), DIGITS)
            tags.append(Tag(text, score, kind, spans, title_spans if document.title else None))
        return Tags(tuple(tags), id=document.id)

    def _listed(self, found: list[Candidate]) -> list[Candidate]:
        if self.terms is None:
            return found
        return [one for one in found if one.words in self.terms and one.score >= LEAST]


class _PhraseRun:
    """prepare, forward, finish for one call's settings."""

    def __init__(self, tagger: KeyphraseTagger, settings: KeyphraseSettings) -> None:
        self.tagger = tagger
        self.settings = settings

    def prepare(self, documents: Sequence[Document]) -> list[Ready | None]:
        good = [place for place, one in enumerate(documents) if problem(whole(one)) is None]
        texts = self.tagger.coder.read([whole(documents[place]) for place in good])
        ready: list[Ready | None] = [None] * len(documents)
        for place, text in zip(good, texts, strict=True):
            if text.ids and any(letter.isalnum() for letter in whole(documents[place])):
                ready[place] = Ready(text._replace(ids=text.ids[: self.settings.source]))
        return ready

    @property
    def batch(self) -> int:
        return 16 if self.tagger.finder.device.type == "cpu" else 256

    def shape(self, ready: Ready) -> int:
        return -(-len(ready.text.ids) // GRAIN)

    def tokens(self, ready: Ready) -> int:
        return len(ready.text.ids)

    @torch.inference_mode()
    def forward(self, ready: Sequence[Ready]) -> list[Phrases]:
        return self.tagger.finder.find([one.text for one in ready], self.settings, self.tagger.rules)

    def finish(self, documents: Sequence[Document], found: Sequence[Phrases | None]) -> list[Tags]:
        pairs = zip(documents, found, strict=True)
        return [self.tagger.answer(document, one, self.settings) for document, one in pairs]


class _RawRun(_PhraseRun):
    """The same, cut but without the last stage."""

    def finish(self, documents: Sequence[Document], found: Sequence[Phrases | None]) -> list[Phrases]:  # type: ignore[override]
        settings = self.settings
        return [
            Phrases(believed(one.candidates, settings.keep, top=settings.top), one.repeats) if one else Phrases([], [])
            for one in found
        ]


def believed(found: Sequence[Candidate], keep: float, *, top: int) -> list[Candidate]:
    """The phrases to return: none far below the best."""
    return [one for one in found[:top] if one.score >= keep * found[0].score]


def plainest(words: str, written: Sequence[str]) -> str:
    """A phrase as the document has it: of its spellings there the one with the fewest capitals."""
    return min(written, key=lambda one: sum(letter.isupper() for letter in one), default=words)


def as_document(given: str | Post | Document) -> Document:
    """A text on its own is a document without a title."""
    if isinstance(given, Document):
        return given
    if isinstance(given, Post):
        return Document(given.text, id=given.id, keyphrases=given.tag_words or given.tags, parts=given.parts)
    return Document(given)
