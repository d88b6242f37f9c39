"""What the service takes, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass

from tagsmith.config import check_positive
from tagsmith.errors import ConfigError
from tagsmith.pipelines.tag import MOST_CHARACTERS


@dataclass(frozen=True)
class Limits:
    """All limits of one service; what lies beyond is refused with a sentence that names the limit."""

    inputs: int = 256  # texts in one request
    characters: int = 20_000  # of one text, its title or question among them
    body: int = 4_000_000  # bytes of one request
    queue: int = 1024  # texts taken and not answered yet
    wait: float = 0.005  # seconds without another text after which a pass begins
    tokens: int = 16_384  # of one pass, padding among them
    timeout: float = 30.0  # seconds for one request

    def __post_init__(self) -> None:
        check_positive(self, "inputs", "characters", "body", "queue", "tokens")
        if self.characters > MOST_CHARACTERS:
            raise ConfigError(f"the most characters of a text are {MOST_CHARACTERS:,}, not {self.characters:,}")
        if self.inputs > self.queue:
            raise ConfigError(
                f"a request of {self.inputs} texts does not fit a queue of {self.queue}; make the queue longer"
            )
        if not (self.timeout > 0 and self.wait >= 0):
            raise ConfigError(f"the timeout must be above 0 and the wait not below it: {self.timeout}, {self.wait}")
