"""The engine: passes at a time, requests whose texts are in several of them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tagsmith.service.engine import Engine
from tagsmith.service.limits import Limits

METER: Any = SimpleNamespace(passed=lambda lane, **facts: None, queued=lambda lane, change: None)


class Stages:
    """Texts are numbers; their shape is the last digit, and what is done with them is told."""

    batch = 8

    def __init__(self, forward: Callable[[Sequence[int]], list[int]]) -> None:
        self.forward = forward

    def prepare(self, items: Sequence[int]) -> list[int]:
        return list(items)

    def shape(self, ready: int) -> int:
        return ready % 10

    def tokens(self, ready: int) -> int:
        return 1

    def finish(self, items: Sequence[int], raws: Sequence[int]) -> list[tuple[int, int]]:
        return list(zip(items, raws, strict=True))


def asked(passes: int, forward: Callable[[Sequence[int]], list[int]], requests: Sequence[Sequence[int]]) -> list[Any]:
    async def ask() -> list[Any]:
        engine = Engine(Limits(wait=0.0, queue=4096, timeout=20), METER, passes=passes)
        engine.start()
        try:
            work: Any = Stages(forward)
            return await asyncio.gather(*(engine.answer("a", (), work, texts) for texts in requests))
        finally:
            await engine.close()

    return asyncio.run(ask())


def test_so_many_passes_run_at_a_time():
    meet = threading.Barrier(2)

    def forward(texts: Sequence[int]) -> list[int]:
        meet.wait(timeout=10)  # breaks, and with it the pass, if nobody else comes
        return list(texts)

    found = asked(2, forward, [[1], [2]])
    assert [one.answers for one in found] == [[(1, 1)], [(2, 2)]]


def test_who_asks_alone_does_not_wait_for_company_and_who_does_not_does():
    together: list[list[int]] = []

    async def ask() -> None:
        engine = Engine(Limits(wait=2.0, queue=4096, timeout=20), METER, passes=1)
        engine.start()
        started, others = threading.Event(), threading.Event()

        def forward(texts: Sequence[int]) -> list[int]:
            together.append(list(texts))
            if texts == [3]:
                started.set()
                others.wait(10)
            return list(texts)

        work: Any = Stages(forward)
        try:
            begun = time.monotonic()
            for one in (1, 2):
                await engine.answer("a", (), work, [one])
            assert time.monotonic() - begun < 2.0
            first = asyncio.create_task(engine.answer("a", (), work, [3]))
            await asyncio.to_thread(started.wait, 10)
            second = asyncio.create_task(engine.answer("a", (), work, [11]))
            while not len(engine._waiting):
                await asyncio.sleep(0.01)
            others.set()
            await first
            await asyncio.gather(second, engine.answer("a", (), work, [21]))
        finally:
            await engine.close()

    asyncio.run(ask())
    assert together == [[1], [2], [3], [11, 21]]


def test_one_pass_at_a_time_is_alone():
    inside, most = 0, 0

    def forward(texts: Sequence[int]) -> list[int]:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threading.Event().wait(0.01)
        inside -= 1
        return list(texts)

    asked(1, forward, [[1], [2], [3]])
    assert most == 1


def test_a_request_in_many_passes_comes_back_whole_and_in_order():
    requests = [list(range(start, start + 200)) for start in range(0, 1000, 100)]
    found = asked(4, lambda texts: [-text for text in texts], requests)
    for texts, one in zip(requests, found, strict=True):
        assert one.answers == [(text, -text) for text in texts]
        assert one.tokens == 200


def test_a_text_that_breaks_a_pass_breaks_its_own_request_alone():
    def forward(texts: Sequence[int]) -> list[int]:
        if 13 in texts:
            raise ValueError("unlucky")
        return list(texts)

    async def ask() -> None:
        engine = Engine(Limits(wait=0.0), METER, passes=3)
        engine.start()
        work: Any = Stages(forward)
        good, bad = engine.answer("a", (), work, [3, 23, 33]), engine.answer("a", (), work, [13])
        first, second = await asyncio.gather(good, bad, return_exceptions=True)
        assert not isinstance(first, BaseException)
        assert first.answers == [(3, 3), (23, 23), (33, 33)]
        assert isinstance(second, ValueError)
        assert engine.trouble is None
        await engine.close()
        assert engine.trouble == "the service is shutting down"

    asyncio.run(ask())


def test_no_pass_at_a_time_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        Engine(Limits(), METER, passes=0)
