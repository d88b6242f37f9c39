"""Write the card of a shipped model: data, licence, what was measured, and its unpicked answers to thirty posts.

    python benchmarks/model_card.py hashtag-en --quality results.jsonl --speed speed.json

| | `--quality` has lines of | `--speed` is the result of |
|---|---|---|
| hashtag-en, hashtag-zh | `hashtag_quality.py` | `hashtag_speed.py` |
| tags-en | `rank_table.py` | `rank_speed.py` |
| embed-en | `embed_quality.py` | `rank_speed.py` of tags-en, whose weights it shares |
| keyphrase-en | `keyphrase_table.py` | `keyphrase_speed.py` |
| reply-en, reply-zh | `reply_table.py` | `reply_speed.py` |
| extract-en, topic-en, topic-zh, answer-en | `reader_table.py measure` | the same |
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import tagsmith
from tagsmith.bundle import SHIPPED, annotate_bundle, describe_bundle
from tagsmith.records import Document, Question

SAMPLES = Path(tagsmith.__file__).parent / "samples"

TWEETS = (
    "Tweets of members of the US Congress and public accounts, finance, crises (congresstweets, stocknet, "
    "CrisisLex, datastories: MIT); everyday tweets, community titles, quotes, recipes, questions, talks, videos, "
    "films and art (tweeteval, reddit-top-2.5-million: public domain, TAKG and CMKP: MIT, tategallery and "
    "tidytuesday: CC0, and smaller public collections, mostly without a stated licence)."
)
NOT_FOR = (
    "A small model of chit-chat: it knows no facts, says false things fluently, and may say unkind ones, as people do "
    "in what it was trained on. A person must read a reply before it is sent. It must not be used to answer people "
    "unattended, to pose as a person, to advise on health, law, money or safety, or to post at scale. `--block` keeps "
    "words out; it is no filter of meaning."
)
ABOUT = {
    "hashtag-en": {
        "text": "Hashtags for English posts: everyday posts, titles and questions as well as public affairs.",
        "data": TWEETS,
        "recipe": "recipes/hashtag/hashtag-en.toml",
        "limits": "It knows the tags of 2011-2023 best and writes few it has not seen. Posts of one or two words get a "
        "guess. Tags follow their authors: opinions in the training posts are in the tags too.",
    },
    "hashtag-zh": {
        "text": "Hashtags for Chinese posts: a headline for a news item, the usual tag for a user's post.",
        "data": "Weibo hot topics with the post that introduces them and users' posts (weibo-trending-hot-history, "
        "weibo-hot-hub, Poll-Question-Generation, TAKG, HashtagGeneration: MIT).",
        "recipe": "recipes/hashtag/hashtag-zh.toml",
        "limits": "Tags of news items are short headlines it writes itself: check names and numbers in the post. It "
        "was trained before a step became a random sample of posts: a new run of the recipe gives a similar model.",
    },
    "tags-en": {
        "text": "Known tags for English posts, ranked; its scores are chances, so few are shown where it is unsure.",
        "data": TWEETS,
        "recipe": "recipes/rank/tags-en.toml",
        "limits": "It never writes a tag it does not know; `tagsmith learn` teaches it new ones from a few posts each. "
        "Tags follow their authors: opinions in the training posts are in the tags too.",
    },
    "embed-en": {
        "text": "English posts as vectors of 256 numbers, near where people would give the same tags. Its weights are "
        "those of `tags-en`, which lies beside it.",
        "data": TWEETS,
        "recipe": "recipes/rank/tags-en.toml",
        "limits": "Near means filed alike, not said alike: for paraphrases take a sentence encoder.",
    },
    "keyphrase-en": {
        "text": "Keyphrases for English papers and abstracts: those that stand in the text, with their places, and "
        "others that people would file it under.",
        "data": "160,000 abstracts with their authors' keyphrases: ACM proceedings (public domain dedication), "
        "abstracts of many sciences from published reviews' exports, eLife (CC BY), OpenReview, a sample of KP20k, and "
        "the training parts of Inspec, SemEval-2010 and SemEval-2017; begun with all-MiniLM-L6-v2 (Apache-2.0).",
        "recipe": "recipes/keyphrase/keyphrase-en.toml",
        "limits": "It reads the title and the first 384 pieces of words; of a longer paper give the abstract. Phrases "
        "that the text lacks are right about one time in fifteen. Other kinds of text get keyphrases as a paper would.",
    },
    "extract-en": {
        "text": "Keyphrases that stand in English abstracts, with their places. It holds the backbone that `topic-en` "
        "and `answer-en` share.",
        "data": "1,350 abstracts with tagged keyphrases: the training parts of Inspec and SemEval-2017 (tagged by "
        "midas-research: MIT); begun with all-MiniLM-L6-v2 (Apache-2.0), which learned the topics of `topic-en` and "
        "the answers of `answer-en` at the same time.",
        "recipe": "recipes/reader/reader-en.toml",
        "limits": "It learned what indexers mark in abstracts of computer science and physics: many noun phrases. How "
        "keyphrases are ranked was chosen on Inspec's dev documents, and the rule was also looked at on 200 of its "
        "test documents, so that test is not wholly unseen; SemEval-2010 is.",
    },
    "topic-en": {
        "text": "The community or subject of an English text, one of 70: 40 communities of Reddit, 30 subjects of "
        "arXiv. It shares the backbone of `extract-en`, which lies beside it.",
        "data": "22,000 posts of reddit-top-2.5-million (public domain) and 19,000 arXiv abstracts (metadata: CC0).",
        "recipe": "recipes/reader/reader-en.toml",
        "limits": "A text of another kind still gets one of these labels; its score tells little then. A linear model "
        "on n-grams, trained on one of the two sets by itself, is a point behind. Train your own labels with "
        "`tagsmith train --task classify`.",
    },
    "answer-en": {
        "text": "Answers to English questions: the piece of the passage that answers, or none. It shares the backbone "
        "of `extract-en`, which lies beside it.",
        "data": "45,500 questions: SQuAD 1.1 and 2.0 dev articles and SQuADShifts (CC BY-SA 4.0), PolicyQA (MIT).",
        "recipe": "recipes/reader/reader-en.toml",
        "limits": "It notices that a passage has nothing to do with the question, but seldom that a question is a "
        "trap, as those of SQuAD 2.0 are: one in eighteen of the questions it learned from is one. It finds names, "
        "numbers and phrases; it does not reason, and knows nothing but the passage.",
    },
    "topic-zh": {
        "text": "The topic of a Chinese headline, one of 15 sections of a news site.",
        "data": "9,000 headlines with keywords of TNEWS, whose terms allow research; the weights are meant for trying "
        "out: ask before you build a product on them. Begun with ERNIE 3.0 nano (Apache-2.0).",
        "recipe": "recipes/reader/topic-zh.toml",
        "limits": "News sections alone, and they overlap (finance and technology, travel and culture). A linear model "
        "on n-grams is level with it.",
    },
    "reply-en": {
        "text": "Replies to English posts: several different ones, each with a score.",
        "data": "340,000 pairs of English chit-chat: self-dialogue corpus (BSD-3-Clause), chit-chat (MIT), CMU-DoG and "
        "Topical-Chat (CDLA-Sharing).",
        "recipe": "recipes/reply/reply-en.toml",
        "limits": f"{NOT_FOR} It talks most readily about films, music and sports, as the people it learned from did.",
    },
    "reply-zh": {
        "text": "Replies to Chinese posts: several different ones, each with a score.",
        "data": "64,000 pairs of Chinese conversations: parts of LCCC-base (MIT) and KdConv (Apache-2.0).",
        "recipe": "recipes/reply/reply-zh.toml",
        "limits": f"{NOT_FOR} Longer replies often lose their thread: it learned from few pairs.",
    },
}


class Card(NamedTuple):
    """What one kind of model adds to its card."""

    script: str  # that measured the speed
    per_second: float
    score: dict[str, float]
    text: str


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


def rank_table(lines: list[dict[str, Any]], name: str) -> str:
    """One row for each part of each test file."""
    rows = ["| test | posts | P@1 | R@10 | mean rank |", "|---|---|---|---|---|"]
    for line in lines:
        if line["system"] == name:
            for part, scores in {"all": line, **line.get("parts", {})}.items():
                cells = f"{100 * scores['p@1']:.1f} | {100 * scores['r@10']:.1f} | {scores['mean_rank']:.0f}"
                rows.append(f"| {line['test']}, {part} | {scores['n']:,} | {cells} |")
    return "\n".join(rows)


def vector_table(result: dict[str, Any]) -> str:
    """The model beside the encoder most people take."""
    rows = ["| vectors | AUC | same tag among 10 nearest | any of 10 | posts per CPU-second |", "|---|---|---|---|---|"]
    for name, row in result["systems"].items():
        cells = (f"{row['auc']:.3f}", f"{100 * row['share_of_10']:.1f} %", f"{100 * row['any_of_10']:.1f} %")
        rows.append(f"| {name} | {' | '.join(cells)} | {row['posts_per_cpu_second']:,.0f} |")
    return "\n".join(rows)


def examples(name: str) -> str:
    """Thirty posts and the tags the model gives them, whatever they are."""
    posts = _everyday(name)
    answers = tagsmith.load(name).tag(posts)
    rows = ["| post | tags |", "|---|---|"]
    for post, answer in zip(posts, answers, strict=True):
        rows.append(f"| {post} | {' '.join('#' + tag.text for tag in answer.tags)} |")
    return "\n".join(rows)


def hashtag_card(name: str, quality: Path, speed: Path) -> Card:
    """Of a model that writes tags."""
    own = [line for line in _lines(quality) if line["system"] == f"tagsmith:{name}"]
    score = {f"{line['test']} f1@1": round(line["f1@1"], 4) for line in own}
    score |= {f"{line['test']} rouge1": round(line["rouge1"], 4) for line in own}
    per_second = _json(speed)["posts_per_cpu_second"][f"tagsmith {name}"]
    text = f"""Percent, on posts not trained on (`benchmarks/hashtag_quality.py tagsmith:{name}`). F1@5 is of the
