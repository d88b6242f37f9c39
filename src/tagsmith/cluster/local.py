"""Workers as processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection
from multiprocessing.connection import Connection
from typing import Any

from tagsmith.cluster.chunks import Chunk
from tagsmith.cluster.crew import Gone, Message
from tagsmith.cluster.maker import Maker, Setup


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class LocalTeam:
    """New processes, each with a pipe to this one; a worker is its end of the pipe."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._context = multiprocessing.get_context("spawn")
        self._processes: dict[Connection, Any] = {}
        self._hired = 0

    def hire(self) -> Connection:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=serve, args=(theirs, self.setup, self._hired), daemon=True)
        self._hired += 1
        with _undisturbed():
            process.start()
        theirs.close()  # so that its death is the end of the pipe
        self._processes[ours] = process
        return ours

    def give(self, worker: Any, chunk: Chunk) -> None:
        with suppress(OSError):  # it is dead: `hear` will tell
            worker.send(chunk)

    def hear(self, *, wait: bool) -> list[tuple[Connection, Message]]:
        ready: list[Any] = connection.wait(list(self._processes), None if wait else 0)
        return [(worker, self._said(worker)) for worker in ready]

    def _said(self, worker: Connection) -> Message:
        try:
            return worker.recv()
        except (EOFError, OSError):
            return self._buried(worker)

    def _buried(self, worker: Connection) -> Gone:
        process = self._processes.pop(worker)
        worker.close()
        process.join()
        code = process.exitcode
        if code is None or code >= 0:
            return Gone(f"its process ended with exit code {code}")
        return Gone(
            f"its process was ended by signal {-code}" + ("; was there too little memory?" if code == -9 else "")
        )

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
        for worker, process in self._processes.items():
            process.join()
            worker.close()
        self._processes.clear()


def serve(pipe: Connection, setup: Setup, number: int) -> None:
    """A worker's life: say that the model is loaded, then a part for each chunk, until the pipe ends."""
    maker = Maker(setup, number)
    with suppress(EOFError, OSError):  # whoever started it is gone
        pipe.send(maker.load())
        while True:
            pipe.send(maker.make(pipe.recv()))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Processes started here do not hear Ctrl-C, which a terminal sends to all: this one ends the others."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
