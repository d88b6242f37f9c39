"""Ext.TFIDF against a worked example."""

from __future__ import annotations

import pytest

from tagsmith.models.tfidf import ExtTfidf

TEXTS = ["the cat sat", "the dog sat", "the bird sang", "the cat ran"]


def test_the_rarest_words_come_in_text_order():
    ranked = ExtTfidf(TEXTS).rank("The bird and the zebra sat")
    assert ranked[0][0] == "and zebra"  # both unknown, rarer than any word of the corpus
    assert ranked[1][0] in ("and", "zebra")


def test_a_word_of_every_text_weighs_least_and_repeats_weigh_more():
    system = ExtTfidf(TEXTS, size=1)
    assert [word for word, _ in system.rank("the cat sat sat sat")[1:]] == ["sat", "cat", "the"]


def test_scores_are_shares():
    ranked = ExtTfidf(TEXTS).rank("the cat ran")
    assert sum(score for _, score in ranked[1:]) == pytest.approx(1.0)
    assert ranked[0][1] == pytest.approx(ranked[1][1] + ranked[2][1])


def test_a_text_without_words_has_no_tag():
    assert ExtTfidf(TEXTS).rank("!!! ...") == []


def test_the_splitter_is_a_part():
    assert ExtTfidf(["大熊猫 满月"], size=1, split=str.split).rank("大熊猫 好看")[0][0] == "好看"
