"""Phrases that could be keyphrases, found without knowing what a noun is: what stands between stop words and marks.

"The Fourier transform of a signal." --runs_of--> (fourier transform) (signal) --phrases_of--> the same, as phrases

Text that has no blanks between words is read letter by letter: there a phrase is a short run, or a few letters in a row
that occur again. Texts are read up to their first MOST_WORDS words, so that time and memory are bounded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Literal, NamedTuple

from tagsmith.text.scripts import EAST_ASIAN, has_east_asian
from tagsmith.text.stems import stem
from tagsmith.text.stopwords import is_stop_word
from tagsmith.text.tokenise import LETTERS

MOST_WORDS = 20_000  # read of a text, marks counted
LONGEST = 5  # words of a phrase
LONGEST_EAST_ASIAN = 6  # letters of a phrase
LONGEST_WORD = 40  # characters; what is longer is no word but a code or a link
SAME = 9  # digits by which scores are told apart; what lies beyond them is the noise of the arithmetic
Words = tuple[str, ...]

_TOKEN = re.compile(f"{LETTERS}(?:['’‐-]{LETTERS})*|[{EAST_ASIAN}]|\\S")
_POSSESSIVE = re.compile("['’]s$")


@dataclass(frozen=True, slots=True)
class Run:
    """Words that stand side by side, all of one kind of script, none of them a stop word."""

    first: int  # the place of its first word in the text, stop words and marks counted
    words: Words
    letters: bool  # True: East Asian, each word is one letter


class Found(NamedTuple):
    """A phrase, where it stands first, and how good it is."""

    words: Words
    place: int
    score: float


def runs_of(text: str) -> list[Run]:
    """The runs of the text, lower case; marks, stop words, numbers and single letters end a run."""
    runs: list[Run] = []
    place = 0
    for kind, group in groupby(_words(text), _kind):
        words = tuple(group)
        if kind != "none":
            runs.append(Run(place, words, kind == "letters"))
        place += len(words)
    return runs


def grams_of(run: Run, *, most: int) -> Iterator[tuple[int, Words]]:
    """Every 1 to `most` words in a row with their place; of East Asian letters 2 to LONGEST_EAST_ASIAN."""
    sizes = range(2, LONGEST_EAST_ASIAN + 1) if run.letters else range(1, most + 1)
    for start in range(len(run.words)):
        for size in sizes:
            if start + size <= len(run.words):
                yield run.first + start, run.words[start : start + size]


def pieces_of(run: Run) -> list[tuple[int, Words]]:
    """The run as a phrase with its place; one that is too long comes as its words, of East Asian letters as nothing."""
    if run.letters:
        return [(run.first, run.words)] if 2 <= len(run.words) <= LONGEST_EAST_ASIAN else []
    if len(run.words) <= LONGEST:
        return [(run.first, run.words)]
    return [(place, (word,)) for place, word in enumerate(run.words, run.first)]


def phrases_of(runs: Sequence[Run]) -> list[tuple[int, Words]]:
    """The candidates with their places: the runs, and what is repeated in the East Asian ones that are too long."""
    found = [piece for run in runs for piece in pieces_of(run)]
    long = [run for run in runs if run.letters and len(run.words) > LONGEST_EAST_ASIAN]
    grams = [gram for run in long for gram in grams_of(run, most=LONGEST_EAST_ASIAN)]
    counts = Counter(words for _, words in grams)
    inner = inner_grams(counts)
    return sorted([*found, *(gram for gram in grams if counts[gram[1]] > 1 and gram[1] not in inner)])


def inner_grams(counts: Mapping[Words, int]) -> set[Words]:
    """East Asian n-grams that occur only inside one that is a letter longer: mere pieces of it."""
    return {
        part
        for words, count in counts.items()
        if len(words) > 2 and has_east_asian(words[0])
        for part in (words[1:], words[:-1])
        if counts.get(part) == count
    }


def best_of(found: Iterable[Found], top: int) -> list[tuple[str, float]]:
    """The best phrases as text with their scores; of equals the one that stands first, of equal stems one."""
    answer: list[tuple[str, float]] = []
    seen: set[Words] = set()
    for words, _, score in sorted(found, key=lambda one: (-round(one.score, SAME), one.place, one.words)):
        if len(answer) == top:
            break
        stems = tuple(map(stem, words))
        if stems not in seen:
            seen.add(stems)
            answer.append((joined(words), score))
    return answer


def joined(words: Words) -> str:
    """The words as one writes them: blanks between them, none between East Asian letters."""
    pieces = [
        f" {word}" if before and not (has_east_asian(before) and has_east_asian(word)) else word
        for before, word in zip(("", *words), words, strict=False)
    ]
    return "".join(pieces)


def _words(text: str) -> Iterator[str]:
    """The first words and marks of the text, lower case."""
    tokens = (found.group().lower() for found in _TOKEN.finditer(text))
    return (_POSSESSIVE.sub("", token) for token in islice(tokens, MOST_WORDS))


def _kind(word: str) -> Literal["words", "letters", "none"]:
    """What kind of run the word may stand in."""
    if is_stop_word(word):
        return "none"
    if has_east_asian(word):
        return "letters"
    return "words" if 1 < len(word) <= LONGEST_WORD and word[0].isalnum() and not word.isdigit() else "none"
