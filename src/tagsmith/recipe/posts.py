"""The posts of a recipe, and what is counted in them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tagsmith.data.readers import BadRow, good, read_posts
from tagsmith.errors import ConfigError
from tagsmith.pipelines.tag import problem
from tagsmith.recipe.settings import Recipe
from tagsmith.records import Post
from tagsmith.text.hashtags import hashtag_of, key, words_of

Report = Callable[[dict[str, Any]], None]


def train_posts(recipe: Recipe, report: Report) -> Iterator[Post]:
    """Posts to learn from; without dev files, one in twenty is held back."""
    for number, post in enumerate(_posts(recipe, recipe.data.train, report)):
        if recipe.data.dev or number % 20:
            yield post


def dev_posts(recipe: Recipe, report: Report) -> Iterator[Post]:
    """Posts to choose by."""
    if recipe.data.dev:
        yield from _posts(recipe, recipe.data.dev, report)
        return
    for number, post in enumerate(_posts(recipe, recipe.data.train, report)):
        if number % 20 == 0:
            yield post


def dev_sample(recipe: Recipe, report: Report) -> list[Post]:
    """At most `dev_posts` of them, from all over the files."""
    every = list(dev_posts(recipe, report))
    if not every:
        raise ConfigError(f"{', '.join(recipe.data.dev)}: no post with text and tags to choose by; check data.dev")
    return every[:: -(-len(every) // recipe.data.dev_posts)]


def tag_words(post: Post) -> tuple[str, ...]:
    """A post's tags as the words to be written."""
    return post.tag_words or tuple(" ".join(words_of(tag)) for tag in post.tags)


def frequent_tags(posts: Iterator[Post], count: int, *, least: int = 1) -> list[str]:
    """The tags used most, as words, each in its most frequent form."""
    if not count:
        return []
    uses: Counter[str] = Counter()
    forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for post in posts:
        for words in dict.fromkeys(tag_words(post)):
            uses[key(words)] += 1
            forms[key(words)][words.lower()] += 1
    found = (mark for mark, times in uses.most_common(count) if times >= least)
    return [forms[mark].most_common(1)[0][0] for mark in found]


def spellings(posts: Iterator[Post], *, often: int = 5) -> dict[str, str]:
    """How frequent tags are usually written, where running their words together would write them differently."""
    counts: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for post in posts:
        for tag, words in zip(post.tags, tag_words(post), strict=False):
            counts[key(tag)][(tag, words)] += 1
    found = {}
    for mark, forms in counts.items():
        (tag, words), _ = forms.most_common(1)[0]
        if forms.total() >= often and hashtag_of(words) != tag:
            found[mark] = tag
    return found


def _posts(recipe: Recipe, files: Sequence[str], report: Report) -> Iterator[Post]:
    for post in rows_of(recipe, files, read_posts, report):
        if post.tags and problem(post.text) is None:
            yield post


def rows_of(recipe: Recipe, files: Sequence[str], read: Any, report: Report) -> Iterator[Any]:
    """The records of a recipe's files that can be read; the others are reported."""
    if not files:
        raise ConfigError("data.train names no file; give at least one")

    def on_bad(row: BadRow) -> None:
        report({"kind": "bad row", "text": f"row {row.number} left out: {row.problem}"})

    for name in files:
        yield from good(read(Path(recipe.data.root) / name, rename=recipe.data.fields), on_bad)
