"""What an operator sees: metrics for Prometheus, and a line of JSON for each request, never with a word of a text."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """All metrics of one service, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        ProcessCollector(registry=own)
        self.requests = Counter("tagsmith_requests", "Requests by route and status.", ["route", "status"], registry=own)
        self.seconds = Histogram(
            "tagsmith_request_seconds", "From the first byte to the last.", ["route"], buckets=SECONDS, registry=own
        )
        self.queue = Gauge("tagsmith_queue_texts", "Texts taken and not answered yet.", ["model"], registry=own)
        self.batches = Histogram("tagsmith_batch_texts", "Texts of one pass.", ["model"], buckets=TEXTS, registry=own)
        self.passes = Histogram(
            "tagsmith_pass_seconds", "Seconds of one pass.", ["model"], buckets=SECONDS, registry=own
        )
        self.texts = Counter("tagsmith_texts", "Texts that went through a model.", ["model"], registry=own)
        self.tokens = Counter("tagsmith_tokens", "Tokens that went through a model.", ["model"], registry=own)

    def passed(self, lane: str, *, texts: int, tokens: int, seconds: float) -> None:
        """One pass of a model."""
        self.batches.labels(lane).observe(texts)
        self.passes.labels(lane).observe(seconds)
        self.texts.labels(lane).inc(texts)
        self.tokens.labels(lane).inc(tokens)

    def queued(self, lane: str, change: int) -> None:
        """So many texts more, or fewer."""
        self.queue.labels(lane).inc(change)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """One request."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def page(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self.registry)


class JsonLines(logging.Formatter):
    """One JSON object a line; fields come with `extra={"fields": {...}}`."""

    def format(self, record: logging.LogRecord) -> str:
        row: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:  # its message might quote a text
            row |= place_of(record.exc_info[1])
        return json.dumps(row, ensure_ascii=True)


def place_of(problem: BaseException) -> dict[str, str]:
    """What went wrong and where, without its words."""
    last = problem.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = f"{last.tb_frame.f_code.co_filename}:{last.tb_lineno}" if last else ""
    return {"exception": type(problem).__name__, "where": where}


LOGGING: dict[str, Any] = {  # for uvicorn, whose own lines get the same form
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "tagsmith.service.watch.JsonLines"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
    "loggers": {
        "tagsmith": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        "uvicorn": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
    },
}
