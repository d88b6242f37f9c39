"""One ranked list of keyphrases from several models: one that writes them, one that marks them in the text.

documents --each model--> its keyphrases with scores --mean score by stem--> one list, best first --> Tags
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol

from tagsmith.errors import ConfigError
from tagsmith.pipelines.keyphrase import as_document
from tagsmith.pipelines.phrases import Phrases
from tagsmith.pipelines.read import Reader
from tagsmith.pipelines.run import CHUNK
from tagsmith.pipelines.tag import DIGITS, Candidate
from tagsmith.records import Document, Post, Tag, Tags
from tagsmith.text.stems import stems

MOST = 10  # keyphrases of a document, if not said otherwise


class Marker(Protocol):
    """Anything that gives documents keyphrases."""

    def tag(self, documents: Sequence[Any], *, top: int | None = None) -> list[Tags]: ...


class ExtractTagger:
    """A reader that extracts, where a tagger is asked for."""

    reads = "documents"

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def tag(
        self, documents: Sequence[str | Post | Document], *, top: int | None = None, evidence: bool = False
    ) -> list[Tags]:
        """The keyphrases that stand in each document."""
        return self.reader.extract(documents, top=top)

    def stream(
        self, documents: Iterable[str | Post | Document], *, top: int | None = None, evidence: bool = False
    ) -> Iterator[tuple[Document, Tags]]:
        """The same for any number of documents, in bounded memory."""
        return self.reader.stream(documents, top=top)

    def rank(self, documents: Sequence[Document]) -> list[Phrases]:
        """The same, for measuring."""
        return [_phrases(answer) for answer in self.tag(documents)]


class JoinedTagger:
    """Several voices on documents: what they agree on comes first, what one alone found behind it."""

    reads = "documents"

    def __init__(self, voices: Sequence[Marker]) -> None:
        self.voices = list(voices)
        if odd := [voice for voice in voices if getattr(voice, "reads", "posts") != "documents"]:
            raise ConfigError(
                f"{len(odd)} of the {len(voices)} voices tag posts, the others documents; "
                "join models of one kind: hashtag-en with tags-en, keyphrase-en with extract-en"
            )

    def tag(
        self, documents: Sequence[str | Post | Document], *, top: int | None = None, evidence: bool = False
    ) -> list[Tags]:
        """Keyphrases for each document, present and absent ones in one list, best first."""
        given = [as_document(one) for one in documents]
        heard = [voice.tag(given, top=top) for voice in self.voices]
        return [self._joined(answers, top or MOST) for answers in zip(*heard, strict=True)]

    def stream(
        self, documents: Iterable[str | Post | Document], *, top: int | None = None, evidence: bool = False
    ) -> Iterator[tuple[Document, Tags]]:
        """The same for any number of documents, in bounded memory."""
        rest = map(as_document, documents)
        while chunk := list(islice(rest, CHUNK)):
            yield from zip(chunk, self.tag(chunk, top=top), strict=True)

    def rank(self, documents: Sequence[Document]) -> list[Phrases]:
        """The same, for measuring."""
        return [_phrases(answer) for answer in self.tag(documents)]

    def _joined(self, answers: Sequence[Tags], top: int) -> Tags:
        """A keyphrase as the first voice that has it gives it, with the mean of what all believe."""
        good = [answer for answer in answers if answer.error is None]
        if not good:
            return answers[0]
        known: dict[tuple[str, ...], Tag] = {}
        sums: dict[tuple[str, ...], float] = {}
        for tag in (tag for answer in good for tag in answer.tags):
            mark = stems(tag.text) or (tag.text.casefold(),)
            known.setdefault(mark, tag)
            sums[mark] = sums.get(mark, 0.0) + tag.score / len(self.voices)
        best = sorted(sums, key=lambda mark: -sums[mark])[:top]
        return replace(good[0], tags=tuple(replace(known[mark], score=round(sums[mark], DIGITS)) for mark in best))


def _phrases(answer: Tags) -> Phrases:
    return Phrases([Candidate(tag.text, tag.score) for tag in answer.tags], [])