tags it returns by itself, at most five; the column beside it of its first five.

{quality_table(own)}

## Thirty posts, unpicked

{examples(name)}
"""
    return Card("hashtag_speed.py", per_second, score, text)


def rank_card(name: str, quality: Path, speed: Path) -> Card:
    """Of a model that ranks known tags."""
    own = [line for line in _lines(quality) if line["system"] == name]
    score = {f"{line['test']} p@1": round(line["p@1"], 4) for line in own}
    per_second = _json(speed)["posts_per_cpu_second"][f"{name} tag"]
    labels = len(json.loads((SHIPPED / name / "labels.json").read_text(encoding="utf-8")))
    text = f"""It knows {labels:,} tags. Percent, on posts not trained on (`benchmarks/rank_table.py {name}`); RW and
FW are the 2,000 posts with most and with fewest words outside the 20,000 most frequent.

{rank_table(own, name)}

## Thirty posts, unpicked

{examples(name)}
"""
    return Card("rank_speed.py", per_second, score, text)


def vector_card(name: str, quality: Path, speed: Path) -> Card:
    """Of a model that makes vectors."""
    result = _json(quality)
    score = {"auc of a shared tag": round(result["systems"][name]["auc"], 4)}
    per_second = _json(speed)["posts_per_cpu_second"]["tags-en embed"]
    text = f"""On {result["posts"]:,} posts not trained on (`benchmarks/embed_quality.py {name}`): how often a pair of
