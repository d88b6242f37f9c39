"""Keyphrase metrics: each rule by hand, against a slow twin, and by law."""

from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
import snowballstemmer
from hypothesis import given, settings
from hypothesis import strategies as st

from tagsmith.errors import ConfigError
from tagsmith.metrics.phrases import (
    MAIN,
    MEASURES,
    Counts,
    PhraseScores,
    Ranking,
    ScoredDocument,
    count,
    interval,
    keyphrase_metrics,
    measure,
    score_phrases,
)

TEXT = "Graph neural networks for traffic. We count co-occurrences of words in graphs."


def rankings(predicted: list[str], gold: list[str], text: str = TEXT, **options: Any) -> tuple[Ranking, Ranking]:
    """Present and absent."""
    scores = score_phrases(ScoredDocument(text, predicted, gold, **options))
    return scores.present, scores.absent


def is_present(phrase: str, text: str = TEXT) -> bool:
    return score_phrases(ScoredDocument(text, [phrase], [])).present.right != ()


# --- one document ---------------------------------------------------------------------------------------------------


def test_present_and_absent_by_hand() -> None:
    present, absent = rankings(
        ["transport", "neural network", "Graphs", "deep learning", "traffic"],
        ["Graph neural networks", "graph", "traffic", "transports", "road safety"],
    )
    assert present == Ranking((False, True, True), 3)  # neural network; graphs; traffic
    assert absent == Ranking((True, False), 2)  # transport; deep learning


def test_a_phrase_is_present_word_by_word_and_in_order() -> None:
    assert is_present("neural networks")
    assert not is_present("neural net")  # the letters are there, the word is not
    assert not is_present("raph neural")
    assert not is_present("networks neural")
    assert not is_present("graph networks")  # not one after the other
    assert is_present("graph neural")  # at the very beginning
    assert is_present("in graph")  # at the very end
    assert is_present("traffic we")  # a full stop between them does not matter
    assert not is_present("graph", text="")


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("co-occurrence", "a co occurrence here"),
        ("co occurrence", "the Co-Occurrences."),
        ("3D-DSA", "some 3d dsa"),
        ("web 2.0", "on Web 2.0: a view"),
        ("Fitts's law", "use Fitts' law"),
        ("fitts law", "use Fitts 's law"),
        ("Arrow’s theorem", "that arrow's theorem"),
        ("the 's' channel", "the s channel"),
        ("dont panic", "Don't panic"),
        ("S wave", "an s wave"),
        ("C", "written in C"),
        ("<digit> cage", "a <digit> cage"),
        ("活性染料", "常用活性染料的性能"),
        ("café", "in CAFÉS"),
    ],
)
def test_spellings_that_meet(phrase: str, text: str) -> None:
    assert is_present(phrase, text)


@pytest.mark.parametrize(
    ("phrase", "text"),
    [("cooccurrence", "co-occurrence"), ("2", "web 20"), ("is", "an i"), ("as", "a"), ("染活", "活性染料")],
)
def test_spellings_that_do_not_meet(phrase: str, text: str) -> None:
    assert is_present(phrase, phrase)
    assert not is_present(phrase, text)


def test_duplicates_after_stemming_are_one_prediction() -> None:
    scores = score_phrases(ScoredDocument(TEXT, ["traffic", "graphs", "Graph", "GRAPH!", "road", "roads"], ["graph"]))
    assert scores.present.right == (False, True)
    assert scores.absent.right == (False,)
    assert scores.given == 6
    metrics = keyphrase_metrics([ScoredDocument(TEXT, ["graphs", "graph", "word", "x"], ["graph"])])
    assert metrics["duplicates"] == pytest.approx(1 / 4)
    assert metrics["predicted"] == 3


def test_the_share_of_duplicates_is_one_of_phrases_not_of_documents() -> None:
    documents = [ScoredDocument("", ["a", "a", "a", "a"], []), ScoredDocument("", ["b"], [])]
    assert keyphrase_metrics(documents)["duplicates"] == pytest.approx(3 / 5)


def test_gold_counts_once() -> None:
    assert rankings(["graph"], ["graph", "Graphs", "graph"])[0] == Ranking((True,), 1)


def test_phrases_are_split_at_slash_and_semicolon() -> None:
    present, absent = rankings(["words/graphs; transport"], ["graph/traffic", "transport;speed"])
    assert present == Ranking((False, True), 2)
    assert absent == Ranking((True,), 2)


