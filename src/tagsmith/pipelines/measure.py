"""One system over a file of texts, in a process of its own: `python -m tagsmith.pipelines.measure NAME KIND TOP FILE`.

Lines of JSON on stdout tell what happens, in this order; `tagsmith.pipelines.alone` reads them:

    {"load_seconds": 1.2}                                loaded, and asked once to be warm
    {"phrases": ["..."]}                                 for each text
    {"cpu_seconds": 3.4, "peak_megabytes": 120.5}        the end
    {"error": "..."}                                     or this, after which nothing comes

The file holds no gold. The process ends when its stdin does, so that it never outlives the one that asked.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from tagsmith.errors import TagsmithError
from tagsmith.pipelines.systems import Item, System, load_system
from tagsmith.records import Document, Post

Tell = Callable[[dict[str, Any]], None]


def main(arguments: Sequence[str]) -> None:
    """Measure and tell."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is talk

    def tell(event: dict[str, Any]) -> None:
        told.write(json.dumps(event) + "\n")
        told.flush()

    name, kind, top, file = arguments
    try:
        measure(name, lambda: items_of(Path(file), kind), int(top), tell)
    except TagsmithError as problem:
        tell({"error": str(problem)})


def measure(name: str, items: Callable[[], Iterator[Item]], top: int, tell: Tell) -> None:
    """Load the system, ask it everything, and tell what it said and what it took."""
    start = time.perf_counter()
    system = load_system(name, items, top=top)
    system.answer(list(islice(items(), 1)))
    tell({"load_seconds": time.perf_counter() - start})
    seconds = _ask(system, items(), tell)
    tell({"cpu_seconds": seconds, "peak_megabytes": peak_megabytes()})


def _ask(system: System, items: Iterator[Item], tell: Tell) -> float:
    """CPU seconds of answering alone; reading and telling are not counted."""
    seconds = 0.0
    while some := list(islice(items, system.at_once)):
        start = time.process_time()
        answers = system.answer(some)
        seconds += time.process_time() - start
        for phrases in answers:
            tell({"phrases": phrases})
    return seconds


def items_of(file: Path, kind: str) -> Iterator[Item]:
    """The posts or documents of a file that `alone` wrote."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield Document(row["text"], title=row["title"]) if kind == "documents" else Post(row["text"])


def peak_megabytes() -> float | None:
    """The most memory this process has held at once; None where the system does not tell."""
    status = Path("/proc/self/status")
    # not getrusage on Linux: a new process inherits the peak of the one that started it
    found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text()) if status.exists() else None
    if found:
        return int(found[1]) * 1024 / 1e6
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6  # bytes there, kilobytes elsewhere


def _leave_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
