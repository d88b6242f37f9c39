"""Models that rank known tags, and fastText, on the same test posts: the table of docs/models/tweet2vec.md.

    python benchmarks/rank_table.py MODEL [MODEL ...] --train FILE --test FILE [--fasttext] [--limit N] \
        [--train-limit N] --out results.jsonl

P@1, R@10 and mean rank (the best rank of a gold tag, averaged) of the whole test, of each part it names, and of two
sub-sets as the paper has them: RW, the 2,000 posts with most words outside the 20,000 most frequent of train, and FW,
the 2,000 with fewest. Weights are read as fp32: in bf16 some tags tie, which flatters the mean rank. fastText is
trained here, on one (tag, text) line for each tag of a post; on one thread, so that it comes out the same each time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tagsmith.data.readers import read_posts
from tagsmith.metrics.tags import Scored, hashtag_metrics
from tagsmith.records import Post
from tagsmith.text.hashtags import key
from tagsmith.text.normalise import normalise

LABEL = "__label__"
DIM, BUCKET = 100, 500_000  # of fastText
VOCABULARY, SUBSET = 20_000, 2000  # words that are not rare; posts of RW and of FW
METRICS = ("p@1", "r@10", "mean_rank")
PAPER = {  # on the paper's own 50,000 test posts and 2,039 tags: P@1, R@10, mean rank
    "words": {"all": (24.1, 42.8, 133), "RW": (20.4, 37.2, 167), "FW": (20.9, 41.3, 133)},
    "tweet2vec": {"all": (28.4, 48.5, 104), "RW": (32.9, 51.3, 104), "FW": (23.9, 44.2, 112)},
}
PAPER_SIZES = {"words": (3_910_000, 1528), "tweet2vec": (3_900_000, 9649)}  # parameters, seconds of an epoch
CONFIRMED = {("tweet2vec", "all", "p@1"), ("tweet2vec", "RW", "p@1")}  # all others are recalled: marked with ?


def sample(path: str | Path, limit: int | None = None) -> list[Post]:
    """The posts of a file that have tags; with a limit, so many of them, evenly spread."""
    every = [post for post in read_posts(path) if isinstance(post, Post) and post.tags]
    if not limit or limit >= len(every):
        return every
    return [every[place * len(every) // limit] for place in range(limit)]


def names_of(models: Sequence[str | Path]) -> dict[str, str]:
    """Of each model its bundle's name; where two have the same, how they were given."""
    from tagsmith.bundle import describe_bundle, find_bundle

    names = {str(model): describe_bundle(find_bundle(model)).name for model in models}
    uses = Counter(names.values())
    return {model: name if uses[name] == 1 else model for model, name in names.items()}