def test_marks_are_dropped() -> None:
    present, absent = rankings(["<s> <p_start> traffic ; <blank>", "<a_start> speed <eos>", "</s>"], ["traffic"])
    assert present.right == (True,)
    assert absent.right == (False,)


def test_predictions_with_unknown_words_are_dropped() -> None:
    scores = score_phrases(ScoredDocument(TEXT, ["<unk> graphs", "[UNK]", "unknown; <unk>", "unk"], ["graph"]))
    assert scores.all.right == (False, False)  # unknown; unk
    assert scores.given == 2


def test_predictions_without_a_word_are_dropped() -> None:
    scores = score_phrases(ScoredDocument(TEXT, ["", "--", "traffic;"], ["++", "traffic"]))
    assert scores.all == Ranking((True,), 1)
    assert scores.given == 1


def test_gold_that_is_stemmed_is_not_stemmed_again() -> None:
    # "databases" -> "databas", but "databas" -> "databa": Porter's stems are not stems of themselves.
    text = "We query databases."
    present, absent = rankings(["database", "queries"], ["databas", "queri"], text, stemmed=True)
    assert present == Ranking((True, True), 2)
    assert absent == Ranking((), 0)
    again, lost = rankings(["database", "queries"], ["databas", "queri"], text)
    assert again == Ranking((False, True), 1)
    assert lost == Ranking((), 1)


def test_stemmed_gold_is_still_split_into_words() -> None:
    assert rankings(["co-occurrence"], ["co-occurr"], stemmed=True)[0] == Ranking((True,), 1)


def test_any_variant_is_the_gold_phrase_once() -> None:
    groups = [["number of words", "word number"]]
    gold = ["number of words"]
    assert rankings(["word numbers"], gold, variants=groups)[1] == Ranking((True,), 1)
    assert rankings(["word numbers", "graph", "number of word"], gold, variants=groups)[1] == Ranking((True,), 1)
    assert rankings(["word numbers"], gold)[1] == Ranking((False,), 1)
    assert rankings(["number"], gold, variants=groups)[1].right == (False,)


def test_a_phrase_is_present_if_one_of_its_variants_is() -> None:
    groups = [["words of count", "count words", "counts of words"]]
    text = "the counts of words"
    for predicted in groups[0]:
        present, absent = rankings([predicted], ["words of count"], text, variants=groups)
        assert present == Ranking((True,), 1)
        assert absent == Ranking((), 0)


def test_variants_of_stemmed_gold_are_stems_too() -> None:
    groups = [["databas count", "count databas"]]
    assert rankings(["counting databases"], ["databas count"], stemmed=True, variants=groups)[1].right == (True,)
    assert rankings(["counting databases"], ["databas count"], variants=groups)[1].right == (False,)


def test_variants_may_hold_nothing() -> None:
    assert rankings(["graph"], ["graph"], variants=[[], ["-"]])[0] == Ranking((True,), 1)
    assert rankings(["speed"], ["road"], variants=[["-", "speed"], ["-", "road"]])[1] == Ranking((False,), 1)


# --- cuts -----------------------------------------------------------------------------------------------------------


def test_what_each_cut_divides_by() -> None:
    ranking = Ranking((True, False, True), gold=2)
    assert count(ranking, 5) == Counts(2, 5, 2)  # padded with wrong ones
    assert count(ranking, 10) == Counts(2, 10, 2)
    assert count(ranking, "M") == Counts(2, 3, 2)
    assert count(ranking, "O") == Counts(1, 2, 2)
    assert count(ranking, 1) == Counts(1, 1, 2)
    assert count(Ranking((True,), gold=4), "O") == Counts(1, 4, 4)  # padded too
    assert count(Ranking((), gold=0), "M") == Counts(0, 0, 0)


