"""From pipelines to a server that listens, until it is told to stop."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import uvicorn

from tagsmith.errors import ServiceError
from tagsmith.service.watch import LOGGING

MOST_CONNECTIONS = 2048  # that wait to be accepted


class Server(uvicorn.Server):
    """Tells when it listens; a signal ends it in good order, and is remembered instead of raised again."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.on_ready = on_ready
        self.stopped_by: int | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self.on_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():  # signals go to the main one
            yield
            return
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.stopped_by = self.stopped_by or sig
        super().handle_exit(sig, frame)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 takes any that is free."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as problem:
        raise ServiceError(f"there is no host {host!r} here: {problem.strerror}; try --host 127.0.0.1") from None
    found = socket.socket(family, kind, proto)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(address)
    except OSError as problem:
        found.close()
        why = f"cannot listen on {host} port {port}: {problem.strerror}; choose another with --host and --port"
        raise ServiceError(why) from None
    return found


def url_of(bound: socket.socket) -> str:
    """Where it can be reached."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_server(app: Any, *, grace: float, on_ready: Callable[[], None], logs: Any = LOGGING) -> Server:
    """A server of the application; `grace` seconds are left to what is under way when it is told to stop."""
    config = uvicorn.Config(
        app,
        log_config=logs,
        access_log=False,  # the gate writes a line for each request
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=max(1, round(grace)),
        backlog=MOST_CONNECTIONS,
        ws="none",
    )
    return Server(config, on_ready)


def serve(app: Any, bound: socket.socket, *, grace: float, on_ready: Callable[[], None]) -> int | None:
    """Serve until told to stop; returns the signal that did."""
    server = make_server(app, grace=grace, on_ready=on_ready)
    with bound:
        server.run(sockets=[bound])
    if not server.started:
        raise ServiceError("the service could not start; the lines above say why")
    return server.stopped_by
