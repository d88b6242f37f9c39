"""A post to its vector.

text --reading, tokeniser--> ids --model--> vector --length 1--> row of an array
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from tagsmith.bundle import Bundle, load_bundle
from tagsmith.config import from_dict
from tagsmith.errors import BundleError
from tagsmith.pipelines.rank import Ranker, RankSettings
from tagsmith.pipelines.run import run, stream
from tagsmith.pipelines.tag import Ready, Tokenises, as_post, problem, ready_posts
from tagsmith.records import Post, Vector

DIGITS = 6  # of a vector's numbers


class Embedder:
    """Texts or posts in, vectors out: same length, same order. Vectors have length 1: their product is the cosine."""

    def __init__(
        self, ranker: Ranker, tokeniser: Tokenises, settings: RankSettings, *, name: str, fingerprint: str
    ) -> None:
        self.ranker = ranker
        self.tokeniser = tokeniser
        self.settings = settings
        self.name = name
        self.fingerprint = fingerprint

    @classmethod
    def load(cls, name: str | Path = "embed-en") -> Embedder:
        """A shipped model by name, or any bundle by its folder; rankers embed too."""
        return cls.of(load_bundle(name), name=str(name))

    @classmethod
    def of(cls, bundle: Bundle, *, name: str = "") -> Embedder:
        """The pipeline of a loaded bundle."""
        if bundle.task not in ("embed", "rank"):
            raise BundleError(f"{bundle.name} is for the task {bundle.task!r} and makes no vectors; take embed-en")
        ranker, settings = Ranker(bundle.model, bundle.labels), from_dict(RankSettings, bundle.pipeline)
        return cls(ranker, bundle.tokeniser, settings, name=name or bundle.name, fingerprint=bundle.fingerprint)

    @property
    def width(self) -> int:
        return self.ranker.model.config.width

    def embed(self, posts: Sequence[str | Post]) -> NDArray[np.float32]:
        """One row for each post, of length 1; zeros for a post that cannot be read.  -> (posts, width)"""
        answers = run(self.stages(), [as_post(post) for post in posts])
        return np.array([one.vector or [0.0] * self.width for one in answers], np.float32).reshape(-1, self.width)

    def stream(self, posts: Iterable[str | Post]) -> Iterator[tuple[Post, Vector]]:
        """The same for any number of posts, in bounded memory, as records that say why there is no vector."""
        return stream(self.stages(), map(as_post, posts))

    def stages(self) -> _EmbedRun:
        """The three stages of `embed`, for those who run them by themselves."""
        return _EmbedRun(self)


class _EmbedRun:
    """prepare, forward, finish."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    def prepare(self, posts: Sequence[Post]) -> list[Ready | None]:
        return ready_posts(posts, self.embedder.tokeniser, self.embedder.settings.source)

    @property
    def batch(self) -> int:
        return 256

    def shape(self, ready: Ready) -> int:
        return -(-len(ready.ids) // 8)

    def tokens(self, ready: Ready) -> int:
        return len(ready.ids)

    @torch.inference_mode()
    def forward(self, ready: Sequence[Ready]) -> list[list[float]]:
        vectors = self.embedder.ranker.vectors(
            [one.ids for one in ready], longest=self.embedder.settings.source
        ).float()
        rounded = torch.nn.functional.normalize(vectors, dim=-1).double().round(decimals=DIGITS)
        whole: list[list[float]] = rounded.tolist()
        return whole

    def finish(self, posts: Sequence[Post], vectors: Sequence[list[float] | None]) -> list[Vector]:
        return [
            Vector(tuple(vector), id=post.id)
            if vector is not None
            else Vector(id=post.id, error=problem(post.text) or "the text has nothing that can be read; give words")
            for post, vector in zip(posts, vectors, strict=True)
        ]
