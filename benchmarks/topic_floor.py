"""What a linear model on word n-grams makes of the topics: the floor under the readers' tables.

    python benchmarks/topic_floor.py DATA/classify/reddit_en DATA/classify/arxiv_en ...

Each folder has train and test; title and body are read together, Chinese by characters. Needs scikit-learn.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import accuracy_score, f1_score
from sklearn.svm import LinearSVC

from tagsmith.data.readers import good, read_as
from tagsmith.records import labelled_of


def read(path: Path) -> tuple[list[str], list[str]]:
    """Texts and their labels."""
    rows = list(good(read_as(labelled_of, path), print))
    return [f"{row.title} {row.text}" for row in rows], [row.label or "" for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    for folder in parser.parse_args().folders:
        chinese = folder.name.endswith("_zh")
        grams = TfidfVectorizer(
            analyzer="char" if chinese else "word", ngram_range=(1, 2), sublinear_tf=True, min_df=2, lowercase=True
        )
        texts, labels = read(folder / "train.jsonl.zst")
        model = LinearSVC().fit(grams.fit_transform(texts), labels)
        texts, labels = read(folder / "test.jsonl.zst")
        found = model.predict(grams.transform(texts))
        scores = {"accuracy": accuracy_score(labels, found), "macro_f1": f1_score(labels, found, average="macro")}
        print(json.dumps({"system": "n-grams", "test": f"classify/{folder.name}", "n": len(labels), **scores}))


if __name__ == "__main__":
    main()
