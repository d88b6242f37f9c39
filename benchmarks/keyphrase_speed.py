"""Abstracts per CPU-second of Tagsmith and its peers on one core, in one run, round by round on the same abstracts.

    python benchmarks/keyphrase_speed.py DOCUMENTS [--model extract-en] [--documents 256] [--rounds 3] [--out FILE]

A system's figure is the median of its rounds; KeyBERT, being slow, gets an eighth of the abstracts. Ten phrases each.
Also the CPU time of an abstract of about 150 words by itself, and that of a document of 20,000 words with its memory.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from hashtag_quality import minilm_folder
from timing import per_cpu_second, told

import tagsmith
from tagsmith.data.readers import read_documents
from tagsmith.records import Document

LONG = 20_000  # words


def systems(tag: Callable[[Sequence[str]], object], model: str) -> dict[str, Callable[[Sequence[str]], object]]:
    """Every system made ready, as a function of a list of texts."""
    from keybert import KeyBERT
    from yake import KeywordExtractor

    extractor = KeywordExtractor(n=3, top=10)
    bert = KeyBERT(minilm_folder())
    ngrams = {"keyphrase_ngram_range": (1, 3), "stop_words": "english", "top_n": 10}
    return {
        f"tagsmith {model}": tag,
        "YAKE": lambda texts: [extractor.extract_keywords(text) for text in texts],
        "KeyBERT": lambda texts: [bert.extract_keywords(text, **ngrams) for text in texts],
    }


def alone(tag: Callable[[Sequence[str]], object], texts: Sequence[str]) -> dict[str, float]:
    """Milliseconds of CPU time of one abstract by itself, the median of seven, and seconds of a very long document."""
    middling = sorted(texts, key=lambda text: abs(len(text.split()) - 150))[:8]
    tag(middling[7:])
    spent = []
    for text in middling[:7]:
        start = time.process_time()
        tag([text])
        spent.append(1000 * (time.process_time() - start))
    words = " ".join(texts).split()
    start = time.process_time()
    tag([" ".join((words * (1 + LONG // len(words)))[:LONG])])
    return {
        "words": round(statistics.mean(len(text.split()) for text in middling[:7])),
        "milliseconds": round(statistics.median(spent), 1),
        "long_words": LONG,
        "long_seconds": round(time.process_time() - start, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--model", default="keyphrase-en")
    parser.add_argument("--documents", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    tagger: Any = tagsmith.load(args.model)
    documents = [one for one in islice(read_documents(args.file), args.documents) if isinstance(one, Document)]
    texts = [f"{one.title}. {one.text}" if one.title else one.text for one in documents]
    tag = tagger.extract if isinstance(tagger, tagsmith.Reader) else tagger.tag
    single = alone(tag, texts)
    megabytes = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    medians = per_cpu_second(systems(tag, args.model), texts, rounds=args.rounds, shares={"KeyBERT": 8})
    told("documents", medians, args.out, alone=single, peak_mb_alone_and_long=megabytes)


if __name__ == "__main__":
    main()
