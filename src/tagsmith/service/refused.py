"""Requests that are not answered: a status, a kind and a sentence, always in the same shape."""

from __future__ import annotations

from typing import Any

from tagsmith.errors import ServiceError


class RefusedError(ServiceError):
    """Becomes `{"error", "error_type"}`."""

    def __init__(self, status: int, kind: str, why: str, *, retry_after: int | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.kind = kind
        self.retry_after = retry_after

    @property
    def row(self) -> dict[str, Any]:
        """The body of the response."""
        return {"error": str(self), "error_type": self.kind}

    @property
    def headers(self) -> dict[str, str]:
        """What the client should know beside it."""
        found = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return {**found, "WWW-Authenticate": "Bearer"} if self.status == 401 else found


def bad_input(why: str) -> RefusedError:
    """A body that cannot be read as what was asked for."""
    return RefusedError(422, "bad_input", why)


def too_long(why: str) -> RefusedError:
    """More than one request may hold."""
    return RefusedError(413, "too_long", why)
