"""The baselines of `tagsmith compare`: worked examples, and texts that are hard on them."""

from __future__ import annotations

import math
import random
import time
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from tagsmith.models.gramtfidf import GramTfidf
from tagsmith.models.nounphrases import NounPhrases
from tagsmith.models.singlerank import SingleRank
from tagsmith.models.textrank import TextRank
from tagsmith.models.wordgraph import DAMPING, page_rank, word_scores
from tagsmith.text.candidates import LONGEST_WORD, MOST_WORDS, Found, Run, best_of, grams_of, phrases_of, runs_of
from tagsmith.text.stopwords import STOP_WORDS, is_stop_word

ABSTRACT = (  # the example of the TextRank paper
    "Compatibility of systems of linear constraints over the set of natural numbers\n"
    "Criteria of compatibility of a system of linear Diophantine equations, strict inequations, and nonstrict "
    "inequations are considered. Upper bounds for components of a minimal set of solutions and algorithms of "
    "construction of minimal generating sets of solutions for all types of systems are given. These criteria and the "
    "corresponding algorithms for constructing a minimal supporting set of solutions can be used in solving all the "
    "considered types systems and systems of mixed types."
)
SYSTEMS = {
    "tfidf": lambda: GramTfidf([ABSTRACT]),
    "textrank": TextRank,
    "singlerank": SingleRank,
    "noun-phrases": NounPhrases,
}
every_system = pytest.mark.parametrize("name", SYSTEMS)


def phrases(system, text: str, top: int = 10) -> list[str]:
    return [phrase for phrase, _ in system.rank(text, top=top)]


def words_of(text: str) -> list[str]:
    return [" ".join(run.words) for run in runs_of(text)]


def test_runs_end_at_stop_words_marks_numbers_and_single_letters():
    assert words_of("The Fourier transform of a signal, sampled 44 times; X rays") == [
        "fourier transform",
        "signal",
        "sampled",
        "times",
        "rays",
    ]
    assert words_of("Fitts's law and co-operative agents don't rest") == ["fitts law", "co-operative agents", "rest"]
    assert words_of(f"before {'a' * (LONGEST_WORD + 1)} after") == []  # what is left are stop words
    assert words_of("") == words_of("!!! ... 42") == []


def test_places_count_stop_words_and_marks():
    assert [(run.first, run.words) for run in runs_of("the red fox, and a dog")] == [(1, ("red", "fox")), (6, ("dog",))]


def test_a_run_is_of_one_script_and_east_asian_text_is_read_by_letters():
    found = [("".join(run.words), run.letters) for run in runs_of("GPT模型的应用，好 model")]
    assert found == [("gpt", False), ("模型", True), ("应用", True), ("好", True), ("model", False)]


def test_grams_are_words_in_a_row():
    assert [words for _, words in grams_of(Run(0, ("a", "b", "c"), False), most=2)] == [
        ("a",),
        ("a", "b"),
        ("b",),
        ("b", "c"),
        ("c",),
    ]
    assert [words for _, words in grams_of(Run(0, tuple("甲乙丙"), True), most=1)] == [
        tuple("甲乙"),
        tuple("甲乙丙"),
        tuple("乙丙"),
    ]


def test_a_run_that_is_too_long_comes_as_its_words_or_as_what_its_letters_repeat():
    assert phrases_of(runs_of("alpha beta gamma delta eta zeta")) == [
        (place, (word,)) for place, word in enumerate(["alpha", "beta", "gamma", "delta", "eta", "zeta"])
    ]
    found = {"".join(words) for _, words in phrases_of(runs_of("神经网络训练神经网络测试"))}
    assert found == {"神经网络"}  # and no piece of it


def test_of_phrases_with_the_same_stems_the_best_is_kept_and_equals_keep_the_order_of_the_text():
    found = [Found(("road",), 4, 1.0), Found(("roads",), 0, 2.0), Found(("bus",), 3, 1.0), Found(("tram",), 2, 1.0)]
    assert [phrase for phrase, _ in best_of(found, 3)] == ["roads", "tram", "bus"]
    assert best_of(found, 0) == []


def test_stop_words_are_lower_case_and_no_subject_is_among_them():
    assert all(word == word.lower() for word in STOP_WORDS)
    assert all(map(is_stop_word, ("the", "of", "don't", "的")))
    assert not any(map(is_stop_word, ("network", "ramen", "climate", "学")))


def test_page_rank_is_the_solution_of_its_equation():
    generator = np.random.default_rng(0)
    ends = np.array(sorted({tuple(sorted(map(int, pair))) for pair in generator.integers(12, size=(30, 2))}))
    ends = ends[ends[:, 0] != ends[:, 1]]
    weights = generator.uniform(0.5, 3, size=len(ends))
    links = np.zeros((12, 12))
    for (one, other), weight in zip(ends, weights, strict=True):
        links[one, other] = links[other, one] = weight
    share = links / links.sum(1, keepdims=True)
    exact = np.linalg.solve(np.eye(12) - DAMPING * share.T, np.full(12, 1 - DAMPING))
    np.testing.assert_allclose(page_rank(ends, weights, 12), exact, atol=1e-3)


def test_words_are_linked_within_the_window_only_and_by_count_only_if_asked():
    runs = runs_of("apple pear plum")
    near = word_scores(runs, window=2, weighted=False)
    assert near["pear"] > near["apple"] == near["plum"]
    wide = word_scores(runs, window=3, weighted=False)
    assert wide["pear"] == wide["apple"]  # all are linked with all
    again = runs_of("apple pear plum. apple pear. apple pear.")
    counted = word_scores(again, window=2, weighted=True)
    assert counted["apple"] > counted["plum"]
    assert word_scores([], window=2, weighted=True) == {}
    alone = word_scores(runs_of("apple apple apple"), window=2, weighted=True)
    assert alone == {"apple": pytest.approx(1 - DAMPING)}  # no word is linked with itself


