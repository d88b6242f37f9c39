"""One ranked list from several voices: a model that writes tags, one that ranks known ones, the tags of near posts.

posts --each voice--> candidates with their share of belief --weighted mean by tag--> one list --cut, spell--> Tags
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from tagsmith.errors import ConfigError
from tagsmith.pipelines.index import PostIndex
from tagsmith.pipelines.run import CHUNK
from tagsmith.pipelines.tag import Candidate, Raw, Tagger, as_post, problem
from tagsmith.records import Post, Tags
from tagsmith.text.hashtags import key, words_of

ASKED = 20  # tags asked of each voice


class Voice(Protocol):
    """Anything that says what it believes of tags: shares that sum to one at most."""

    @property
    def weight(self) -> float: ...  # how much it counts where nothing else is said

    def rank(self, posts: Sequence[Post], *, top: int = 10) -> list[Raw]: ...


class Neighbours:
    """The tags of the nearest posts of an index, each post counting by its nearness."""

    weight = 1.0

    def __init__(self, index: PostIndex, *, posts: int = 30, sharpness: float = 12.0) -> None:
        self.index = index
        self.posts = posts
        self.sharpness = sharpness

    def rank(self, posts: Sequence[Post], *, top: int = 10) -> list[Raw]:
        """A tag's share of the votes of near posts."""
        return [self._raw(near, top) for near in self.index.nearest(posts, top=self.posts)]

    def _raw(self, near: Sequence[Any], top: int) -> Raw:
        votes: dict[str, float] = {}
        words: dict[str, str] = {}
        total = 0.0
        for one in near:
            weight = max(one.score, 0.0) ** self.sharpness
            total += weight * len(one.post.tags)
            for tag in one.post.tags:
                mark = key(tag)
                words.setdefault(mark, " ".join(words_of(tag)))
                votes[mark] = votes.get(mark, 0.0) + weight
        best = sorted(votes, key=lambda mark: -votes[mark])[:top]
        return Raw([], [Candidate(words[mark], votes[mark] / (total or 1.0)) for mark in best])


class MergedTagger:
    """`Tagger` with several voices: the first one's settings, everybody's tags."""

    def __init__(self, first: Tagger, others: Sequence[Voice], *, weights: Sequence[float] | None = None) -> None:
        self.first = first
        self.voices: list[Voice] = [first, *others]
        self.weights = list(weights or [voice.weight for voice in self.voices])
        if len(self.weights) != len(self.voices) or min(self.weights) < 0 or not sum(self.weights):
            raise ConfigError(f"{len(self.voices)} voices need as many weights, none below 0, not {self.weights}")

    @property
    def settings(self) -> Any:
        return self.first.settings

    def rank(self, posts: Sequence[Post], *, top: int = 10, evidence: bool = False) -> list[Raw]:
        """What all voices together believe, before anything is cut or spelled."""
        most = max(top, ASKED)
        heard = [self.first.rank(posts, top=most, evidence=evidence)]
        heard += [voice.rank(posts, top=most) for voice in self.voices[1:]]
        return [self._merge(raws, top) for raws in zip(*heard, strict=True)]

    def _merge(self, raws: Sequence[Raw], top: int) -> Raw:
        scores: dict[str, float] = {}
        words: dict[str, str] = {}
        for raw, weight in zip(raws, self.weights, strict=True):
            for one in raw.candidates:
                mark = key(one.words)
                words.setdefault(mark, one.words)
                scores[mark] = scores.get(mark, 0.0) + weight / sum(self.weights) * min(one.score, 1.0)
        best = sorted(scores, key=lambda mark: -scores[mark])
        merged = [Candidate(words[mark], scores[mark]) for mark in best[: max(top, ASKED)]]
        return Raw(raws[0].sequences, merged, raws[0].read)

    def tag(self, posts: Sequence[str | Post], *, top: int | None = None, evidence: bool = False) -> list[Tags]:
        """Tags for each post; evidence is the first voice's."""
        given = [as_post(post) for post in posts]
        return [answer for _, answer in self.stream(given, top=top, evidence=evidence)]

    def stream(
        self, posts: Iterable[str | Post], *, top: int | None = None, evidence: bool = False
    ) -> Iterator[tuple[Post, Tags]]:
        """The same for any number of posts, in bounded memory."""
        asked = self.first.asked(top)
        rest = iter(posts)
        while chunk := [as_post(post) for post in islice(rest, CHUNK)]:
            good = [post for post in chunk if problem(post.text) is None]
            raws = iter(self.rank(good, top=asked.top, evidence=evidence))
            for post in chunk:
                raw = next(raws) if problem(post.text) is None else None
                readable = raw if raw is not None and raw.candidates else None
                yield post, self.first.answer(post, readable, asked, evidence=evidence)
