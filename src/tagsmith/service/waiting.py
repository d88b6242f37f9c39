"""Texts that wait for a pass of their model: who goes next, and with whom.

Only texts of one pipeline, one set of parameters and one padded shape share a pass, so that a text's answer never
depends on its neighbours. The group whose texts have waited longest, all together, goes next: many before few, and yet
nobody starves. It goes as soon as it is full, or nobody has joined it for a moment, or a thread has been free for a
few. Those who were just answered often ask again at once: to let them join makes fuller passes, which is what a model
is fast at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

MOMENTS = 4  # that a free model waits, at most, for a group that others keep joining


class Group(NamedTuple):
    """What texts must have in common to share a pass."""

    lane: str  # the model
    asked: Hashable  # the parameters
    shape: int


@dataclass(slots=True)
class Piece:
    """One text made ready, and whose it is."""

    job: Any  # has `stages` and `dropped`
    place: int  # among the texts of the job
    ready: Any
    tokens: int
    since: float  # seconds, by the clock that `take` is given


class Waiting:
    """Groups of pieces, first come first served within each; it knows no clock and no threads."""

    def __init__(self, *, tokens: int, wait: float) -> None:
        self._tokens = tokens
        self._wait = wait
        self._groups: dict[Group, deque[Piece]] = {}

    def __len__(self) -> int:
        return sum(len(pieces) for pieces in self._groups.values())

    def add(self, group: Group, piece: Piece) -> None:
        """One more text."""
        self._groups.setdefault(group, deque()).append(piece)

    def take(self, now: float, *, free: float = 0.0, hurry: bool = False) -> tuple[Group, list[Piece]] | None:
        """The texts of the next pass, if there is one now; the model is free since `free`.

        In a `hurry` nobody waits for company.
        """
        self._forget_dropped()
        due = [group for group, pieces in self._groups.items() if hurry or self._due(pieces, free) <= now]
        if not due:
            return None
        group = max(due, key=lambda one: sum(now - piece.since for piece in self._groups[one]))
        pieces = self._groups[group]
        taken = [pieces.popleft() for _ in range(self._fitting(pieces))]
        if not pieces:
            del self._groups[group]
        return group, taken

    def due_in(self, now: float, *, free: float = 0.0) -> float | None:
        """Seconds until somebody has waited long enough; None: nobody waits."""
        moments = [self._due(pieces, free) for pieces in self._groups.values()]
        return max(0.0, min(moments) - now) if moments else None

    def _due(self, pieces: deque[Piece], free: float) -> float:
        """When a group goes at the latest, if nobody joins it."""
        fitting = self._fitting(pieces)
        if fitting < len(pieces) or fitting == pieces[0].job.stages.batch:
            return free  # full
        return min(pieces[-1].since + self._wait, max(pieces[0].since, free) + MOMENTS * self._wait)

    def _fitting(self, pieces: deque[Piece]) -> int:
        """How many of the first pieces fit one pass: at least one."""
        most, longest = pieces[0].job.stages.batch, 0
        for count, piece in enumerate(pieces):
            longest = max(longest, piece.tokens)
            if count and (count == most or (count + 1) * longest > self._tokens):
                return count
        return len(pieces)

    def _forget_dropped(self) -> None:
        """Texts whose request is over go without a pass."""
        for group, pieces in list(self._groups.items()):
            if any(piece.job.dropped for piece in pieces):
                kept = deque(piece for piece in pieces if not piece.job.dropped)
                if kept:
                    self._groups[group] = kept
                else:
                    del self._groups[group]
