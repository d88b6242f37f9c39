"""A tagger or replier for each language, taken by the language of the text and loaded when first needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from tagsmith.pipelines.load import load_replier, load_tagger
from tagsmith.pipelines.reply import Replier, as_pair
from tagsmith.pipelines.run import CHUNK
from tagsmith.pipelines.tag import Tagger
from tagsmith.records import Pair, Post, Replies, Tags
from tagsmith.text.language import language_of


class AutoTagger:
    """`Tagger` without a choice of model: `hashtag-en` or `hashtag-zh`, text by text."""

    def __init__(self, task: str = "hashtag") -> None:
        self.task = task
        self._taggers: dict[str, Tagger] = {}

    def tag(self, posts: Sequence[str | Post], *, top: int | None = None, evidence: bool = False) -> list[Tags]:
        """Tags for each post, by the model of its language."""
        languages = [language_of(post if isinstance(post, str) else post.text) for post in posts]
        answers: list[Tags] = [Tags()] * len(posts)
        for language in sorted(set(languages)):
            places = [place for place, found in enumerate(languages) if found == language]
            found = self._tagger(language).tag([posts[place] for place in places], top=top, evidence=evidence)
            for place, answer in zip(places, found, strict=True):
                answers[place] = answer
        return answers

    def stream(
        self, posts: Iterable[str | Post], *, top: int | None = None, evidence: bool = False
    ) -> Iterator[tuple[Post, Tags]]:
        """The same for any number of posts, in bounded memory."""
        rest = iter(posts)
        while chunk := list(islice(rest, CHUNK)):
            given = [post if isinstance(post, Post) else Post(post) for post in chunk]
            yield from zip(given, self.tag(given, top=top, evidence=evidence), strict=True)

    def _tagger(self, language: str) -> Tagger:
        if language not in self._taggers:
            self._taggers[language] = load_tagger(f"{self.task}-{language}")
        return self._taggers[language]


class AutoReplier:
    """`Replier` without a choice of model: `reply-en` or `reply-zh`, text by text."""

    def __init__(self) -> None:
        self._repliers: dict[str, Replier] = {}

    def reply(self, queries: Sequence[str | Pair | Post], **asked: Any) -> list[Replies]:
        """Replies to each query, by the model of its language; `asked` is what `Replier.reply` takes."""
        pairs = [as_pair(query) for query in queries]
        languages = [language_of(pair.query) for pair in pairs]
        answers: list[Replies] = [Replies()] * len(pairs)
        for language in sorted(set(languages)):
            places = [place for place, found in enumerate(languages) if found == language]
            found = self._replier(language).reply([pairs[place] for place in places], **asked)
            for place, answer in zip(places, found, strict=True):
                answers[place] = answer
        return answers

    def stream(self, queries: Iterable[str | Pair | Post], **asked: Any) -> Iterator[tuple[Pair, Replies]]:
        """The same for any number of queries, in bounded memory."""
        rest = iter(queries)
        while chunk := [as_pair(query) for query in islice(rest, CHUNK)]:
            yield from zip(chunk, self.reply(chunk, **asked), strict=True)

    def _replier(self, language: str) -> Replier:
        if language not in self._repliers:
            self._repliers[language] = load_replier(f"reply-{language}")
        return self._repliers[language]