def test_one_document_by_hand() -> None:
    metrics = keyphrase_metrics([ScoredDocument("a1 b1 c1 d1", ["a1", "x1", "b1", "y1"], ["b1", "a1", "c1", "x1"])])
    p, r = 2 / 5, 2 / 3  # present: predicted a1 b1, gold a1 b1 c1
    assert metrics["present_f1@5"] == pytest.approx(2 * p * r / (p + r))
    assert metrics["present_f1@10"] == pytest.approx(2 * 2 / (10 + 3))
    assert metrics["present_f1@M"] == pytest.approx(2 * 2 / (2 + 3))
    assert metrics["present_f1@O"] == pytest.approx(2 / 3)
    assert metrics["absent_f1@5"] == pytest.approx(2 * 1 / (5 + 1))  # absent: predicted x1 y1, gold x1
    assert metrics["absent_f1@M"] == pytest.approx(2 * 1 / (2 + 1))
    assert metrics["absent_f1@O"] == 1
    assert metrics["absent_r@10"] == metrics["absent_r@50"] == 1
    assert metrics["all_f1@M"] == pytest.approx(2 * 3 / (4 + 4))
    assert metrics["all_f1@5"] == pytest.approx(2 * 3 / (5 + 4))
    assert [metrics[f"{kind}predicted"] for kind in ("", "present_", "absent_")] == [4, 2, 2]
    assert [metrics[f"{kind}correct"] for kind in ("", "present_", "absent_")] == [3, 2, 1]
    assert [metrics[f"{kind}gold"] for kind in ("", "present_", "absent_")] == [4, 3, 1]
    assert metrics["duplicates"] == 0


def test_recall_of_absent_phrases_looks_at_ten_and_fifty() -> None:
    predicted = [f"x{number}" for number in range(60)]
    metrics = keyphrase_metrics([ScoredDocument("", predicted, ["x9", "x10", "x49", "x50"])])
    assert metrics["absent_r@10"] == 1 / 4
    assert metrics["absent_r@50"] == 3 / 4


def test_f1_is_of_the_means_and_docmean_is_the_mean_of_f1s() -> None:
    first = ScoredDocument("a1", ["a1"], ["a1"])  # P 1, R 1, F1 1
    second = ScoredDocument("a1 b1 c1 d1", ["a1"], ["a1", "b1", "c1", "d1"])  # P 1, R 1/4, F1 2/5
    metrics = keyphrase_metrics([first, second])
    assert metrics["present_f1@M"] == pytest.approx(2 * 1 * (5 / 8) / (1 + 5 / 8))  # 0.769
    assert metrics["present_f1@M_docmean"] == pytest.approx((1 + 2 / 5) / 2)  # 0.7


def test_documents_without_gold_of_a_kind_count_as_zeros() -> None:
    full = ScoredDocument("a1", ["a1", "x1"], ["a1", "x1"])
    only_absent = ScoredDocument("a1", ["x1"], ["x1"])  # neither present gold nor a present prediction
    none = ScoredDocument("a1", ["a1"], [])
    metrics = keyphrase_metrics([full, only_absent, none])
    assert metrics["present_f1@M"] == metrics["present_f1@M_docmean"] == pytest.approx(1 / 3)
    assert metrics["present_f1@O"] == pytest.approx(1 / 3)
    assert metrics["absent_f1@M"] == pytest.approx(2 / 3)
    assert metrics["all_f1@M"] == pytest.approx(2 / 3)
    assert metrics["absent_r@10"] == pytest.approx(2 / 3)
    assert metrics["n"] == 3


# --- the slow twin ---------------------------------------------------------------------------------------------------

_stemmer = snowballstemmer.stemmer("porter")
PHRASES = st.lists(
    st.sampled_from(["graph", "graphs", "neural-nets", "net/graph", "nets; word", "word", "z"]), max_size=7
)
TEXTS = st.lists(st.sampled_from(["graph", "Neural", "net", "words", "x"]), max_size=6).map(" ".join)


def slow_phrases(phrases: list[str]) -> list[tuple[str, ...]]:
    """Each phrase as a tuple of stems, the first of equal ones."""
    found: list[tuple[str, ...]] = []
    for phrase in phrases:
        for piece in phrase.replace("/", ";").split(";"):
            words = piece.replace("-", " ").lower().split()
            stems = tuple(_stemmer.stemWords(words))
            if stems and stems not in found:
                found.append(stems)
    return found


def slow_kind(phrases: list[tuple[str, ...]], text: str, kind: str) -> list[tuple[str, ...]]:
    words = _stemmer.stemWords(text.lower().split())
    kept = []
    for phrase in phrases:
        runs = [tuple(words[start : start + len(phrase)]) for start in range(len(words))]
        if kind == "all" or (phrase in runs) == (kind == "present"):
            kept.append(phrase)
    return kept


