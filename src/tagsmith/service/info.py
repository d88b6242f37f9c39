"""What the service tells about itself: /info, and the schemas of /openapi.json."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import tagsmith
from tagsmith.service.desk import INDEX, Desk
from tagsmith.service.served import loading
from tagsmith.service.tasks import TASKS

EXAMPLES: dict[str, Any] = {
    "tag": "just landed in Tokyo, ramen time",
    "embed": ["just landed in Tokyo", "ramen time"],
    "reply": "just landed in Tokyo, ramen time",
    "classify": {"title": "Rates rise again", "body": "The bank raised its rate for the third time this year."},
    "answer": {"question": "Who won?", "context": "Ada won the final, Ben came second."},
    "extract": {"title": "Sparse attention", "abstract": "We study sparse attention for long documents."},
    "nearest": "just landed in Tokyo, ramen time",
}
TABS = {  # of the page: what a model of which task does there
    "hashtags": ("hashtag", "rank"),
    "keyphrases": ("keyphrase",),
    "extract": ("extract",),
    "topic": ("classify",),
    "answer": ("answer",),
    "reply": ("reply",),
}


def info(desk: Desk) -> dict[str, Any]:
    """Models, routes, limits, and what could be loaded beside."""
    loaded = list(desk.models)
    return {
        "version": tagsmith.__version__,
        "models": [
            {
                "name": one.name,
                "task": one.task,
                "language": one.language,
                "routes": [f"/{name}" for name in one.pipelines],
            }
            for one in desk.models.values()
        ],
        "routes": {
            f"/{route}": {
                "models": [one.name for one in desk.of_route(route) if one.name != INDEX],
                "parameters": [field.name for field in dataclasses.fields(task.parameters)],
                "ready": bool(desk.of_route(route)),
                "load": None if desk.of_route(route) else desk.load_hint(route),
            }
            for route, task in TASKS.items()
        },
        "tabs": {
            tab: {
                "models": [
                    {"name": one.name, "language": one.language} for one in desk.models.values() if one.task in tasks
                ],
                "load": loading(tasks, loaded),
            }
            for tab, tasks in TABS.items()
        },
        "limits": dataclasses.asdict(desk.limits),
        "index": None if desk.index is None else {"posts": len(desk.index)},
    }


def route_schema(route: str) -> dict[str, Any]:
    """The body of a route, as OpenAPI says it."""
    schema = _embeddings_schema() if route not in TASKS else _task_schema(route)
    errors = {
        "401": "no token, or a wrong one",
        "404": "no such model, or none loaded for this route",
        "413": "too long, or too many",
        "422": "a body that cannot be read",
        "429": "the queue is full; Retry-After says when to ask again",
    }
    error = {
        "type": "object",
        "properties": {"error": {"type": "string"}, "error_type": {"type": "string"}},
        "required": ["error", "error_type"],
    }
    return {
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {
            status: {"description": why, "content": {"application/json": {"schema": error}}}
            for status, why in errors.items()
        },
    }


def _task_schema(route: str) -> dict[str, Any]:
    kind = TASKS[route].parameters
    hints = typing.get_type_hints(kind)
    one = {"oneOf": [{"type": "string"}, {"type": "object"}]}
    names = {field.name: _type(hints[field.name]) for field in dataclasses.fields(kind)}
    return {
        "type": "object",
        "required": ["inputs"],
        "additionalProperties": False,
        "properties": {
            "inputs": {"oneOf": [*one["oneOf"], {"type": "array", "items": one}]},
            "parameters": {"type": "object", "additionalProperties": False, "properties": names},
        },
        "example": {"inputs": EXAMPLES[route]},
    }


def _embeddings_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["input"],
        "properties": {
            "input": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
            "model": {"type": "string"},
            "encoding_format": {"enum": ["float", "base64"]},
        },
        "example": {"input": EXAMPLES["embed"]},
    }


def _type(hint: Any) -> dict[str, Any]:
    """A parameter's type in the words of JSON schema."""
    names: dict[Any, dict[str, Any]] = {
        bool: {"type": "boolean"},
        int: {"type": "integer"},
        str: {"type": "string"},
        tuple: {"type": "array", "items": {"type": "string"}},
    }
    for part in (hint, typing.get_origin(hint), *typing.get_args(hint)):
        if part in names:
            return names[part]
    return {}
