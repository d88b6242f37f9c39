"""Threads for the models, a few for text work, and the event loop that asks them.

Text work (tokenising, spelling, placing) and model work overlap. So many passes run at a time, each on a thread of its
own, whichever models they are of: two passes of one arithmetic thread each answer half as many texts again as one pass
of two, since little of a small model's work can be split.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

from tagsmith.pipelines.run import Stages
from tagsmith.service.limits import Limits
from tagsmith.service.refused import RefusedError
from tagsmith.service.waiting import Group, Piece, Waiting

log = logging.getLogger(__name__)
TEXT_THREADS = 2
FEW = 4  # texts whose text work takes less than handing it to a thread
RECENT = 0.2  # share of the last pass in the remembered speed


class Meter(Protocol):
    """Hears of every pass and of the queue."""

    def passed(self, lane: str, *, texts: int, tokens: int, seconds: float) -> None: ...
    def queued(self, lane: str, change: int) -> None: ...


class Answered(NamedTuple):
    """The answers for the texts of one request, and how many tokens were read for them."""

    answers: list[Any]
    tokens: int


class Job:
    """The texts of one request on their way through a pipeline."""

    def __init__(self, stages: Stages[Any, Any, Any, Any], count: int) -> None:
        self.stages = stages
        self.raws: list[Any] = [None] * count
        self.left = 0
        self.dropped = False
        self._lock = threading.Lock()  # its texts may be in several passes at a time
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()

    def put(self, place: int, raw: Any) -> None:
        """One more raw answer, from a thread of the models."""
        self.raws[place] = raw
        with self._lock:
            self.left -= 1
            last = not self.left
        if last:
            self._tell(None)

    def fail(self, problem: Exception) -> None:
        """One of its texts broke the model."""
        self.dropped = True
        self._tell(problem)

    def _tell(self, problem: Exception | None) -> None:
        def settle() -> None:
            if not self.done.done():
                self.done.set_exception(problem) if problem else self.done.set_result(None)

        self._loop.call_soon_threadsafe(settle)


class Engine:
    """Takes texts from any number of requests, answers them in shared passes."""

    def __init__(self, limits: Limits, meter: Meter, *, passes: int = 1) -> None:
        if passes < 1:
            raise ValueError(f"at least one pass must run at a time, not {passes}")
        self.limits = limits
        self._meter = meter
        self._waiting = Waiting(tokens=limits.tokens, wait=limits.wait)
        self._some = threading.Condition()  # guards `_waiting`, and tells the models' threads of any change
        self._closing = self._over = False
        self._running = 0  # passes
        self._lone = True  # the last pass was one request's, and nobody else had asked: nobody will join the next
        self._pending = 0  # texts taken and not answered; only the event loop changes it
        self._idle = asyncio.Event()  # set while `_pending` is 0
        self._idle.set()
        self._speed = 0.0  # texts a second of one thread, lately
        self._text = ThreadPoolExecutor(TEXT_THREADS, thread_name_prefix="tagsmith-text")
        self._threads = [
            threading.Thread(target=self._work, name=f"tagsmith-model-{number}", daemon=True)
            for number in range(passes)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    async def close(self) -> None:
        """Take nothing more, answer what was taken, then stop."""
        with self._some:
            self._closing = True
            self._some.notify_all()
        await self._idle.wait()
        with self._some:
            self._over = True
            self._some.notify_all()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        self._text.shutdown()

    @property
    def trouble(self) -> str | None:
        """Why it takes no work just now, or None."""
        if self._closing or not all(thread.is_alive() for thread in self._threads):
            return "the service is shutting down"
        if self._pending >= self.limits.queue:
            return f"the queue is full: {self._pending:,} texts wait"
        return None

    async def answer(
        self, lane: str, asked: Hashable, stages: Stages[Any, Any, Any, Any], items: Sequence[Any]
    ) -> Answered:
        """An answer for each item, in order."""
        self._admit(len(items))
        self._count(lane, len(items))
        job = Job(stages, len(items))
        try:
            async with asyncio.timeout(self.limits.timeout):
                tokens = await self._run(lane, asked, job, items)
                return Answered(await self._text_work(stages.finish, items, job.raws), tokens)
        except TimeoutError:
            why = f"no answer within {self.limits.timeout:g} s; send fewer texts, or ask again later"
            raise RefusedError(503, "timeout", why, retry_after=self._retry_after()) from None
        finally:
            job.dropped = True
            self._count(lane, -len(items))

    async def _run(self, lane: str, asked: Hashable, job: Job, items: Sequence[Any]) -> int:
        """Prepare, queue and wait for the last pass; returns the number of tokens."""
        ready = await self._text_work(job.stages.prepare, items)
        now = time.monotonic()
        pieces = [
            Piece(job, place, one, job.stages.tokens(one), now) for place, one in enumerate(ready) if one is not None
        ]
        if not pieces:
            return 0
        job.left = len(pieces)
        with self._some:
            for piece in pieces:
                self._waiting.add(Group(lane, asked, job.stages.shape(piece.ready)), piece)
            self._some.notify_all()
        await job.done
        return sum(piece.tokens for piece in pieces)

    async def _text_work(self, work: Callable[..., Any], items: Sequence[Any], *more: Any) -> Any:
        """Beside the models' threads either way: here if it is little, else on a thread of its own."""
        if len(items) <= FEW:
            return work(items, *more)
        return await asyncio.get_running_loop().run_in_executor(self._text, work, items, *more)

    def _admit(self, count: int) -> None:
        if self._closing:
            raise RefusedError(503, "shutting_down", "the service is shutting down; ask another one", retry_after=5)
        if self._pending + count > self.limits.queue:
            why = f"{self._pending:,} texts wait and the queue holds {self.limits.queue:,}; ask again later"
            raise RefusedError(429, "overloaded", why, retry_after=self._retry_after())

    def _count(self, lane: str, change: int) -> None:
        self._pending += change
        self._idle.clear() if self._pending else self._idle.set()
        self._meter.queued(lane, change)

    def _retry_after(self) -> int:
        """Seconds until what waits now is answered, about."""
        speed = self._speed * len(self._threads)
        return min(60, max(1, math.ceil(self._pending / speed))) if speed else 1

    def _work(self) -> None:
        """A thread of the models: pass after pass until all is over."""
        while (taken := self._next()) is not None:
            group, pieces = taken
            started = time.perf_counter()
            self._pass(pieces)
            seconds = time.perf_counter() - started
            with self._some:
                self._running -= 1
                self._lone = not (self._running or len(self._waiting)) and all(
                    one.job is pieces[0].job for one in pieces
                )
            speed = len(pieces) / max(seconds, 1e-6)
            self._speed = speed if not self._speed else (1 - RECENT) * self._speed + RECENT * speed
            tokens = sum(piece.tokens for piece in pieces)
            self._meter.passed(group.lane, texts=len(pieces), tokens=tokens, seconds=seconds)

    def _next(self) -> tuple[Group, list[Piece]] | None:
        free = time.monotonic()
        with self._some:
            while True:
                hurry = self._closing or (self._lone and not self._running)
                taken = self._waiting.take(time.monotonic(), free=free, hurry=hurry)
                if taken is not None:
                    self._running += 1
                if taken is not None or self._over:
                    return taken
                self._some.wait(self._waiting.due_in(time.monotonic(), free=free))

    def _pass(self, pieces: Sequence[Piece]) -> None:
        """One pass; where it fails, each text by itself, so that a text that breaks the model breaks no other's."""
        try:
            raws = pieces[0].job.stages.forward([piece.ready for piece in pieces])
            for piece, raw in zip(pieces, raws, strict=True):
                piece.job.put(piece.place, raw)
        except Exception as problem:  # whatever it is, the service lives on
            log.error("a pass of %d texts failed: %s", len(pieces), type(problem).__name__)
            if len(pieces) == 1:
                pieces[0].job.fail(problem)
                return
            for piece in pieces:
                self._pass([piece])
