"""Write the card of a shipped model: data, licence, what was measured, and its unpicked answers to thirty posts.

    python benchmarks/model_card.py hashtag-en --quality results.jsonl --speed speed.json

`--quality` has lines of `hashtag_quality.py`, `--speed` is the result of `hashtag_speed.py`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import tagsmith
from tagsmith.bundle import SHIPPED, annotate_bundle, describe_bundle

ABOUT = {
    "hashtag-en": {
        "text": "Hashtags for English posts: everyday posts, titles and questions as well as public affairs.",
        "data": "Tweets of members of the US Congress and public accounts, finance, crises (congresstweets, stocknet, "
        "CrisisLex, datastories: MIT); everyday tweets, community titles, quotes, recipes, questions, talks, videos, "
        "films and art (tweeteval, reddit-top-2.5-million: public domain, TAKG and CMKP: MIT, tategallery and "
        "tidytuesday: CC0, and smaller public collections, mostly without a stated licence).",
        "recipe": "recipes/hashtag/hashtag-en.toml",
        "limits": "It knows the tags of 2011-2023 best and writes few it has not seen. Posts of one or two words get a "
        "guess. Tags follow their authors: opinions in the training posts are in the tags too.",
    },
    "hashtag-zh": {
        "text": "Hashtags for Chinese posts: a headline for a news item, the usual tag for a user's post.",
        "data": "Weibo hot topics with the post that introduces them and users' posts (weibo-trending-hot-history, "
        "weibo-hot-hub, Poll-Question-Generation, TAKG, HashtagGeneration: MIT).",
        "recipe": "recipes/hashtag/hashtag-zh.toml",
        "limits": "Tags of news items are short headlines it writes itself: check names and numbers in the post.",
    },
}


def quality_table(lines: list[dict[str, object]]) -> str:
    """One row for each test file and part."""
    rows = ["| test | posts | F1@1 | F1@5 | F1@5, five tags | P@1 | R@10 | ROUGE-1 | unseen tags found |"]
    rows.append("|---|---|---|---|---|---|---|---|---|")
    for line in lines:
        name = str(line["test"])
        parts = {"all": line, **dict(line.get("parts", {}))}  # type: ignore[call-overload]
        for part, scores in parts.items():
            keys = ("f1@1", "f1@5", "f1@5_full", "p@1", "r@10", "rouge1", "unseen_r@10")
            cells = (f"{100 * scores[key]:.1f}" if key in scores else "–" for key in keys)
            rows.append(f"| {name}, {part} | {scores['n']:,} | {' | '.join(cells)} |")
    return "\n".join(rows)


def examples(name: str) -> str:
    """Thirty posts and the tags the model gives them, whatever they are."""
    file = Path(tagsmith.__file__).parent / "samples" / f"everyday-{name.split('-')[1]}.txt"
    posts = file.read_text(encoding="utf-8").splitlines()
    answers = tagsmith.load(name).tag(posts)
    rows = ["| post | tags |", "|---|---|"]
    for post, answer in zip(posts, answers, strict=True):
        rows.append(f"| {post} | {' '.join('#' + tag.text for tag in answer.tags)} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(ABOUT))
    parser.add_argument("--quality", type=Path, required=True)
    parser.add_argument("--speed", type=Path, required=True)
    args = parser.parse_args()
    about, folder = ABOUT[args.name], SHIPPED / args.name
    lines = [json.loads(line) for line in args.quality.read_text(encoding="utf-8").splitlines()]
    own = [line for line in lines if line["system"] == f"tagsmith:{args.name}"]
    speed = json.loads(args.speed.read_text(encoding="utf-8"))
    per_second = speed["posts_per_cpu_second"][f"tagsmith {args.name}"]
    described = describe_bundle(folder)
    card = f"""# {args.name}

{about["text"]}

- **Trained on:** {about["data"]}
- **Made by:** `tagsmith train {about["recipe"]}`; weights are int8 rows with fp16 scales.
- **Speed:** {per_second} posts per CPU-second on one core, {described.megabytes} MB on disk
  (`benchmarks/hashtag_speed.py`; processors differ, compare ratios).
- **Licence:** Apache-2.0 for the weights; the texts they were trained on stay with their authors and are not included.
- **Limits:** {about["limits"]}

## Quality

Percent, on posts not trained on (`benchmarks/hashtag_quality.py tagsmith:{args.name}`). F1@5 is of the tags it
returns by itself, at most five; the column beside it of its first five.

{quality_table(own)}

## Thirty posts, unpicked

{examples(args.name)}
"""
    score = {f"{line['test']} f1@1": round(line["f1@1"], 4) for line in own}
    score |= {f"{line['test']} rouge1": round(line["rouge1"], 4) for line in own}
    annotate_bundle(folder, card=card, measured={"score": score, "posts_per_cpu_second": per_second})


if __name__ == "__main__":
    main()
