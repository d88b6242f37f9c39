"""Find the titles of tagged documents again, which their files run into the abstract.

    python benchmarks/extract_titles.py DATA OUT

DATA/extract/SET/*.jsonl.zst are words with BIO labels; DATA/keyphrase/SET has the same documents with their titles.
A document whose letters begin with a known title and go on with its abstract gets `title_tokens`. OUT/extract/SET gets
all rows, as they are where no title was found; one line of counts is printed for each file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tagsmith.data.readers import BadRow, read_rows
from tagsmith.data.writers import RowWriter
from tagsmith.records.given import BRACKETS

AHEAD = 30  # letters of the abstract that must follow


def letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    return (dict(row) for row in read_rows(path) if not isinstance(row, BadRow))


def known_titles(folder: Path) -> dict[str, list[str]]:
    """Titles as letters, by the letters that title and abstract begin with."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.jsonl.zst")):
        for row in rows_of(path):
            title, body = letters(row.get("title") or ""), letters(row.get("abstract") or row.get("text") or "")
            if title and body:
                found.setdefault((title + body)[:AHEAD], []).append(title)
    return found


def title_length(words: list[str], titles: dict[str, list[str]]) -> int | None:
    """How many words are the title."""
    plain = [letters(BRACKETS.get(word, word)) for word in words]
    for title in titles.get("".join(plain)[:AHEAD], []):
        so_far = ""
        for place, word in enumerate(plain):
            if so_far == title:
                return place
            so_far += word
    return None


def main() -> None:
    data, out = map(Path, sys.argv[1:3])
    for folder in sorted((data / "extract").iterdir()):
        titles = known_titles(data / "keyphrase" / folder.name)
        (out / "extract" / folder.name).mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.glob("*.jsonl.zst")):
            counts = {"rows": 0, "titles": 0}
            with RowWriter(out / "extract" / folder.name / path.name) as writer:
                for row in rows_of(path):
                    length = None if "ABSTRACT" in row["tokens"][:60] else title_length(row["tokens"], titles)
                    counts["rows"] += 1
                    counts["titles"] += length is not None
                    writer.write(row if length is None else {**row, "title_tokens": length})
            print(json.dumps({"file": f"{folder.name}/{path.name}", **counts}))


if __name__ == "__main__":
    main()
