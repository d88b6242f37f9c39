"""Workers as actors of a Ray cluster.

Actors rather than Ray Data: its checkpoints want a unique id in every row and its readers give up a block for one bad
row, while our rows need no id and a bad row keeps its place.
"""

from __future__ import annotations

import logging
import os
import socket
from contextlib import suppress
from typing import Any

from tagsmith.cluster.chunks import Chunk
from tagsmith.cluster.crew import Gone, Message
from tagsmith.cluster.maker import Maker, Setup
from tagsmith.errors import BatchError, ConfigError

PATIENCE = 10.0  # seconds for a cluster to answer at all


class RayTeam:
    """Actors, each with a core and its share of a GPU; a worker is its number."""

    def __init__(self, setup: Setup, *, address: str | None = None, gpus: float = 0.0) -> None:
        self._ray = _connected(address)
        self.setup = setup
        self._needs = {"num_cpus": 1, "num_gpus": gpus, "max_restarts": 0, "max_task_retries": 0}
        self._kind: Any = None  # of the actors
        self._actors: dict[int, Any] = {}
        self._awaited: dict[Any, int] = {}  # what each actor is doing
        self._hired = 0

    def room(self) -> int:
        """How many workers the cluster has room for now."""
        found = self._ray.cluster_resources()
        gpus = self._needs["num_gpus"]
        if gpus and found.get("GPU", 0) < gpus:
            self.close()
            raise ConfigError(
                f"--gpus-per-worker {gpus:g} asks for more GPUs than the cluster's {found.get('GPU', 0):g}"
            )
        places = found.get("CPU", 0)
        return max(1, int(min(places, found["GPU"] / gpus) if gpus else places))

    def hire(self) -> int:
        self._kind = self._kind or self._ray.remote(Maker)
        self._hired += 1
        self._actors[self._hired] = made = self._kind.options(**self._needs).remote(self.setup)
        self._awaited[made.load.remote()] = self._hired
        return self._hired

    def give(self, worker: Any, chunk: Chunk) -> None:
        self._awaited[self._actors[worker].make.remote(chunk)] = worker

    def hear(self, *, wait: bool) -> list[tuple[int, Message]]:
        some = list(self._awaited)
        ready, _ = self._ray.wait(some, num_returns=1, timeout=None if wait else 0)
        if len(some) > 1 and ready:
            ready, _ = self._ray.wait(some, num_returns=len(some), timeout=0)
        return [(self._awaited[one], self._said(one)) for one in ready]

    def _said(self, one: Any) -> Message:
        worker = self._awaited.pop(one)
        try:
            return self._ray.get(one)
        except self._ray.exceptions.RayTaskError as problem:  # a bug of ours, or a library that is not there
            return BatchError(f"a worker failed: {problem.cause}")
        except self._ray.exceptions.RayError as problem:  # it died, or its node, or what it had made was lost
            self._end(self._actors.pop(worker))
            return Gone(f"its actor ended: {str(problem).splitlines()[0]}")

    def _end(self, actor: Any) -> None:
        with suppress(Exception):  # it may have ended already
            self._ray.kill(actor)

    def close(self) -> None:
        for actor in self._actors.values():
            self._end(actor)
        self._actors.clear()
        self._awaited.clear()
        self._ray.shutdown()


def _connected(address: str | None) -> Any:
    """Ray, connected to a cluster; without an address to the one RAY_ADDRESS names, else to one of this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would call home
    try:
        import ray
    except ImportError:
        raise ConfigError("--engine ray needs Ray; install it with `pip install 'tagsmith[cluster]'`") from None
    _knock(address or os.environ.get("RAY_ADDRESS"))
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, ray.exceptions.RayError) as problem:
        said = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
        raise BatchError(f"cannot reach a Ray cluster at {address or 'this machine'}: {said}") from None
    return ray


def _knock(address: str | None) -> None:
    """An address where nobody answers is told at once; Ray itself would try for minutes."""
    place = (address or "").removeprefix("ray://")
    host, colon, port = place.rpartition(":")
    if place in ("", "auto", "local"):
        return
    if not (host and colon and port.isdecimal()):
        raise ConfigError(f"--address takes HOST:PORT, ray://HOST:PORT or auto, not {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as problem:
        raise BatchError(
            f"cannot reach a Ray cluster at {address}: {problem}; check the address, or start one: `ray start --head`"
        ) from None
