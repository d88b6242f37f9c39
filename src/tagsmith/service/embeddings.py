"""`POST /v1/embeddings` in the shape that clients of the OpenAI API speak."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Mapping
from typing import Any

from tagsmith.config import nearest
from tagsmith.service.desk import Desk, Result
from tagsmith.service.refused import bad_input
from tagsmith.service.tasks import PlainParameters, inputs_of

FIELDS = ("input", "model", "encoding_format", "dimensions", "user")


async def embeddings(desk: Desk, body: Mapping[str, Any]) -> tuple[dict[str, Any], Result]:
    """The vectors of one text or of several, as numbers or as base64 of little-endian 32-bit floats."""
    for name in body:
        if name not in FIELDS:
            raise bad_input(f"the body has no field {name!r:.60}; {nearest(name, FIELDS)}")
    if "input" not in body:
        raise bad_input("the body has no field 'input'; give a text or a list of texts")
    how = body.get("encoding_format", "float")
    if how not in ("float", "base64"):
        raise bad_input(f"encoding_format must be 'float' or 'base64', not {how!r:.60}")
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        raise bad_input("model must be the name of a model")
    inputs = inputs_of(body["input"], desk.limits.inputs)
    if not all(isinstance(one, str) for one in inputs):
        raise bad_input("input must be a text or a list of texts; ids of tokens are of another model")
    result = await desk.answer("embed", inputs, PlainParameters(model))
    for place, one in enumerate(result.answers):
        if one.error is not None:
            raise bad_input(f"input[{place}]: {one.error}")
        if body.get("dimensions") not in (None, len(one.vector)):
            raise bad_input(f"this model has {len(one.vector)} dimensions and no others; leave 'dimensions' out")
    data = [
        {"object": "embedding", "index": place, "embedding": _encoded(one.vector, how)}
        for place, one in enumerate(result.answers)
    ]
    usage = {"prompt_tokens": result.tokens, "total_tokens": result.tokens}
    return {"object": "list", "data": data, "model": model or result.models[0], "usage": usage}, result


def _encoded(vector: tuple[float, ...], how: str) -> list[float] | str:
    if how == "float":
        return list(vector)
    return base64.b64encode(array("f", vector).tobytes()).decode("ascii")
