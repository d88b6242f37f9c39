"""The command that answers over HTTP: serve."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tagsmith.errors import ConfigError
from tagsmith.terminal import put, say

if TYPE_CHECKING:
    from tagsmith.service import Limits

HERE = ("127.0.0.1", "localhost", "::1")


def serve(  # noqa: PLR0913 - one for each option
    models: Annotated[
        str | None, typer.Option(help="Shipped models and folders, commas between; NAME=FOLDER renames; default: all.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 is every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    index: Annotated[str | None, typer.Option(help="An index of posts, for /nearest and the page.")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Passes at a time, a core each; default: the cores.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="TAGSMITH_TOKEN", help="Answer only who sends it; better in the environment.")
    ] = None,
    max_inputs: Annotated[int, typer.Option(min=1, help="Texts in one request, at most.")] = 256,
    max_characters: Annotated[int, typer.Option(min=1, help="Characters of one text, at most.")] = 20_000,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of one request, at most.")] = 4_000_000,
    queue: Annotated[int, typer.Option(min=1, help="Texts that may wait; beyond it the answer is 429.")] = 1024,
    wait: Annotated[float, typer.Option(min=0, help="Milliseconds that a text waits for company.")] = 5.0,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Tokens of one pass, at most.")] = 16_384,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one request, at most.")] = 30.0,
) -> int:
    """Answer over HTTP, with a page to try the models on."""
    _check_installed()
    from tagsmith.service import Limits

    limits = Limits(max_inputs, max_characters, max_body, queue, wait / 1000, batch_tokens, timeout)
    names = [name.strip() for name in models.split(",") if name.strip()] if models is not None else None
    if names == []:
        raise ConfigError(f"--models takes names with commas between, not {models!r}; leave it out for all")
    if token is not None and not token.strip():
        raise ConfigError("the token is empty; give one, or leave --token and TAGSMITH_TOKEN out")
    return _serve(names, host, port, index, threads, token, limits)


def _serve(
    names: list[str] | None,
    host: str,
    port: int,
    index: str | None,
    threads: int | None,
    token: str | None,
    limits: Limits,
) -> int:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads would be beyond --threads
    from tagsmith.service.start import listen, serve, url_of

    with listen(host, port) as bound:  # before the models: a port that is taken is told at once
        import torch

        from tagsmith.pipelines.near import open_index
        from tagsmith.service import create_app
        from tagsmith.service.served import all_shipped, load_pipelines

        passes = 1 if torch.cuda.is_available() else threads or torch.get_num_threads()
        torch.set_num_threads(1)  # of each pass
        pipelines: dict[str, Any] = load_pipelines(all_shipped() if names is None else names)
        posts = None if index is None else open_index(index)
        app = create_app(pipelines, limits=limits, token=token, index=posts, passes=passes)
        url = url_of(bound)

        def ready() -> None:
            put(json.dumps({"serving": url, "models": list(pipelines)}))
            if token is None and host not in HERE:
                say(f"anybody who reaches {host} can use this service; --token or TAGSMITH_TOKEN closes it")
            say(f"the page is at {url}/, the routes are at {url}/docs; Ctrl-C stops")

        stopped_by = serve(app, bound, grace=limits.timeout, on_ready=ready)
    say("stopped; what was taken is answered")
    return 130 if stopped_by == signal.SIGINT else 0


def _check_installed() -> None:
    """The libraries of the extra, or the command that installs them."""
    from importlib.util import find_spec

    missing = [name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"serve needs {', '.join(missing)}; install them with `pip install 'tagsmith[serve]'`")
