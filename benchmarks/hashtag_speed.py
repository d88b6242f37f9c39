"""Posts per CPU-second of Tagsmith and its peers on one core, in one run, round by round on the same posts.

    python benchmarks/hashtag_speed.py POSTS [--model hashtag-en] [--posts 512] [--rounds 3] [--large] [--out FILE]

Each round every system tags its share of posts in turn, so that a busy machine slows all of them alike; a system's
figure is the median of its rounds. KeyBERT, being slow, gets an eighth of the posts. Up to five tags each. Memory is
the peak of a process of its own that tags 100,000 posts from a file (`--large`), and of one that tags 1,000.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from hashtag_quality import minilm_folder
from timing import per_cpu_second, told

import tagsmith
from tagsmith.data.readers import read_posts
from tagsmith.records import Post


def systems(model: str) -> dict[str, Callable[[Sequence[str]], object]]:
    """Every system made ready, as a function of a list of texts; Chinese has jieba for a peer."""
    tagger = tagsmith.load(model)
    if model.endswith("-zh"):
        import jieba.analyse

        ours = {f"tagsmith {model}": tagger.tag}
        return {**ours, "jieba": lambda texts: [jieba.analyse.extract_tags(text, topK=5) for text in texts]}
    from keybert import KeyBERT
    from yake import KeywordExtractor

    extractor = KeywordExtractor(n=3, top=5)
    bert = KeyBERT(minilm_folder())
    ngrams = {"keyphrase_ngram_range": (1, 3), "stop_words": "english", "top_n": 5}
    return {
        f"tagsmith {model}": tagger.tag,
        "YAKE": lambda texts: [extractor.extract_keywords(text) for text in texts],
        "KeyBERT": lambda texts: [bert.extract_keywords(text, **ngrams) for text in texts],
    }


def peak_megabytes(model: str, texts: Sequence[str], count: int) -> dict[str, float]:
    """Peak memory of `tagsmith tag --input` over so many posts, and its posts per CPU-second, start included."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "posts.jsonl", Path(folder) / "tags.jsonl"
        with source.open("w", encoding="utf-8") as file:
            for number, text in enumerate(islice(cycle(texts), count)):
                file.write(json.dumps({"id": number, "text": text}) + "\n")
        command = [sys.executable, "-m", "tagsmith", "tag", "--model", model]
        subprocess.run([*command, "--input", str(source), "--output", str(target)], check=True)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert sum(1 for _ in target.open(encoding="utf-8")) == count
    seconds = usage.ru_utime + usage.ru_stime
    return {"posts": count, "peak_mb": round(usage.ru_maxrss / 1024), "cpu_seconds": round(seconds, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--model", default="hashtag-en")
    parser.add_argument("--posts", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    texts = [post.text for post in islice(read_posts(args.file), args.posts) if isinstance(post, Post)]
    memory = [peak_megabytes(args.model, texts, count) for count in ((1000, 100_000) if args.large else (1000,))]
    ready = systems(args.model)
    medians = per_cpu_second(ready, texts, rounds=args.rounds, shares={"KeyBERT": 8})
    told("posts", medians, args.out, memory=memory)


if __name__ == "__main__":
    main()
