"""A closed list of tokens and their numbers, with room for the words a model copies from one text.

ids:  0 [PAD]   1 [UNK]   2 [END]   3 [SEP]   4 .. len - 1 by frequency   len + i: the text's i-th unknown token
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tagsmith.errors import BundleError, ConfigError

PAD, UNK, END, SEP = 0, 1, 2, 3
SPECIALS = ("[PAD]", "[UNK]", "[END]", "[SEP]")


class Vocabulary:
    """A frozen list of tokens, the special ones first."""

    def __init__(self, tokens: Sequence[str]) -> None:
        if tuple(tokens[: len(SPECIALS)]) != SPECIALS:
            raise ConfigError(f"a vocabulary begins with {', '.join(SPECIALS)}, not with {list(tokens[:4])}")
        self._tokens = tuple(tokens)
        self._ids = {token: number for number, token in enumerate(self._tokens)}
        if len(self._ids) != len(self._tokens):
            twice = next(token for token, times in Counter(tokens).items() if times > 1)
            raise ConfigError(f"a vocabulary holds each token once, but {twice!r} is in it twice; drop one")

    @classmethod
    def count(cls, token_lists: Iterable[Sequence[str]], size: int, minimum: int = 1) -> Vocabulary:
        """The `size` most frequent tokens, special ones included; of equally frequent ones the alphabetical first."""
        if size < len(SPECIALS):
            raise ConfigError(f"a vocabulary has room for its {len(SPECIALS)} special tokens at least, not for {size}")
        times: Counter[str] = Counter()
        for tokens in token_lists:
            times.update(tokens)
        known = [token for token, number in times.items() if number >= minimum and token not in SPECIALS]
        known.sort(key=lambda token: (-times[token], token))
        return cls((*SPECIALS, *known[: size - len(SPECIALS)]))

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """The numbers of the tokens; an unknown one is UNK."""
        return [self._ids.get(token, UNK) for token in tokens]

    def tokens(self, ids: Iterable[int], extra: Sequence[str] = ()) -> list[str]:
        """The tokens of the numbers; `extra` names those past the end."""
        size = len(self._tokens)
        return [self._tokens[number] if number < size else extra[number - size] for number in ids]

    def extended_ids(self, tokens: Iterable[str]) -> tuple[list[int], list[str]]:
        """Numbers for a source text, unknown tokens past the end by first occurrence, and the names of those."""
        places: dict[str, int] = {}
        ids = []
        for token in tokens:
            number = self._ids.get(token)
            ids.append(len(self) + places.setdefault(token, len(places)) if number is None else number)
        return ids, list(places)

    def target_ids(self, tokens: Iterable[str], extra: Sequence[str]) -> list[int]:
        """Numbers for a target whose source text had the unknown tokens `extra`; others are UNK."""
        places = {token: len(self) + place for place, token in enumerate(extra)}
        return [self._ids.get(token, places.get(token, UNK)) for token in tokens]

    def save(self, path: Path) -> None:
        """Write one token a line, as JSON strings so that odd blanks survive."""
        lines = [json.dumps(token, ensure_ascii=not token.isprintable()) for token in self._tokens]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read what `save` wrote."""
        try:
            tokens = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
            return cls(tokens)
        except FileNotFoundError:
            raise BundleError(
                f"there is no vocabulary {path}; the model folder is incomplete, fetch it again"
            ) from None
        except (ValueError, TypeError, ConfigError) as problem:
            raise BundleError(f"{path} is no vocabulary, one JSON string a line: {problem}") from None

    def __len__(self) -> int:
        return len(self._tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._ids
