"""Do posts with the same tag lie near each other: a model's vectors and those of all-MiniLM-L6-v2, on the same posts.

    python benchmarks/embed_quality.py MODEL [MODEL ...] --test FILE [--posts 4000] [--pairs 200000] [--out FILE]

AUC is of the cosine, over as many pairs of posts that share a tag as of pairs that do not, drawn at random (all pairs
that share one, where those are fewer than half of `--pairs`). Of each post that shares a tag with any other, the ten
nearest are looked up: which share of them has a tag of the post, and has any of them one. Beside it the best that any
vectors could reach, as most tags have fewer than ten other posts, and what chance reaches. Posts per CPU-second are of
one core, the systems taking turns block by block.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

for name in ("OMP", "MKL", "OPENBLAS", "RAYON"):
    os.environ[f"{name}_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
import torch
from hashtag_quality import minilm_folder
from numpy.typing import NDArray
from rank_table import names_of, sample

from tagsmith.pipelines.embed import Embedder
from tagsmith.records import Post
from tagsmith.text.hashtags import key

Floats = NDArray[np.float32]
Pairs = NDArray[np.int64]  # (pairs, 2): places of posts
System = Callable[[Sequence[str]], Floats]
NEAREST, BLOCK, WARM = 10, 500, 64
SEED = 0


@dataclass(frozen=True)
class Questions:
    """What the vectors are asked."""

    same: Pairs  # share a tag
    other: Pairs  # do not
    partners: list[set[int]]  # of each post, those that share a tag with it


def questions(posts: Sequence[Post], pairs: int) -> Questions:
    """The pairs to tell apart, and the posts to find."""
    tagged: defaultdict[str, set[int]] = defaultdict(set)
    for place, post in enumerate(posts):
        for tag in post.tags:
            tagged[key(tag)].add(place)
    every = sorted({pair for places in tagged.values() for pair in combinations(sorted(places), 2)})
    partners: list[set[int]] = [set() for _ in posts]
    for one, two in every:
        partners[one].add(two)
        partners[two].add(one)
    chance = np.random.default_rng(SEED)
    same = chance.permutation(np.array(every, np.int64).reshape(-1, 2))[: pairs // 2]
    other: list[tuple[int, int]] = []
    while len(other) < len(same):
        one, two = map(int, chance.integers(len(posts), size=2))
        if one != two and two not in partners[one]:
            other.append((one, two))
    return Questions(same, np.array(other, np.int64).reshape(-1, 2), partners)


def auc(vectors: Floats, asked: Questions) -> float:
    """How often a pair that shares a tag is nearer than one that does not."""
    from sklearn.metrics import roc_auc_score

    cosines = [(vectors[pairs[:, 0]] * vectors[pairs[:, 1]]).sum(1) for pairs in (asked.same, asked.other)]
    return float(roc_auc_score([1] * len(asked.same) + [0] * len(asked.other), np.concatenate(cosines)))


def neighbours(vectors: Floats, partners: Sequence[set[int]]) -> dict[str, float]:
    """Of the posts that have partners: their share among the ten nearest, and of posts with one there."""
    shares = []
    for start in range(0, len(vectors), BLOCK):
        cosines = vectors[start : start + BLOCK] @ vectors.T  # (block, posts)
        for row, cosine in enumerate(cosines):
            cosine[start + row] = -np.inf  # not itself
            if partners[start + row]:
                near = np.argpartition(-cosine, NEAREST)[:NEAREST]
                shares.append(len(partners[start + row].intersection(near.tolist())) / NEAREST)
    return {"share_of_10": float(np.mean(shares)), "any_of_10": float(np.mean(np.array(shares) > 0))}


def limits(partners: Sequence[set[int]]) -> dict[str, float]:
    """The best possible share of ten, and chance's."""
    counts = np.array([len(each) for each in partners if each])
    chance = counts / (len(partners) - 1)
    return {
        "best_share_of_10": float(np.minimum(counts, NEAREST).mean() / NEAREST),
        "chance_share_of_10": float(chance.mean()),
        "chance_any_of_10": float((1 - (1 - chance) ** NEAREST).mean()),
        "posts_with_partners": len(counts),
    }


def minilm() -> System:
    """all-MiniLM-L6-v2 as sentence-transformers runs it."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(minilm_folder(), device="cpu")
    return lambda texts: model.encode(list(texts), batch_size=64, normalize_embeddings=True, show_progress_bar=False)


def embed_all(systems: dict[str, System], texts: Sequence[str]) -> dict[str, tuple[Floats, float]]:
    """Vectors and posts per CPU-second of each system, taking turns."""
    made: dict[str, list[Floats]] = {name: [] for name in systems}
    seconds = dict.fromkeys(systems, 0.0)
    for start in range(0, len(texts), BLOCK):
        for name, system in systems.items():
            system(texts[:WARM])  # the turn before was another's: its memory is in the caches
            begun = time.process_time()
            made[name].append(system(texts[start : start + BLOCK]))
            seconds[name] += time.process_time() - begun
    return {name: (np.concatenate(made[name]).astype(np.float32), len(texts) / seconds[name]) for name in systems}


def show(result: dict[str, Any]) -> None:
    """The figures as a Markdown table."""
    print(f"{result['posts']:,} posts, {result['posts_with_partners']:,} share a tag; {result['pairs']:,} pairs\n")
    print(
        "| vectors | width | AUC | same tag among 10 nearest | any | posts per CPU-second |\n|---|---|---|---|---|---|"
    )
    for name, row in result["systems"].items():
        cells = (f"{row['auc']:.3f}", f"{100 * row['share_of_10']:.1f}", f"{100 * row['any_of_10']:.1f}")
        print(f"| {name} | {row['width']} | {' | '.join(cells)} | {row['posts_per_cpu_second']:,.0f} |")
    print(f"| best possible | – | 1.000 | {100 * result['best_share_of_10']:.1f} | 100.0 | – |")
    chance = f"{100 * result['chance_share_of_10']:.1f} | {100 * result['chance_any_of_10']:.1f}"
    print(f"| chance | – | 0.500 | {chance} | – |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="folders of bundles, or names of shipped models")
    parser.add_argument("--test", required=True)
    parser.add_argument("--posts", type=int, default=4000, help="an even sample of test")
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    posts = sample(args.test, args.posts)
    asked = questions(posts, args.pairs)
    systems: dict[str, System] = {name: Embedder.load(path).embed for path, name in names_of(args.models).items()}
    systems["all-MiniLM-L6-v2"] = minilm()
    result: dict[str, Any] = {"posts": len(posts), "pairs": 2 * len(asked.same), **limits(asked.partners)}
    result["systems"] = {
        name: {"width": vectors.shape[1], "auc": auc(vectors, asked), **neighbours(vectors, asked.partners)}
        | {"posts_per_cpu_second": round(speed, 1)}
        for name, (vectors, speed) in embed_all(systems, [post.text for post in posts]).items()
    }
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    show(result)


if __name__ == "__main__":
    main()
