"""Tags learned from a few examples against the same tags trained: what is found of them, and what it costs the rest.

    python benchmarks/learn_tags.py hold --train FILE [--tags 50] [--seed 0] --held held.txt --out without.jsonl.gz
    python benchmarks/learn_tags.py WITHOUT WITH --train FILE --test FILE --held held.txt \
        [--examples 1 5 20 100] [--most 3 4 5 6] [--limit N] --out FILE

`hold` draws tags of middling frequency (the middle half of all tags by posts), and writes their names and the training
posts that carry none of them. WITHOUT is a bundle trained on those, WITH one trained on all. WITHOUT then learns each
held-back tag from its first so many posts in train. R@10 is of the test posts with a held-back tag, counting only such
tags; P@1 is of the test posts with none, before and after learning.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from rank_table import sample

from tagsmith.bundle import Bundle, load_bundle
from tagsmith.data.readers import BadRow, read_rows
from tagsmith.data.writers import RowWriter
from tagsmith.pipelines import learn
from tagsmith.pipelines.evaluate import evaluate_tagger
from tagsmith.pipelines.load import tagger_of
from tagsmith.records import Post, post_of
from tagsmith.text.hashtags import key


def draw_tags(posts: Iterable[Post], count: int, *, seed: int) -> list[str]:
    """Tags at random out of the middle half by frequency."""
    uses = Counter(mark for post in posts for mark in {key(tag): None for tag in post.tags})
    ordered = sorted(uses, key=lambda mark: (-uses[mark], mark))
    middle = ordered[len(ordered) // 4 : len(ordered) - len(ordered) // 4]
    return sorted(random.Random(seed).sample(middle, min(count, len(middle))))


def hold(arguments: Sequence[str]) -> None:
    """The sub-command."""
    parser = argparse.ArgumentParser(prog="learn_tags.py hold", description="Hold tags back from a training file.")
    parser.add_argument("--train", required=True)
    parser.add_argument("--tags", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held", type=Path, required=True, help="where to write the tags, one a line")
    parser.add_argument("--out", required=True, help="where to write the posts without them: .jsonl, .jsonl.gz")
    args = parser.parse_args(arguments)
    rows = [row for row in read_rows(args.train) if not isinstance(row, BadRow)]
    held = draw_tags(map(post_of, rows), args.tags, seed=args.seed)
    kept = 0
    with RowWriter(args.out) as writer:
        for row in rows:
            if not set(held).intersection(map(key, post_of(row).tags)):
                writer.write(row)
                kept += 1
    args.held.write_text("".join(f"{mark}\n" for mark in held), encoding="utf-8")
    print(f"{len(held)} tags held back; {kept:,} of {len(rows):,} posts carry none of them: {args.out}")


def first_examples(train: Iterable[Post], held: set[str], count: int) -> list[Post]:
    """The first so many posts of each held-back tag, under that tag alone: no tag gets more by standing with others."""
    found: defaultdict[str, list[Post]] = defaultdict(list)
    for post in train:
        for tag in {key(tag): tag for tag in post.tags if key(tag) in held}.values():
            if len(found[key(tag)]) < count:
                found[key(tag)].append(replace(post, tags=(tag,), tag_words=(), seen=()))
    return [post for posts in found.values() for post in posts]


def scores(bundle: Bundle, with_held: Sequence[Post], others: Sequence[Post]) -> dict[str, float]:
    """How a model does on both kinds of test posts."""
    tagger = tagger_of(bundle)
    return {
        "held_r@10": evaluate_tagger(tagger, with_held)["r@10"] if with_held else 0.0,
        "others_p@1": evaluate_tagger(tagger, others)["p@1"] if others else 0.0,
    }


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for WITH, one for WITHOUT, one for each number of examples."""
    held = set(map(key, args.held.read_text(encoding="utf-8").split()))
    test = sample(args.test, args.limit)
    marked = [(post, tuple(tag for tag in post.tags if key(tag) in held)) for post in test]
    with_held = [replace(post, tags=tags, tag_words=(), seen=()) for post, tags in marked if tags]
    others = [post for post, tags in marked if not tags]
    without, trained = load_bundle(args.without), load_bundle(args.trained)
    known = held.intersection(key(words) for words in without.labels if words is not None)
    if known:
        sys.exit(f"{args.without} knows {len(known)} of the held-back tags already; train it on the file of `hold`")
    train = sample(args.train)
    top, before = scores(trained, with_held, others), scores(without, with_held, others)
    rows: list[dict[str, Any]] = [{"system": "trained with them", **top}, {"system": "without them", **before}]
    for count, most in product(args.examples, args.most):
        learn.MOST = most
        learned = learn.learn_tags(without, first_examples(train, held, count))
        after = scores(learned.bundle, with_held, others)
        facts = {"examples": sum(learned.new.values()) / max(1, len(learned.new)), "tags": len(learned.new)}
        ratio = after["held_r@10"] / top["held_r@10"] if top["held_r@10"] else None
        change = after["others_p@1"] - before["others_p@1"]
        name = f"learned, {count}" + (f", at most {most:g}" if len(args.most) > 1 else "")
        rows.append({"system": name, **after, "ratio": ratio, "p@1_change": change, **facts})
    posts = {"held_posts": len(with_held), "other_posts": len(others)}
    return [{**row, **posts} for row in rows]


def show(rows: Sequence[dict[str, Any]]) -> None:
    """The rows as a Markdown table."""
    print(f"{rows[0]['held_posts']:,} test posts with a held-back tag, {rows[0]['other_posts']:,} with none\n")
    print(
        "| model | R@10 of held-back tags | of the trained one's | P@1 of other posts | change |\n|---|---|---|---|---|"
    )
    for row in rows:
        ratio = f"{row['ratio']:.3f}" if row.get("ratio") is not None else "–"
        change = f"{100 * row['p@1_change']:+.2f}" if "p@1_change" in row else "–"
        cells = (f"{100 * row['held_r@10']:.1f}", ratio, f"{100 * row['others_p@1']:.2f}", change)
        print(f"| {row['system']} | {' | '.join(cells)} |")


def main() -> None:
    if sys.argv[1:2] == ["hold"]:
        return hold(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("without", metavar="WITHOUT", help="a bundle trained without the held-back tags")
    parser.add_argument("trained", metavar="WITH", help="a bundle trained with them")
    parser.add_argument("--train", required=True, help="all training posts; examples are taken from here")
    parser.add_argument("--test", required=True)
    parser.add_argument("--held", type=Path, required=True)
    parser.add_argument("--examples", type=int, nargs="+", default=[1, 5, 20, 100])
    parser.add_argument("--most", type=float, nargs="+", default=[learn.MOST], help="to choose it, on dev posts")
    parser.add_argument("--limit", type=int, default=None, help="an even sample of so many test posts")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    rows = measure(args)
    args.out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    show(rows)
    return None


if __name__ == "__main__":
    main()
