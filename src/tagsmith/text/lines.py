"""Lists that users keep in files, one entry a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from pathlib import Path
from typing import TypeVar

from tagsmith.errors import DataError

Listed = TypeVar("Listed", bound=Sized)


def read_list(path: str | Path, make: Callable[[Iterable[str]], Listed], *, wanted: str) -> Listed:
    """What `make` makes of the lines of a UTF-8 file; `wanted` says what a line should be."""
    try:
        with Path(path).open(encoding="utf-8-sig") as lines:
            found = make(lines)
    except UnicodeDecodeError as wrong:
        where = f"{wrong.reason} at byte {wrong.start}"
        raise DataError(f"{path} is no text in UTF-8 ({where}); give {wanted} a line") from None
    except OSError as wrong:
        raise DataError(f"{path} cannot be read: {wrong.strerror or wrong}; name a file with {wanted} a line") from None
    if not len(found):
        raise DataError(f"{path} is empty; give {wanted} a line")
    return found