def slow_measures(documents: list[ScoredDocument], kind: str, cut: str) -> dict[str, Fraction]:
    """Mean P, mean R, their harmonic mean and the mean of F1, in fractions."""
    precisions, recalls, f1s = [], [], []
    for document in documents:
        gold = slow_kind(slow_phrases(list(document.gold)), document.text, kind)
        predicted: list[Any] = slow_kind(slow_phrases(list(document.predicted)), document.text, kind)
        if cut != "M":
            places = len(gold) if cut == "O" else int(cut)
            predicted = (predicted + [None] * places)[:places]
        hits = len([phrase for phrase in predicted if phrase in gold])
        precision = Fraction(hits, len(predicted)) if predicted else Fraction(0)
        recall = Fraction(hits, len(gold)) if gold else Fraction(0)
        precisions.append(precision)
        recalls.append(recall)
        f1s.append(2 / (1 / precision + 1 / recall) if hits else Fraction(0))
    p, r = sum(precisions, Fraction(0)) / len(documents), sum(recalls, Fraction(0)) / len(documents)
    harmonic = 2 / (1 / p + 1 / r) if p and r else Fraction(0)
    return {"f1": harmonic, "docmean": sum(f1s, Fraction(0)) / len(documents), "r": r}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.builds(ScoredDocument, TEXTS, PHRASES, PHRASES), min_size=1, max_size=5))
def test_the_slow_twin_agrees(documents: list[ScoredDocument]) -> None:
    metrics = keyphrase_metrics(documents)
    for kind in ("present", "absent", "all"):
        for cut in ("5", "10", "M", "O"):
            slow = slow_measures(documents, kind, cut)
            assert metrics[f"{kind}_f1@{cut}"] == pytest.approx(float(slow["f1"]))
            assert metrics[f"{kind}_f1@{cut}_docmean"] == pytest.approx(float(slow["docmean"]))
    assert metrics["absent_r@10"] == pytest.approx(float(slow_measures(documents, "absent", "10")["r"]))
    assert metrics["gold"] * len(documents) == pytest.approx(sum(len(slow_phrases(list(d.gold))) for d in documents))


@given(TEXTS, PHRASES, PHRASES)
def test_every_phrase_is_of_one_kind(text: str, predicted: list[str], gold: list[str]) -> None:
    scores = score_phrases(ScoredDocument(text, predicted, gold))
    assert scores.present.gold + scores.absent.gold == scores.all.gold
    assert sorted(scores.present.right + scores.absent.right) == sorted(scores.all.right)
    assert scores.given >= len(scores.all.right)


@given(TEXTS, PHRASES.filter(bool))
def test_gold_as_prediction_is_perfect(text: str, gold: list[str]) -> None:
    metrics = keyphrase_metrics([ScoredDocument(text, gold, gold)])
    assert metrics["all_f1@M"] == metrics["all_f1@O"] == 1
    for kind in ("present", "absent"):
        assert metrics[f"{kind}_f1@M"] == float(metrics[f"{kind}_gold"] > 0)


# --- intervals ------------------------------------------------------------------------------------------------------


def drawn(number: int, seed: int) -> list[PhraseScores]:
    """Scores of documents made up at random."""
    random = Random(seed)

    def ranking() -> Ranking:
        gold = random.randint(0, 6)
        right = [True] * random.randint(0, gold) + [False] * random.randint(0, 6)
        random.shuffle(right)
        return Ranking(tuple(right), gold)

    return [PhraseScores(ranking(), ranking(), ranking(), 12) for _ in range(number)]


@pytest.mark.parametrize("metric", ["present_f1@5", "absent_f1@M_docmean", "all_f1@O", "absent_r@10"])
def test_an_interval_holds_the_point_and_shrinks(metric: str) -> None:
    few, many = drawn(50, seed=1), drawn(5000, seed=1)
    widths = []
    for scores in (few, many):
        low, high = interval(scores, metric)
        assert 0 <= low < measure(scores, metric) < high <= 1
        widths.append(high - low)
    assert widths[1] < widths[0] / 5  # about a tenth: the square root of a hundredth


@pytest.mark.parametrize("metric", ["present_f1@5", "present_f1@5_docmean", "absent_r@10"])
def test_an_interval_is_the_one_of_documents_drawn_one_by_one(metric: str) -> None:
    scores, random = drawn(40, seed=2), Random(3)
    slow = [measure(random.choices(scores, k=len(scores)), metric) for _ in range(2000)]
    expected = np.quantile(slow, [0.05, 0.95])
    assert interval(scores, metric, rounds=2000, level=0.9) == pytest.approx(expected, abs=0.02)


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    truth = measure(drawn(20_000, seed=4), "present_f1@M")
    held = 0
    for seed in range(200):
        low, high = interval(drawn(100, seed=100 + seed), "present_f1@M", rounds=300, level=0.8)
        held += low <= truth <= high
    assert 0.7 <= held / 200 <= 0.9


