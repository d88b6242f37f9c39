"""Known tags ranked: the finder of models with a closed list of tags.

ids --model--> vector --head--> weights of all tags --the best--> candidates
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from tagsmith.config import check_positive
from tagsmith.data.batches import pad_ids
from tagsmith.errors import ConfigError
from tagsmith.nn.best import top_of
from tagsmith.pipelines.tag import Candidate, Raw


@dataclass(frozen=True)
class RankSettings:
    """How a trained ranker is used; chosen on dev data, kept in its bundle."""

    language: Literal["en", "zh"] = "en"
    top: int = 5  # tags returned, at most
    keep: float = 0.0  # tags scored below this share of the best one are not returned
    least: float = 0.0  # nor are those scored below this, but for the best one
    source: int = 96  # tokens read
    temperature: float = 1.0  # of the softmax, so that scores mean what they say

    def __post_init__(self) -> None:
        check_positive(self, "top", "source")
        if not self.temperature > 0:
            raise ConfigError(f"RankSettings.temperature must be above 0, not {self.temperature}")


class Ranker:
    """Scores every known tag at once."""

    weight = 0.5  # beside other voices: it knows fewer tags than they do
    batch = 128

    def __init__(self, model: Any, labels: Sequence[str | None]) -> None:
        self.model = model
        self.labels = list(labels)
        self.gone = [place for place, words in enumerate(self.labels) if words is None]

    @property
    def device(self) -> torch.device:
        return self.model.head.known.weight.device

    def vectors(self, ids: Sequence[list[int]], *, longest: int, width: int = 0) -> Tensor:
        """The posts' vectors as the model makes them.  -> (posts, width)"""
        padded, lengths = pad_ids(ids, longest=longest, width=width)
        return self.model.vector(padded.to(self.device), lengths.to(self.device))

    def find(self, ids: Sequence[list[int]], settings: RankSettings, *, evidence: bool, width: int = 0) -> list[Raw]:
        """The best tags of each post; there are no segments to show."""
        vectors = self.vectors(ids, longest=settings.source, width=width)
        weights = self.model.head.weights(vectors, temperature=settings.temperature)  # (posts, tags)
        if self.gone:
            weights[:, self.gone] = -1.0
        # some more than asked for, as some may say the same
        values, places = top_of(weights, min(2 * settings.top + 5, len(self.labels) - len(self.gone)))
        return [self._raw(*row, settings.keep) for row in zip(values.tolist(), places.tolist(), strict=True)]

    def _raw(self, values: list[float], places: list[int], keep: float) -> Raw:
        least = keep * values[0] if values else 0.0
        found = [(self.labels[place], value) for value, place in zip(values, places, strict=True) if value >= least]
        return Raw([], [Candidate(words, value) for words, value in found if words is not None])
