"""Where requests become work: which model, which records, in which order the answers go back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tagsmith.config import nearest
from tagsmith.service.engine import Engine
from tagsmith.service.limits import Limits
from tagsmith.service.refused import RefusedError, bad_input, too_long
from tagsmith.service.served import Served, how_to_load
from tagsmith.service.tasks import TASKS, Chance, inputs_of, parameters_of, record_of, stages_of, texts_of
from tagsmith.text.language import language_of

INDEX = "index"  # the model of /nearest
FIRST: dict[str, Any] = {
    **dict.fromkeys(TASKS, "a first text"),
    "answer": {"question": "what is this?", "context": "a first text"},
}


@dataclass(frozen=True)
class Result:
    """What was answered: records in the order of the inputs, and what they took."""

    answers: list[Any]
    models: tuple[str, ...]
    tokens: int
    characters: int


class Desk:
    """The models of a service, asked by route."""

    def __init__(self, models: Sequence[Served], engine: Engine, *, index: Any = None) -> None:
        self.models = {one.name: one for one in models}
        self.engine = engine
        self.index = index
        self._chance = Chance()

    @property
    def limits(self) -> Limits:
        return self.engine.limits

    def of_route(self, route: str) -> list[Served]:
        """The models that answer a route, in the order they were named."""
        if route == "nearest":
            return [] if self.index is None else [Served(INDEX, "near", "", {route: self.index})]
        return [one for one in self.models.values() if route in one.pipelines]

    def load_hint(self, route: str) -> str:
        """The command that loads a model for a route."""
        if route == "nearest":
            return "tagsmith serve --index FOLDER"
        return how_to_load(route, list(self.models))

    async def warm_up(self) -> None:
        """A first text through every model, so that the first client need not wait; narrow limits may refuse it."""
        for route in TASKS:
            for model in self.of_route(route):
                name = None if route == "nearest" else model.name
                with suppress(RefusedError):
                    await self.answer(route, [FIRST[route]], TASKS[route].parameters(model=name))

    async def rows(self, route: str, body: Mapping[str, Any]) -> tuple[Any, Result]:
        """The rows for `{"inputs", "parameters"}`: a list for a list, an object for one input."""
        for name in body:
            if name not in ("inputs", "parameters"):
                raise bad_input(f"the body has no field {name!r:.60}; {nearest(name, ['inputs', 'parameters'])}")
        if "inputs" not in body:
            raise bad_input("the body has no field 'inputs'; give a text, an object, or a list of them")
        asked = parameters_of(route, body.get("parameters") or {})
        inputs = inputs_of(body["inputs"], self.limits.inputs)
        alone = not isinstance(body["inputs"], list)
        result = await self.answer(route, inputs, asked, alone=alone)
        rows = [TASKS[route].row(one) for one in result.answers]
        if alone and rows[0]["error"] is not None:
            raise bad_input(f"inputs: {rows[0]['error']}")
        return (rows[0] if alone else rows), result

    async def answer(self, route: str, inputs: Sequence[Any], asked: Any, *, alone: bool = False) -> Result:
        """An answer for each input, in order; each by the model asked for, or by the one of its language."""
        characters = self._check_lengths(inputs, alone=alone)
        if getattr(asked, "seed", 0) is None:
            asked = replace(asked, seed=self._chance.seed())
        places: dict[str, list[int]] = {}
        chosen: dict[str, Served] = {}
        for place, given in enumerate(inputs):
            model = self._model_for(route, asked.model, given)
            chosen[model.name] = model
            places.setdefault(model.name, []).append(place)
        work = []
        for name, own in places.items():
            model = chosen[name]
            records = [record_of(model.task, inputs[place], _named(place, alone=alone)) for place in own]
            stages = stages_of(model.pipelines[route], route, asked)
            work.append((f"{name}/{route}", asked, stages, records))
        answers: list[Any] = [None] * len(inputs)
        tokens = 0
        for own, found in zip(places.values(), await _together(self.engine, work), strict=True):
            tokens += found.tokens
            for place, one in zip(own, found.answers, strict=True):
                answers[place] = one
        return Result(answers, tuple(places), tokens, characters)

    def _check_lengths(self, inputs: Sequence[Any], *, alone: bool) -> int:
        total = 0
        for place, given in enumerate(inputs):
            count = sum(map(len, texts_of(given)))
            if count > self.limits.characters:
                most = self.limits.characters
                raise too_long(f"{_named(place, alone=alone)} has {count:,} characters, the most is {most:,}; cut it")
            total += count
        return total

    def _model_for(self, route: str, name: str | None, given: Any) -> Served:
        """The model of that name, or the first one for the language of the text, or the first one."""
        models = self.of_route(route)
        if not models:
            what = "index of posts" if route == "nearest" else f"model for /{route}"
            why = f"no {what} is loaded; load one with `{self.load_hint(route)}`"
            raise RefusedError(404, "no_model", why)
        if name is not None:
            found = next((one for one in models if one.name == name), None)
            if found is None:
                loaded = ", ".join(one.name for one in models)
                raise RefusedError(404, "unknown_model", f"/{route} has no model {name!r:.80}; loaded: {loaded}")
            return found
        if len(models) == 1:
            return models[0]
        language = language_of(" ".join(texts_of(given)))
        return next((one for one in models if one.language == language), models[0])


async def _together(engine: Engine, work: Sequence[tuple[Any, ...]]) -> list[Any]:
    """All parts of one request; the first problem is the answer to all of it."""
    try:
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(engine.answer(*one)) for one in work]
    except ExceptionGroup as several:
        raise several.exceptions[0] from None
    return [part.result() for part in parts]


def _named(place: int, *, alone: bool) -> str:
    return "inputs" if alone else f"inputs[{place}]"
