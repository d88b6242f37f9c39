"""Measures of replies, keywords and how replies are written."""

from __future__ import annotations

import math
import random
import sys

import pytest
import sacrebleu
from nltk.translate.bleu_score import corpus_bleu

from tagsmith.errors import ConfigError
from tagsmith.metrics.replies import (
    ScoredReply,
    bleu,
    common_run,
    distinct,
    hit,
    loops,
    reply_metrics,
    tokens_of,
)
from tagsmith.text import keywords
from tagsmith.text.keywords import EnglishKeywords, count_words, keywords_of
from tagsmith.text.spoken import spoken


def test_bleu_by_hand():
    reply = ["the", "cat", "sat", "on", "the", "mat"]
    references = [["the", "cat", "is", "on", "the", "mat"], ["there", "is", "a", "cat"]]
    found = bleu([reply], [references])
    assert found.precisions == (5 / 6, 3 / 5, 1 / 4, 0.0)
    assert found.penalty == 1.0
    assert found.cumulative(2) == pytest.approx(math.sqrt(5 / 6 * 3 / 5))
    assert found.cumulative(4) == 0.0
    short = bleu([["the", "cat"]], [[["the", "cat", "sat"], ["the", "cat", "sat", "on", "the", "mat"]]])
    assert short.penalty == pytest.approx(math.exp(1 - 3 / 2))  # the closest reference has three words


def test_bleu_agrees_with_nltk_and_sacrebleu():
    chance = random.Random(3)
    letters = "abcdef"
    replies = [[chance.choice(letters) for _ in range(chance.randint(4, 12))] for _ in range(40)]
    references = [[[chance.choice(letters) for _ in range(chance.randint(4, 12))] for _ in range(3)] for _ in replies]
    found = bleu(replies, references)
    for size in (2, 3, 4):
        wanted = corpus_bleu(references, replies, weights=[1 / size] * size)
        assert found.cumulative(size) == pytest.approx(wanted, abs=1e-9)
    lines = [[" ".join(one[place]) for one in references] for place in range(3)]
    written = [" ".join(reply) for reply in replies]
    theirs = sacrebleu.corpus_bleu(written, lines, tokenize="none", smooth_method="none")
    assert found.cumulative(4) == pytest.approx(theirs.score / 100, abs=1e-6)
    assert [100 * one for one in found.precisions] == pytest.approx(theirs.precisions, abs=1e-6)


def test_variety_hits_copies_and_loops():
    assert distinct([list("aab"), list("ab")], 1) == 2 / 5
    assert distinct([list("aab"), list("ab")], 2) == 2 / 3
    assert distinct([[]], 1) == 0.0
    assert hit(frozenset("ab"), frozenset("bc")) == 0.5
    assert hit(frozenset(), frozenset("bc")) == 0.0
    assert common_run(list("xabcy"), list("zabcd")) == 3
    assert loops(["ha", "ha", "ha", "ha", "!"]) == 4
    assert loops(["so", "good", "so", "good", "so", "good"]) == 3
    assert loops(["a", "b", "c"]) == 1
    assert loops([]) == 0


def test_the_contracts_names_and_parts():
    row = ScoredReply(
        reply=tokens_of("I love ramen too!", "en"),
        query=tokens_of("I love ramen", "en"),
        references=[tokens_of("ramen is great", "en")],
        topical=frozenset({"ramen", "love"}),
        query_topical=frozenset({"ramen"}),
        reference_topical=frozenset({"ramen"}),
        parts=("iid",),
    )
    found = reply_metrics([row])
    names = "bleu2 bleu3 bleu4 p2 p3 p4 dist1 dist2 hit_q hit_r copy_rate repetition_rate n parts"
    assert list(found) == names.split()
    assert found["hit_q"] == 0.5
    assert found["parts"]["iid"]["n"] == 1
    assert reply_metrics([])["n"] == 0
    assert tokens_of("今天 好 OK", "zh") == ["今", "天", "好", "o", "k"]


def test_english_keywords_are_rare_content_words():
    counts = count_words(["the dog barks", "a dog and a cat", "my dog"])
    assert counts[0]["dog"] == 3
    found = EnglishKeywords(*counts)
    assert [word.text for word in found.words("Yeah, I think the Dog chased it!")] == ["dog", "chased"]
    assert found.words("The Dog")[0][1:] == (4, 7)
    assert found.keywords("the dog and the cat and a yak")[:2] == ["yak", "cat"]
    assert len(found.keywords("one fish eats algae while seven other whales sing louder songs")) == 5
    assert found.topical("dogs barked; the dog's bark") == {"dog", "bark"}


def test_words_are_counted_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(keywords, "MOST_WORDS", 10)
    counts, texts = count_words(f"dog word{number:c}" for number in range(97, 123))
    assert texts == 26
    assert counts["dog"] == 26
    assert len(counts) <= 11


def test_chinese_without_jieba_says_what_to_install(monkeypatch):
    keywords._jieba.cache_clear()
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(ConfigError, match=r"need jieba.*pip install 'tagsmith\[zh\]'"):
        keywords_of("zh")
    assert not keywords.has_jieba()
    keywords._jieba.cache_clear()


def test_chinese_keywords():
    found = keywords_of("zh")
    assert "成都" in found.keywords("周末一起去成都吃火锅吧")
    assert any(word.text == "成都" and (word.start, word.end) == (5, 7) for word in found.words("周末一起去成都吃火锅"))
    assert "的" not in found.topical("今天的天气")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("i think i'm late. so what? ok!", "I think I'm late. So what? Ok!"),
        ("wi-fi is in, i.e. here", "Wi-fi is in, i.e. here"),
        ("今天 i 好", "今天 I 好"),
        ("", ""),
    ],
)
def test_replies_are_written_with_capitals(given, wanted):
    assert spoken(given) == wanted