def test_an_interval_is_a_matter_of_its_seed_and_level() -> None:
    scores = drawn(30, seed=5)
    assert interval(scores, "all_f1@5") == interval(scores, "all_f1@5", seed=0)
    assert interval(scores, "all_f1@5") != interval(scores, "all_f1@5", seed=1)
    narrow, wide = interval(scores, "all_f1@5", level=0.5), interval(scores, "all_f1@5", level=0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_an_interval_does_not_depend_on_how_many_rounds_are_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = drawn(30, seed=6)
    whole = interval(scores, "all_f1@5", rounds=101)
    for size in (1, 70, 30 * 50):
        monkeypatch.setattr("tagsmith.metrics.phrases._DRAWN_AT_ONCE", size)
        assert interval(scores, "all_f1@5", rounds=101) == pytest.approx(whole)


def test_documents_that_are_all_alike_have_no_width() -> None:
    scores = [PhraseScores(*[Ranking((True, False), 2)] * 3, given=2)] * 7
    assert interval(scores, "present_f1@M") == pytest.approx((0.5, 0.5))
    assert interval(scores[:1], "present_f1@5") == pytest.approx((2 / 7, 2 / 7))


# --- all together ---------------------------------------------------------------------------------------------------


def test_names_parts_and_intervals() -> None:
    documents = [
        ScoredDocument("a1", ["a1", "x1"], ["a1"], parts=["new"]),
        ScoredDocument("a1", ["b1"], ["a1", "b1"], parts=["new", "late"]),
        ScoredDocument("a1", ["a1"], ["a1"]),
    ]
    metrics = keyphrase_metrics(iter(documents), intervals=True)
    numbers = [f"{kind}{name}" for kind in ("", "present_", "absent_") for name in ("predicted", "correct", "gold")]
    assert list(metrics) == [*MEASURES, "duplicates", *numbers, "n", "intervals", "parts"]
    assert len(MEASURES) == 3 * 4 * 2 + 2
    assert metrics["n"] == 3
    assert list(metrics["parts"]) == ["new", "late"]
    assert [part["n"] for part in metrics["parts"].values()] == [2, 1]
    bare = [ScoredDocument(each.text, each.predicted, each.gold) for each in documents]
    assert metrics["parts"]["new"] == keyphrase_metrics(bare[:2], intervals=True)
    assert tuple(metrics["intervals"]) == MAIN
    scores = [score_phrases(each) for each in documents]
    assert metrics["intervals"]["present_f1@5"] == list(interval(scores, "present_f1@5"))
    plain = keyphrase_metrics(bare)
    assert "parts" not in plain
    assert "intervals" not in plain


def test_without_documents_and_without_predictions() -> None:
    metrics = keyphrase_metrics([], intervals=True)
    assert metrics["n"] == metrics["present_f1@5"] == metrics["duplicates"] == metrics["predicted"] == 0
    assert metrics["intervals"]["present_f1@5"] == [0, 0]
    metrics = keyphrase_metrics([ScoredDocument("", [], [])], intervals=True)
    assert metrics["n"] == 1
    assert metrics["all_f1@M"] == metrics["all_f1@O_docmean"] == metrics["absent_r@50"] == metrics["duplicates"] == 0
    assert metrics["intervals"]["absent_f1@M"] == [0, 0]


def test_other_cuts_have_names_too() -> None:
    scores = [PhraseScores(*[Ranking((True, False, True), 2)] * 3, given=3)]
    assert measure(scores, "present_f1@1") == pytest.approx(2 / 3)
    assert measure(scores, "all_r@3") == 1


@pytest.mark.parametrize(
    "name", ["f1@5", "present_f1", "present_f1@0", "present_p@5", "absent_r@5_docmean", "all_f1@m"]
)
def test_a_measure_that_is_none(name: str) -> None:
    with pytest.raises(ConfigError, match=f"there is no measure '{name}'; .* cuts: a number, M, O"):
        measure([], name)
    with pytest.raises(ConfigError, match="there is no measure"):
        interval([], name)


@pytest.mark.parametrize(("rounds", "level"), [(0, 0.95), (10, 0), (10, 1), (10, 95)])
def test_an_interval_that_is_none(rounds: int, level: float) -> None:
    with pytest.raises(ConfigError, match=f"level between 0 and 1, not {rounds} and {level}"):
        interval([], "all_f1@5", rounds=rounds, level=level)