posts that share a tag is nearer than a pair that do not, and which share of a post's ten nearest has one of its tags
(at best {100 * result["best_share_of_10"]:.1f} %, by chance {100 * result["chance_share_of_10"]:.1f} %).

{vector_table(result)}
"""
    return Card("rank_speed.py", per_second, score, text)


def phrase_table(lines: list[dict[str, Any]]) -> str:
    """One row for each test file."""
    metrics = ("present_f1@5", "present_f1@10", "present_f1@M", "absent_f1@5", "absent_f1@M")
    rows = [f"| test | documents | {' | '.join(metrics)} | phrases |", "|---" * (len(metrics) + 3) + "|"]
    for line in lines:
        cells = " | ".join(f"{100 * line[name]:.1f}" for name in metrics)
        rows.append(f"| {line['test']} | {line['n']:,} | {cells} | {line['predicted']:.1f} |")
    return "\n".join(rows)


def phrase_card(name: str, quality: Path, speed: Path) -> Card:
    """Of a model that writes keyphrases."""
    own = [line for line in _lines(quality) if line["row"] == name]
    shown = [line for line in own if line["test"] in STANDARD]
    score = {f"{line['test']} present f1@5": round(line["present_f1@5"], 4) for line in shown}
    per_second = _json(speed)["documents_per_cpu_second"][f"tagsmith {name}"]
    file = SAMPLES / f"papers-{name.split('-')[1]}.jsonl"
    papers = [Document(row["text"], title=row["title"]) for row in _lines(file)]
    answers = ["| paper | keyphrases |", "|---|---|"]
    for paper, answer in zip(papers, tagsmith.load(name).tag(papers), strict=True):
        phrases = (tag.text if tag.kind == "present" else f"*{tag.text}*" for tag in answer.tags)
        answers.append(f"| {paper.title or paper.text[:60] + '...'} | {', '.join(phrases)} |")
    listed = "\n".join(answers)
    text = f"""Percent, on documents not trained on (`benchmarks/keyphrase_table.py run {name}`); F1 is the harmonic
