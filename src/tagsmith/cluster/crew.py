"""Chunks to parts with workers that may die: each chunk is answered once, whatever happens to who has it.

The same for every engine; an engine is a Team, which knows how to start workers and how to talk with them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from tagsmith.cluster.chunks import Chunk, Part
from tagsmith.cluster.maker import Ready
from tagsmith.errors import BatchError, TagsmithError

TRIES = 3  # a chunk that ended so many workers will end the next one too


@dataclass(frozen=True)
class Gone:
    """The worker died, and why."""

    why: str


Worker = Any  # whatever a team knows one by; it can be a key
Message = Ready | Part | Gone | TagsmithError


class Team(Protocol):
    """Workers of one kind."""

    def hire(self) -> Worker: ...  # begins to start one; it will say Ready
    def give(self, worker: Worker, chunk: Chunk) -> None: ...  # to one that is ready and has none
    def hear(self, *, wait: bool) -> list[tuple[Worker, Message]]: ...  # what has come; waits for something if told
    def close(self) -> None: ...  # end all of them


class Crew:
    """At most `size` workers of a team, started as there is work for them."""

    def __init__(self, team: Team, size: int, on_lost: Callable[[str], None] = lambda why: None) -> None:
        self.team = team
        self.size = size
        self.on_lost = on_lost
        self._starting: set[Worker] = set()
        self._idle: list[Worker] = []
        self._busy: dict[Worker, Chunk] = {}
        self._ahead: deque[Chunk] = deque()  # read, and given to nobody yet
        self._tries: Counter[tuple[int, int]] = Counter()
        self._false_starts = 0

    def start(self) -> None:
        """Wait for the first worker's model: what is wrong with it is told before anything is written."""
        self._hire()
        while not self._idle:
            self._listen(wait=True)

    def parts(self, chunks: Iterable[Chunk]) -> Iterator[Part]:
        """The parts as they come, in any order."""
        rest = iter(chunks)
        more = True
        while True:
            if more and self._hungry:
                chunk = next(rest, None)
                more = chunk is not None
                self._ahead += [chunk] if chunk is not None else []
            self._give()
            if len(self._ahead) > len(self._starting) and self._workers < self.size:
                self._hire()
            if not (more or self._ahead or self._busy):
                return
            made = self._listen(wait=not (more and self._hungry))
            self._give()  # before the parts are written: nobody waits for the disk
            yield from made

    @property
    def _hungry(self) -> bool:
        """A chunk is read for everybody who has none, and one more to be at hand."""
        return len(self._ahead) <= len(self._idle) + len(self._starting)

    @property
    def _workers(self) -> int:
        return len(self._starting) + len(self._idle) + len(self._busy)

    def _hire(self) -> None:
        self._starting.add(self.team.hire())

    def _give(self) -> None:
        while self._idle and self._ahead:
            worker, chunk = self._idle.pop(), self._ahead.popleft()
            self._busy[worker] = chunk
            self.team.give(worker, chunk)

    def _listen(self, *, wait: bool) -> list[Part]:
        made = []
        for worker, message in self.team.hear(wait=wait):
            if isinstance(message, TagsmithError):
                raise message
            if isinstance(message, Gone):
                self._lost(worker, message.why)
                continue
            self._starting.discard(worker)
            self._idle.append(worker)
            self._false_starts = 0
            if isinstance(message, Part):
                del self._busy[worker]
                made.append(message)
        return made

    def _lost(self, worker: Worker, why: str) -> None:
        """Its chunk goes to another, and another takes its place."""
        if worker in self._idle:
            self._idle.remove(worker)
        if worker in self._starting:
            self._starting.discard(worker)
            self._false_starts += 1
            if self._false_starts >= TRIES * self.size:
                raise BatchError(
                    f"{self._false_starts} workers in a row ended before they had loaded the model, "
                    f"the last because {why}"
                )
        if (chunk := self._busy.pop(worker, None)) is not None:
            key = (chunk.place.file, chunk.place.chunk)
            self._tries[key] += 1
            if self._tries[key] >= TRIES:
                raise BatchError(
                    f"{TRIES} workers ended on chunk {chunk.place.chunk} of input file {chunk.place.file}, "
                    f"the last because {why}; resume with fewer --workers, or start again with a smaller --part-rows"
                )
            self._ahead.appendleft(chunk)
        self.on_lost(why)
        self._hire()
