"""A system run in a process of its own, so that none disturbs another: its answers, and what they took.

texts --file--> `tagsmith.pipelines.measure` in a new process --lines of JSON--> Outcome
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tagsmith.pipelines.systems import Item
from tagsmith.records import Document


@dataclass
class Outcome:
    """What came back; `error` says why it is not all."""

    phrases: list[list[str]] = field(default_factory=list)  # for each text, best first
    load_seconds: float | None = None
    cpu_seconds: float | None = None
    peak_megabytes: float | None = None
    error: str | None = None


def write_texts(items: Iterable[Item], file: Path) -> None:
    """What the systems may see of the items: title and text, no gold."""
    with file.open("w", encoding="utf-8") as out:
        for item in items:
            row = {"title": item.title, "text": item.text} if isinstance(item, Document) else {"text": item.text}
            out.write(json.dumps(row) + "\n")  # ASCII: lone surrogates survive


def run_alone(name: str, kind: str, top: int, file: Path, on_answer: Callable[[int], None]) -> Outcome:
    """Run one system over the texts; `on_answer` hears of each answer. The process is gone when this returns."""
    words = [sys.executable, "-m", "tagsmith.pipelines.measure", name, kind, str(top), str(file)]
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile() as talk, subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=talk) as process:
        try:
            outcome = _listen(process.stdout or (), on_answer)
            code = process.wait()
        finally:
            process.kill()
        if outcome.cpu_seconds is None and outcome.error is None:
            outcome.error = _last_words(talk, code)
        return outcome


def _listen(lines: Iterable[bytes], on_answer: Callable[[int], None]) -> Outcome:
    outcome = Outcome()
    for line in lines:
        if not line.endswith(b"\n"):
            break  # it died while it wrote
        event: dict[str, Any] = json.loads(line)
        if "phrases" in event:
            outcome.phrases.append(event["phrases"])
            on_answer(1)
        else:
            for fact, value in event.items():
                setattr(outcome, fact, value)
    return outcome


def _last_words(talk: IO[bytes], code: int) -> str:
    """Why a process ended early: the signal that ended it, or the last line it said."""
    if code < 0:
        return f"its process was ended by signal {-code}" + ("; was there too little memory?" if code == -9 else "")
    talk.seek(0)
    said = talk.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(said) if line.strip()), f"its process ended with exit code {code}")
