"""Questions asked of passages that do not answer them, for files in which nearly every question has an answer."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tagsmith.records import Question


def asked_elsewhere(questions: Iterable[Question], share: float, *, seed: int = 1) -> Iterator[Question]:
    """All of them, and so large a share of them once more with another passage, every second one of the same title.

    A passage in which an answer's words stand is not taken: the question is left out then.
    """
    every = list(questions)
    yield from every
    passages = list(dict.fromkeys(one.context for one in every))
    of_title: dict[str, dict[str, None]] = defaultdict(dict)
    for one in every:
        of_title[one.title][one.context] = None
    near = {title: list(some) for title, some in of_title.items()}
    chance = random.Random(seed)
    for number, one in enumerate(chance.sample(every, round(share * len(every)))):
        other = chance.choice(near[one.title] if number % 2 else passages)
        told = [answer.text.casefold() for answer in one.answers]
        if told and other != one.context and not any(text in other.casefold() for text in told):
            yield replace(one, context=other, answers=(), impossible=True)