def test_stop_words_between_words_widen_their_distance():
    scores = word_scores(runs_of("apple of the pear plum"), window=2, weighted=False)
    assert scores["apple"] == pytest.approx(1 - DAMPING)  # linked with none
    assert scores["pear"] == scores["plum"] > scores["apple"]


def test_textrank_joins_the_best_third_of_the_words_where_they_stand_together():
    text = "neural networks learn. deep neural networks generalise. neural networks fail. tiny samples hurt badly."
    ranked = TextRank().rank(text)
    assert ranked[0][0].endswith("neural networks")
    scores = word_scores(runs_of(text), window=2, weighted=False)
    assert ranked[0][1] == pytest.approx(sum(scores[word] for word in ranked[0][0].split()))
    used = {word for phrase, _ in ranked for word in phrase.split()}
    assert len(used) <= math.ceil(len(scores) / 3)


def test_textrank_gives_the_numbers_of_its_paper():
    scores = word_scores(runs_of(ABSTRACT), window=2, weighted=False)
    printed = {"numbers": 1.46, "inequations": 1.45, "linear": 1.29, "diophantine": 1.28, "upper": 0.99, "bounds": 0.99}
    assert {word: scores[word] for word in printed} == pytest.approx(printed, abs=0.02)
    assert scores["strict"] == pytest.approx(0.77, abs=0.01)
    assert {"linear diophantine", "numbers", "inequations", "upper bounds"} <= set(phrases(TextRank(), ABSTRACT, 20))


def test_singlerank_scores_a_candidate_by_the_sum_of_its_words():
    scores = word_scores(runs_of(ABSTRACT), window=10, weighted=True)
    ranked = SingleRank().rank(ABSTRACT, top=50)
    assert {"linear constraints", "upper bounds", "linear diophantine equations"} <= {phrase for phrase, _ in ranked}
    for phrase, score in ranked:
        assert score == pytest.approx(sum(scores[word] for word in phrase.split()))
    assert all(before >= after for (_, before), (_, after) in pairwise(ranked))


def test_noun_phrases_prefers_frequent_words_then_early_ones():
    assert phrases(NounPhrases(), "the tram, the bus, the bus, the bike") == ["bus", "tram", "bike"]
    long_and_short = dict(NounPhrases().rank("night bus, the bus"))
    assert long_and_short["night bus"] == pytest.approx(1.5)  # (1 + 2) / 2 at the start of the text
    assert long_and_short["bus"] == pytest.approx(2 * (1 - 0.5 * 4 / 5))


def test_tfidf_is_count_times_rarity():
    texts = ["red bus", "red tram", "red bike bike"]
    ranked = dict(GramTfidf(texts).rank("red bike bike", top=20))
    assert ranked["bike"] == pytest.approx(2 * (math.log(4 / 2) + 1))
    assert ranked["red"] == pytest.approx(math.log(4 / 4) + 1)
    assert ranked["red bike bike"] == pytest.approx(math.log(4 / 2) + 1)
    assert "bike bike bike" not in ranked


def test_tfidf_forgets_the_rarest_when_there_are_too_many():
    texts = [f"shared w{number}x" for number in range(100)]
    system = GramTfidf(texts, most_grams=50)
    assert len(system.counts) <= 50
    assert system.counts[("shared",)] == 100
    assert system.rarity(("shared",)) < system.rarity(("w3x",))


@every_system
def test_nothing_and_little_are_no_trouble(name):
    system = SYSTEMS[name]()
    for text in ("", "   ", "!!! ...", "the of and", "42 7", "\ud800"):
        assert system.rank(text) == []
    assert phrases(system, "Ramen") == ["ramen"]
    assert len(system.rank(ABSTRACT, top=2)) == 2


@every_system
def test_chinese_gives_phrases_of_the_text(name):
    text = "卷积神经网络用于图像分类。卷积神经网络的训练需要大量数据，图像分类是基本任务。"
    found = phrases(SYSTEMS[name](), text)
    assert found
    assert all(2 <= len(phrase) <= 6 and phrase in text for phrase in found)
    if name != "textrank":
        assert {"卷积神经网络", "图像分类"} & set(found)


@every_system
def test_a_text_always_gets_the_same_answer(name):
    assert SYSTEMS[name]().rank(ABSTRACT) == SYSTEMS[name]().rank(ABSTRACT)


def long_texts() -> dict[str, str]:
    chance = random.Random(0)
    return {
        "one word": "word " * MOST_WORDS,
        "all different": " ".join(f"w{number}x" for number in range(MOST_WORDS)),
        "no blank": "".join(chr(0x4E00 + chance.randrange(3000)) for _ in range(MOST_WORDS)),
    }


@every_system
@pytest.mark.parametrize("kind", long_texts())
def test_twenty_thousand_words_take_little_time_and_memory(name, kind):
    system, text = SYSTEMS[name](), long_texts()[kind]
    start = time.process_time()
    found = system.rank(text)
    assert time.process_time() - start < 10
    assert all(len(phrase.split()) <= 5 and len(phrase) < 250 for phrase, _ in found)


@every_system
def test_what_lies_beyond_the_first_words_is_not_read(name):
    system, start = SYSTEMS[name](), "alpha beta, " * (MOST_WORDS // 2)
    assert system.rank(start) == system.rank(start + "gamma delta, " * 100)


def test_memory_grows_with_the_words_not_with_their_square():
    text = " ".join(f"w{number}x" for number in range(5000))
    tracemalloc.start()
    SingleRank().rank(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # a matrix of 5,000 by 5,000 has 200e6
