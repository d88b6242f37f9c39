"""What every request passes, whatever its route: the token, headers for browsers, errors as JSON, a line in the log."""

from __future__ import annotations

import hmac
import logging
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tagsmith.service.body import Json
from tagsmith.service.refused import RefusedError
from tagsmith.service.watch import Metrics, place_of

log = logging.getLogger(__name__)
OPEN = ("/", "/docs", "/health", "/ready")  # and the files of the page: nothing to hide
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Gate:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, token: str | None) -> None:
        self.app = app
        self._metrics = metrics
        self._token = token.encode() if token else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                found = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *found]
            await send(message)

        problem: Exception | None = None
        try:
            self._check_token(scope)
            await self.app(scope, receive, send_on)
        except RefusedError as refused:
            await Json(refused.row, refused.status, refused.headers)(scope, receive, send_on)
        except Exception as found:  # a bug of ours: told without its words, which might quote a text
            problem = found
            if not status:
                row = {"error": "the service failed at this request; its log says where", "error_type": "internal"}
                await Json(row, 500)(scope, receive, send_on)
        finally:
            self._note(scope, status or 499, time.perf_counter() - started, problem)

    def _check_token(self, scope: Scope) -> None:
        if self._token is None or scope["path"] in OPEN or scope["path"].startswith("/page/"):
            return
        given = dict(scope["headers"]).get(b"authorization", b"")
        kind, _, token = given.partition(b" ")
        if kind.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
            raise RefusedError(401, "unauthorised", "the token is missing or wrong; send 'Authorization: Bearer TOKEN'")

    def _note(self, scope: Scope, status: int, seconds: float, problem: Exception | None) -> None:
        route = getattr(scope.get("route"), "path", "other")  # never the path itself, which could be anything
        self._metrics.answered(route, status, seconds)
        facts: dict[str, Any] = {"route": route, "status": status, "milliseconds": round(1000 * seconds, 1)}
        facts |= scope.get("state", {}).get("facts", {})
        if problem is not None:
            log.error("request", extra={"fields": {**facts, **place_of(problem)}})
        elif route not in OPEN or status >= 400:
            log.info("request", extra={"fields": facts})
