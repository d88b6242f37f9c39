"""The application: routes over a desk of models.

POST /tag /embed /reply /classify /answer /extract /nearest     {"inputs", "parameters"} -> rows
POST /v1/embeddings                                             the OpenAI shape
GET  /health /ready /info /metrics /docs /openapi.json          for operators
GET  /                                                          the page
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

import tagsmith
from tagsmith.service.body import Json, read_object
from tagsmith.service.desk import Desk, Result
from tagsmith.service.embeddings import embeddings
from tagsmith.service.engine import Engine
from tagsmith.service.gate import Gate
from tagsmith.service.info import info, route_schema
from tagsmith.service.limits import Limits
from tagsmith.service.pages import FILES, STATIC
from tagsmith.service.refused import RefusedError
from tagsmith.service.served import served
from tagsmith.service.tasks import TASKS
from tagsmith.service.watch import Metrics

Answer = Callable[[Mapping[str, Any]], Awaitable[tuple[Any, Result]]]


def create_app(
    pipelines: Mapping[str, Any],
    *,
    limits: Limits | None = None,
    token: str | None = None,
    index: Any = None,
    passes: int = 1,
) -> FastAPI:
    """The service of these pipelines, by name; with a `token` it answers only who knows it.

    `index` is a `PostIndex` for /nearest; `passes` run at a time, each with as many threads as torch is told.
    """
    metrics = Metrics()
    engine = Engine(limits or Limits(), metrics, passes=passes)
    desk = Desk([served(name, pipeline) for name, pipeline in pipelines.items()], engine, index=index)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine.start()
        try:
            await desk.warm_up()
            yield
        finally:
            await engine.close()

    app = FastAPI(
        title="Tagsmith",
        summary="Short text in, the words people would file it under out.",
        version=tagsmith.__version__,
        docs_url=None,  # those load scripts from elsewhere; ours is at /docs
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(Gate, metrics=metrics, token=token)
    app.add_exception_handler(HTTPException, _no_route)
    _add_tasks(app, desk)
    _add_operations(app, desk, metrics)
    _add_pages(app)
    return app


def _add_tasks(app: FastAPI, desk: Desk) -> None:
    def handler(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            rows, result = await answer(await read_object(request, desk.limits))
            request.state.facts = {
                "models": list(result.models),
                "inputs": len(result.answers),
                "characters": result.characters,
                "tokens": result.tokens,
            }
            return Json(rows)

        return handle

    def of_route(route: str) -> Answer:
        return lambda body: desk.rows(route, body)

    for route, task in TASKS.items():
        app.add_api_route(
            f"/{route}",
            handler(of_route(route)),
            methods=["POST"],
            summary=task.about,
            name=route,
            openapi_extra=route_schema(route),
        )
    app.add_api_route(
        "/v1/embeddings",
        handler(lambda body: embeddings(desk, body)),
        methods=["POST"],
        summary="Vectors in the OpenAI shape.",
        name="embeddings",
        openapi_extra=route_schema("v1/embeddings"),
    )


def _add_operations(app: FastAPI, desk: Desk, metrics: Metrics) -> None:
    @app.get("/health", summary="The process lives.")
    async def health() -> Response:
        return Json({"status": "ok"})

    @app.get("/ready", summary="The service takes work.")
    async def ready() -> Response:
        if desk.engine.trouble:
            raise RefusedError(503, "not_ready", desk.engine.trouble, retry_after=1)
        return Json({"status": "ready"})

    @app.get("/info", summary="Models, routes, parameters and limits.")
    async def about() -> Response:
        return Json(info(desk))

    @app.get("/metrics", summary="Metrics for Prometheus.")
    async def all_metrics() -> Response:
        return Response(metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(STATIC / "index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return FileResponse(STATIC / "docs.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def file(name: str) -> Response:
        if name not in FILES:
            raise HTTPException(404)
        return FileResponse(STATIC / name, media_type=FILES[name])


async def _no_route(request: Request, problem: Exception) -> Response:
    """Paths and methods that there are not, in the shape of every other error."""
    status = problem.status_code if isinstance(problem, HTTPException) else 500
    headers = problem.headers if isinstance(problem, HTTPException) else None
    if status == 405:
        why, kind = f"this path does not take {request.method}; /docs shows what it takes", "wrong_method"
    elif status == 404:
        why, kind = "there is no such path; /docs lists the routes", "unknown_route"
    else:
        why, kind = "the request cannot be read", "bad_request"
    return Json({"error": why, "error_type": kind}, status, headers)