def rare_and_frequent(train: Iterable[Post], test: Sequence[Post]) -> tuple[list[int], list[int], list[int]]:
    """Places in test of the posts with most and with fewest unknown words, and how many each post has.

    Words are what stands between blanks; known are the most frequent ones of train. Ties go by order in the file.
    """
    counts = Counter(word for post in train for word in post.text.lower().split())
    known = {word for word, _ in counts.most_common(VOCABULARY)}
    unknown = [sum(word not in known for word in post.text.lower().split()) for post in test]
    size = min(SUBSET, len(test) // 2)
    most = sorted(range(len(test)), key=lambda place: -unknown[place])[:size]
    fewest = sorted(range(len(test)), key=lambda place: unknown[place])[:size]
    return most, fewest, unknown


def marked(test: Sequence[Post], rare: Iterable[int], frequent: Iterable[int]) -> list[Post]:
    """The test posts with RW and FW among the parts they name."""
    made = list(test)
    for name, places in (("RW", rare), ("FW", frequent)):
        for place in places:
            made[place] = replace(made[place], parts=(*made[place].parts, name))
    return made


def bundle_scores(model: str, test: Sequence[Post], posts: int | None) -> dict[str, Any]:
    """A bundle's row; an epoch has so many posts, if that is known."""
    import torch

    from tagsmith.bundle import find_bundle, load_bundle
    from tagsmith.pipelines.evaluate import evaluate_tagger
    from tagsmith.pipelines.load import tagger_of

    bundle = load_bundle(model, dtype=torch.float32)
    trained = [weight for weight in bundle.model.parameters() if weight.requires_grad]
    row: dict[str, Any] = {"parameters": sum(weight.numel() for weight in trained)}
    log = find_bundle(model).parent / "metrics.jsonl"
    events = map(json.loads, log.read_text(encoding="utf-8").splitlines()) if log.exists() else ()
    speeds = [event["posts_per_second"] for event in events if event.get("posts_per_second")]
    if speeds and posts:
        row["seconds_per_epoch"] = round(posts / statistics.median(speeds), 1)
    return {**row, **wanted(evaluate_tagger(tagger_of(bundle), test))}


def wanted(scores: dict[str, Any]) -> dict[str, Any]:
    """The measures of the table."""
    parts = {name: wanted(part) for name, part in scores.get("parts", {}).items()}
    return {**{name: scores[name] for name in (*METRICS, "n")}, **({"parts": parts} if parts else {})}


def line_of(text: str) -> str:
    """A text as fastText gets it."""
    return " ".join(normalise(text).lower().split())


def train_fasttext(train: Iterable[Post], *, epochs: int = 5, lr: float = 0.5) -> Any:
    """Supervised, word bigrams, full softmax."""
    import fasttext

    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "train.txt"
        with lines.open("w", encoding="utf-8") as file:
            for post in train:
                file.writelines(f"{LABEL}{key(tag)} {line_of(post.text)}\n" for tag in post.tags)
        options = {"dim": DIM, "wordNgrams": 2, "loss": "softmax", "bucket": BUCKET, "thread": 1, "verbose": 0}
        return fasttext.train_supervised(str(lines), epoch=epochs, lr=lr, **options)


def fasttext_scores(train: Sequence[Post], test: Sequence[Post], *, lr: float) -> dict[str, Any]:
    """fastText's row."""
    model = train_fasttext(train, lr=lr)
    rows = len(model.get_words()) + BUCKET + len(model.get_labels())
    row = {"system": "fastText", "lr": lr, "parameters": rows * DIM}
    return {**row, **wanted(hashtag_metrics(_fasttext_scored(model, test)))}


def _fasttext_scored(model: Any, test: Sequence[Post]) -> Iterator[Scored]:
    """All labels ranked. `predict` adds 1e-5 to every weight before its logarithm, so that small ones tie."""
    labels = [label.removeprefix(LABEL) for label in model.get_labels()]
    places = {label: place for place, label in enumerate(labels)}
    output = model.get_output_matrix()  # (tags, width)
    for post in test:
        scores = output @ model.get_sentence_vector(line_of(post.text))  # (tags,)
        best = max((scores[places[key(tag)]] for tag in post.tags if key(tag) in places), default=float("-inf"))
        predicted = [labels[place] for place in (-scores).argsort(kind="stable")[:10]]
        yield Scored(predicted, post.tags, parts=post.parts, rank=1 + int((scores > best).sum()))


def show(rows: Sequence[dict[str, Any]], unknown: dict[str, float]) -> None:
    """The rows as a Markdown table, the paper's beneath."""
    print(
        "| system | parameters | s/epoch | part | posts | P@1 | R@10 | mean rank |\n|---|---|---|---|---|---|---|---|"
    )
    for row in rows:
        for part, scores in {"all": row, **row.get("parts", {})}.items():
            first = part == "all"
            name = f"{row['system']}, lr {row['lr']}" if "lr" in row else row["system"]
            facts = (name, f"{row['parameters']:,}", f"{row.get('seconds_per_epoch', '–')}")
            cells = f"{100 * scores['p@1']:.1f} | {100 * scores['r@10']:.1f} | {scores['mean_rank']:.1f}"
            print(f"| {' | '.join(facts if first else ('', '', ''))} | {part} | {scores['n']:,} | {cells} |")
    for name, parts in PAPER.items():
        parameters, seconds = PAPER_SIZES[name]
        for part, figures in parts.items():
            facts = (f"paper: {name}", f"{parameters:,}", f"{seconds:,}?") if part == "all" else ("", "", "")
            marks = ("" if (name, part, metric) in CONFIRMED else "?" for metric in METRICS)
            cells = " | ".join(f"{figure}{mark}" for figure, mark in zip(figures, marks, strict=True))
            print(f"| {' | '.join(facts)} | {part} | {50_000 if part == 'all' else SUBSET:,} | {cells} |")
    print("\nThe paper's figures are of its own posts and tags; those marked ? are recalled, not confirmed.")
    print("Unknown words of a post, on average: " + ", ".join(f"{name} {mean}" for name, mean in unknown.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="folders of bundles, or names of shipped models")
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--fasttext", action="store_true", help="also train and measure fastText")
    parser.add_argument("--lr", type=float, nargs="+", default=[0.5], help="of fastText; a row for each")
    parser.add_argument("--limit", type=int, default=None, help="an even sample of so many test posts")
    parser.add_argument("--train-limit", type=int, default=None, help="and of train posts, to try things out")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    train, test = sample(args.train, args.train_limit), sample(args.test, args.limit)
    rare, frequent, counts = rare_and_frequent(train, test)
    subsets = {"all": range(len(test)), "RW": rare, "FW": frequent}
    unknown = {name: round(statistics.mean(counts[place] for place in places), 2) for name, places in subsets.items()}
    test = marked(test, rare, frequent)
    epoch = None if args.train_limit else len(train)
    names = names_of(args.models)
    rows = [{"system": name, **bundle_scores(model, test, epoch)} for model, name in names.items()]
    if args.fasttext:
        rows += [fasttext_scores(train, test, lr=lr) for lr in args.lr]
    with args.out.open("w", encoding="utf-8") as file:
        for row in rows:
            facts = {"test": Path(args.test).parent.name, "train_posts": len(train), "unknown_words": unknown}
            file.write(json.dumps({**row, **facts}) + "\n")
    show(rows, unknown)


if __name__ == "__main__":
    main()
