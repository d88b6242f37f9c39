"""A service on a free port of this machine, and pipelines that do as a test tells them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import httpx

from tagsmith.records import Post, Tag, Tags
from tagsmith.service import create_app
from tagsmith.service.start import Server, listen, make_server, url_of

PATIENCE = 60  # seconds after which a test that waits has failed


@contextmanager
def serving(pipelines: dict[str, Any], *, grace: float = 30, **options: Any) -> Iterator[tuple[httpx.Client, Server]]:
    """A running service and a client for it."""
    started = threading.Event()
    server = make_server(create_app(pipelines, **options), grace=grace, on_ready=started.set, logs=None)
    bound = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        while not started.wait(0.1):
            assert thread.is_alive(), "the service did not start"
        with httpx.Client(base_url=url_of(bound), timeout=PATIENCE, trust_env=False) as client:
            yield client, server
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        bound.close()
        assert not thread.is_alive(), "the service did not stop"


def until_gone(client: httpx.Client) -> None:
    """Until nobody listens there."""
    with suppress(httpx.TransportError):
        while True:
            httpx.get(f"{client.base_url}/health", trust_env=False)


class Told:
    """A tagger that tags a text with its own words, a pass at a time when it is let."""

    task = "hashtag"
    settings = SimpleNamespace(language="en")

    def __init__(self) -> None:
        self.passes: list[list[str]] = []
        self.go = threading.Event()
        self.go.set()
        self.busy = threading.Event()  # a pass is under way

    def hold(self) -> None:
        """Passes from now on do not end."""
        self.go.clear()
        self.busy.clear()

    def stages(self, **asked: Any) -> Told:
        return self

    batch = 8

    def prepare(self, posts: list[Post]) -> list[str | None]:
        return [post.text or None for post in posts]

    def shape(self, ready: str) -> int:
        return len(ready) // 100

    def tokens(self, ready: str) -> int:
        return len(ready.split())

    def forward(self, ready: list[str]) -> list[str]:
        self.passes.append(list(ready))
        self.busy.set()
        assert self.go.wait(PATIENCE)
        if any("poison" in one for one in ready):
            raise ValueError(f"cannot digest {ready}")
        return list(ready)

    def finish(self, posts: list[Post], raws: list[str | None]) -> list[Tags]:
        return [
            Tags(tuple(Tag(word, 1.0, "absent") for word in raw.split()), id=post.id)
            if raw
            else Tags(id=post.id, error="the text is empty; give at least one word")
            for post, raw in zip(posts, raws, strict=True)
        ]
