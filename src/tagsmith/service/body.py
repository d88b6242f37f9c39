"""Requests and responses as JSON, within limits."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tagsmith.service.limits import Limits
from tagsmith.service.refused import RefusedError, bad_input, too_long

DRAINED = 16  # so many times the limit is still read and thrown away, so that the client hears why


async def read_object(request: Request, limits: Limits) -> dict[str, Any]:
    """The JSON object of a request."""
    try:
        async with asyncio.timeout(limits.timeout):
            raw = await _read(request, limits.body)
    except TimeoutError:
        raise RefusedError(408, "timeout", f"the request did not arrive within {limits.timeout:g} s") from None
    except ClientDisconnect:
        raise RefusedError(400, "disconnected", "the client went away") from None
    try:
        given = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_number)
    except UnicodeDecodeError as problem:
        raise bad_input(f"the body is not UTF-8 (byte {problem.start}); send JSON in UTF-8") from None
    except (ValueError, RecursionError) as problem:
        where = f" at {problem.pos}" if isinstance(problem, json.JSONDecodeError) else ""
        what = problem.msg if isinstance(problem, json.JSONDecodeError) else "it cannot be read"
        raise bad_input(f"the body is not JSON: {what}{where}; send an object") from None
    if not isinstance(given, dict):
        raise bad_input('the body must be an object: {"inputs": ...}')
    return given


async def _read(request: Request, most: int) -> bytes:
    """The whole body, if it is no longer than allowed."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size <= most:
            parts.append(part)
        elif size > DRAINED * most:
            break
    if size > most:
        raise too_long(f"the request is longer than {most:,} bytes; send several requests")
    return b"".join(parts)


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


class Json(Response):
    """JSON in UTF-8; a lone surrogate of an id is escaped, as it came."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        try:
            return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:
            return json.dumps(content, separators=(",", ":")).encode()