mean of mean precision and mean recall on stems, @M of all phrases it returns by itself.

{phrase_table(own)}

## Five abstracts, unpicked

They are `samples/papers-en.jsonl`; phrases in italics do not stand in the text.

{listed}
"""
    return Card("keyphrase_speed.py", per_second, score, text)


def reply_card(name: str, quality: Path, speed: Path) -> Card:
    """Of a model that replies."""
    own = [line for line in _lines(quality) if line["row"] == name]
    score = {f"{line['test']} hit_r": round(line["hit_r"], 4) for line in own if line["way"] == "drawn"}
    score |= {f"{line['test']} bleu2": round(line["bleu2"], 4) for line in own if line["way"] == "drawn"}
    per_second = _json(speed)["replies_per_cpu_second"]["reply"]
    heads = ("bleu2", "p2", "hit_q", "hit_r", "dist1", "dist2", "copy_rate", "repetition_rate")
    rows = [f"| test | way | queries | {' | '.join(heads)} |", "|---" * (len(heads) + 3) + "|"]
    for line in own:
        cells = " | ".join(f"{100 * line[metric]:.1f}" for metric in heads)
        rows.append(f"| {line['test']} | {line['way']} | {line['n']:,} | {cells} |")
    table = "\n".join(rows)
    text = f"""Percent, one reply to each query (`benchmarks/reply_table.py run {name}`; `docs/models/relevance.md` says
what the measures are). `drawn` is what it does by itself: the best of eight draws, where what is likely whatever the
query counts against a reply.

{table}

## Thirty posts, unpicked

The first reply of seed 1 to each.

{spoken(name)}
"""
    return Card("reply_speed.py", per_second, score, text)


def spoken(name: str) -> str:
    """Thirty posts and the first reply the model gives them, whatever it is."""
    posts = _everyday(name)
    answers = tagsmith.load(name).reply(posts, seed=1, top=1)  # type: ignore[union-attr]
    rows = ["| post | reply |", "|---|---|"]
    rows += [f"| {post} | {answer.replies[0].text} |" for post, answer in zip(posts, answers, strict=True)]
    return "\n".join(rows)


def read_card(name: str, quality: Path, speed: Path) -> Card:
    """Of a model that reads a text by the light of another."""
    own = [line for line in _lines(quality) if line["system"] == name]
    task = describe_bundle(SHIPPED / name).task
    heads, told = READ[task]
    score = {f"{Path(line['test']).name} {heads[0]}": round(line[heads[0]], 4) for line in own if heads[0] in line}
    rows = [f"| test | rows | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    for line in own:
        cells = " | ".join(f"{100 * line[head]:.1f}" if head in line else "–" for head in heads)
        rows.append(f"| {line['test']} | {line['n']:,} | {cells} |")
    table = "\n".join(rows)
    text = f"""Percent, on texts not trained on (`benchmarks/reader_table.py measure {name}`). {told}

{table}

## Samples, unpicked

