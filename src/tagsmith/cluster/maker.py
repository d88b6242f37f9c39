"""A worker's side: the model loaded once, chunks in, parts out. What goes wrong is given back, not raised."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tagsmith.cluster.chunks import Chunk, Part
from tagsmith.cluster.job import Format, Job, checksums
from tagsmith.data.writers import RowWriter
from tagsmith.errors import BatchError, TagsmithError
from tagsmith.pipelines.work import Ask, Work, work_of


@dataclass(frozen=True)
class Ready:
    """The model is loaded."""


@dataclass(frozen=True)
class Setup:
    """What a worker must know."""

    ask: Ask
    sums: tuple[tuple[str, str], ...]
    format: Format
    gpu: bool = True  # may be used where there is one

    @classmethod
    def of(cls, job: Job, *, gpu: bool = True) -> Setup:
        return cls(job.ask, tuple(sorted(job.sums.items())), job.format, gpu)


class Maker:
    """Makes parts."""

    def __init__(self, setup: Setup, number: int = 0) -> None:
        self.setup = setup
        self.number = number
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._work: Work | None = None

    def load(self) -> Ready | TagsmithError:
        """Load the model; one thread, because there is a worker for each core."""
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        if not self.setup.gpu:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        try:
            import torch

            torch.set_num_threads(1)
            if torch.cuda.is_available():
                torch.cuda.set_device(self.number % torch.cuda.device_count())
            if checksums(self.setup.ask) != dict(self.setup.sums):
                return BatchError(
                    f"{self.setup.ask.model}, or a file asked for with it, is another one on {socket.gethostname()} "
                    f"than where the job was started; put the same files on every machine"
                )
            self._work = work_of(self.setup.ask)
        except Exception as problem:
            return _told(problem, f"a worker cannot load {self.setup.ask.model}")
        return Ready()

    def make(self, chunk: Chunk) -> Part | TagsmithError:
        """The answers of a chunk, as the bytes of a file."""
        start = time.process_time()
        try:
            rows, errors, data = self._written(chunk)
        except Exception as problem:
            return _told(problem, f"a worker failed on chunk {chunk.place.chunk} of input file {chunk.place.file}")
        return Part(chunk.place, rows, errors, data, round(time.process_time() - start, 3), self.name)

    def _written(self, chunk: Chunk) -> tuple[int, int, bytes]:
        work: Any = self._work
        rows = errors = 0
        with tempfile.TemporaryDirectory(prefix="tagsmith-") as folder:
            path = Path(folder) / f"part.{self.setup.format}"
            with RowWriter(path, schema=work.schema) as writer:
                for _, answer in work.answers(chunk.rows):
                    writer.write(work.row(answer))
                    rows += 1
                    errors += answer.error is not None
            return rows, errors, path.read_bytes()


def _told(problem: Exception, what: str) -> TagsmithError:
    """Our own errors as they are; anything else by its name and words."""
    if isinstance(problem, TagsmithError):
        return problem
    return BatchError(f"{what}: {type(problem).__name__}: {problem}")