{READ_SAMPLES[task](name)}
"""
    return Card("reader_table.py measure", round(own[0]["texts_per_cpu_second"], 1), score, text)


def labelled(name: str) -> str:
    """Thirty posts and the label the model thinks likeliest."""
    posts = _everyday(name)
    rows = ["| post | label | score |", "|---|---|---|"]
    for post, answer in zip(posts, tagsmith.load(name).classify(posts, top=1), strict=True):  # type: ignore[union-attr]
        rows.append(f"| {post} | {answer.labels[0].label} | {answer.labels[0].score:.2f} |")
    return "\n".join(rows)


def extracted(name: str) -> str:
    """Five abstracts and their keyphrases."""
    papers = [Document(row["text"], title=row["title"]) for row in _lines(SAMPLES / "papers-en.jsonl")]
    rows = ["| paper | keyphrases |", "|---|---|"]
    for paper, answer in zip(papers, tagsmith.load(name).extract(papers), strict=True):  # type: ignore[union-attr]
        phrases = ", ".join(tag.text for tag in answer.tags)
        rows.append(f"| {paper.title or paper.text[:60] + '...'} | {phrases} |")
    return "\n".join(rows)


def answered(name: str) -> str:
    """Twelve questions about these abstracts and what was found."""
    questions = [Question(row["question"], row["context"]) for row in _lines(SAMPLES / "questions-en.jsonl")]
    rows = ["| question | passage | answer |", "|---|---|---|"]
    for one, found in zip(questions, tagsmith.load(name).answer(questions), strict=True):  # type: ignore[union-attr]
        answer = found.answers[0].text if found.answers else "none"
        rows.append(f"| {one.question} | {one.context[:40]}... | {answer} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(ABOUT))
    parser.add_argument("--quality", type=Path, required=True)
    parser.add_argument("--speed", type=Path, required=True)
    args = parser.parse_args()
    about, folder = ABOUT[args.name], SHIPPED / args.name
    described = describe_bundle(folder)
    made = CARDS[described.task](args.name, args.quality, args.speed)
    card = f"""# {args.name}

{about["text"]}

- **Trained on:** {about["data"]}
- **Made by:** `tagsmith train {about["recipe"]}`; weights are int8 rows with fp16 scales.
- **Speed:** {made.per_second} texts per CPU-second on one core, {described.megabytes} MB on disk
  (`benchmarks/{made.script}`; processors differ, compare ratios).
- **Licence:** Apache-2.0 for the weights; the texts they were trained on stay with their authors and are not included.
- **Limits:** {about["limits"]}

## Quality

{made.text}"""
    annotate_bundle(folder, card=card, measured={"score": made.score, "posts_per_cpu_second": made.per_second})


def _everyday(name: str) -> list[str]:
    return (SAMPLES / f"everyday-{name.split('-')[1]}.txt").read_text(encoding="utf-8").splitlines()


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


STANDARD = ("inspec", "krapivin", "semeval2010")  # the tests that README names
CARDS = {
    "hashtag": hashtag_card,
    "rank": rank_card,
    "embed": vector_card,
    "keyphrase": phrase_card,
    "reply": reply_card,
    "extract": read_card,
    "classify": read_card,
    "answer": read_card,
}
READ = {  # which metrics, the first of them for README, and what they are
    "extract": (
        ("present_f1@5", "present_f1@10", "present_f1@M", "span_f1", "stem_f1"),
        "The first three count distinct phrases by their stems, best first (@M: all it returns); span_f1 counts exact "
        "places, which in the files under `keyphrase` are wherever a keyphrase's words stand.",
    ),
    "classify": (("accuracy", "macro_f1"), "One label for each text."),
    "answer": (
        ("f1_answerable", "em_answerable", "no_answer_accuracy", "f1", "em"),
        "Exact match and F1 of words; half of these questions have no answer, and none of "
        "those that are asked elsewhere, of other passages (`--elsewhere`). How much better than none an answer must "
        "be is set so that nine tenths of the F1 on questions with an answer remain: who asks mostly expects one.",
    ),
}
READ_SAMPLES = {"extract": extracted, "classify": labelled, "answer": answered}

if __name__ == "__main__":
    main()
