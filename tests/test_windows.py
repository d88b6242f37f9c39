"""Texts as windows of numbers, what should be found in them, and how it is scored."""

from __future__ import annotations

import pytest

from tagsmith.data.targets import answer_span, answer_target, bio_target, marks_of
from tagsmith.data.windows import Pair, Part, WindowSettings, paired, windows
from tagsmith.errors import ConfigError
from tagsmith.metrics.reading import (
    ScoredAnswer,
    ScoredLabel,
    ScoredMarks,
    answer_metrics,
    label_metrics,
    mark_metrics,
    normal,
    overlap_f1,
)
from tagsmith.records import Document, Gold, Mark, Question, document_of
from tagsmith.text.pieces import SEPARATOR, TEXT, Pieces

TEXT_LONG = " ".join(f"number{place} walks" for place in range(40))
SMALL = WindowSettings(source=24, meta=6, overlap=6)


@pytest.fixture(scope="module")
def pieces():
    return Pieces.train(["the title of it all", "a body walks on", TEXT_LONG, "中文标题和正文"] * 3, 200)


def test_a_window_is_title_and_body_with_their_places(pieces):
    ((window,),) = windows([paired("The title", "a body walks on", lead=False)], pieces, WindowSettings(), words=False)
    ids = window.example.ids
    assert ids[0] == TEXT
    assert ids[window.example.meta] == SEPARATOR
    assert ids[-1] == SEPARATOR
    text = "a body walks on"
    assert "".join(text[place.start : place.end] for place in window.places) == text.replace(" ", "")
    assert window.own == (0, len(window.places))


def test_words_of_title_and_text_are_read_by_their_first_pieces(pieces):
    ((window,),) = windows([paired("The title", "unheard walks", lead=False)], pieces, WindowSettings(), words=True)
    assert [(place.start, place.end, place.title) for place in window.places] == [
        (0, 3, True),
        (4, 9, True),
        (0, 7, False),
        (8, 13, False),
    ]
    assert sorted(set(window.example.body)) == window.example.body
    assert window.example.body[0] == 1


@pytest.mark.parametrize("words", [True, False])
def test_windows_cover_a_long_text_and_own_each_word_once(pieces, words):
    (some,) = windows([paired("The title", TEXT_LONG, lead=False)], pieces, SMALL, words=words)
    assert len(some) > 3
    assert all(len(window.example.ids) <= 24 for window in some)
    owned = [place for window in some for place in window.places[slice(*window.own)] if not place.title]
    assert sorted(owned) == owned
    assert {place.start for place in owned} == {
        place.start for window in some for place in window.places if not place.title
    }
    assert len(set(owned)) == len(owned)
    assert sum(place.title for place in some[1].places) == 0
    (first,) = windows([paired("", TEXT_LONG, lead=False)], pieces, SMALL, words=words, first_only=True)
    assert len(first) == 1


def test_a_title_longer_than_its_share_goes_on_with_the_body(pieces):
    title = " ".join(["title"] * 30)
    (some,) = windows([paired(title, "a body", lead=False)], pieces, SMALL, words=True)
    seen = {(place.title, place.start) for window in some for place in window.places[slice(*window.own)]}
    assert seen == {*((True, 6 * place) for place in range(30)), (False, 0), (False, 2)}


def test_nothing_readable_gives_no_window(pieces):
    assert windows([Pair(Part(""), Part("")), Pair(Part("x"), Part(" "))], pieces, SMALL, words=False) == [[], []]


def test_without_a_title_the_first_sentence_may_stand_for_it():
    pair = paired("", "It walks. A body walks on.", lead=True)
    assert pair == Pair(Part("It walks."), Part(" A body walks on.", 9))
    assert paired("", "It walks.", lead=True) == Pair(Part(""), Part("It walks."))
    assert paired("", "It walks. On.", lead=False).meta.text == ""
    assert paired("今天", "", lead=True) == Pair(Part("", title=True), Part("今天", title=True))
    assert paired("", "他走了。然后呢", lead=True).body == Part("然后呢", 4)


def test_windows_need_room():
    with pytest.raises(ConfigError, match="leaves no room"):
        WindowSettings(source=64, meta=32, overlap=32)


# targets


def test_an_answer_outside_the_window_is_no_answer_there(pieces):
    start = TEXT_LONG.index("number30")
    question = Question("number title", TEXT_LONG, answers=(Gold("number30 walks", start),))
    span = answer_span(question)
    (some,) = windows([Pair(Part(question.question), Part(TEXT_LONG))], pieces, SMALL, words=False)
    targets = [answer_target(window, span) for window in some]
    held = [(window, target) for window, target in zip(some, targets, strict=True) if target != [0, 0]]
    assert 0 < len(held) < len(some)
    for window, (first, last) in held:
        assert TEXT_LONG[window.places[first - 1].start : window.places[last - 1].end] == "number30 walks"


def test_an_answer_is_found_where_its_start_is_wrong_and_lost_where_it_is_not_there():
    assert answer_span(Question("q", "a b c", answers=(Gold("b", 0),))) == (2, 3)
    assert answer_span(Question("q", "a b c", answers=(Gold("z", 0),))) is None


def test_keyphrases_become_labels(pieces):
    document = Document("a body walks on. Body walks", title="The body", keyphrases=("body walks", "body"))
    marks = marks_of(document)
    assert marks == (Mark(4, 8, title=True), Mark(2, 12), Mark(17, 27))
    ((window,),) = windows([paired(document.title, document.text, lead=False)], pieces, WindowSettings(), words=True)
    assert bio_target(window, marks, ("KEY",)) == [0, 1, 0, 1, 2, 0, 0, 1, 2]
    typed = (Mark(2, 6, "Task"), Mark(7, 12, "Process"))
    assert bio_target(window, typed, ("Process", "Task")) == [0, 0, 0, 3, 1, 0, 0, 0, 0]
    side_by_side = (Mark(2, 6), Mark(7, 12))
    assert bio_target(window, side_by_side, ("KEY",)) == [0, 0, 0, 1, 1, 0, 0, 0, 0]


def test_words_with_labels_are_a_document():
    row = {"tokens": ["Big", "nets", "ABSTRACT", "-LRB-", "nets", "grow", "nets"], "tags": "B-KEY I-KEY O O B-X O I-X"}
    row["tags"] = row["tags"].split()
    found = document_of(row)
    assert (found.title, found.text) == ("Big nets", "( nets grow nets")
    assert found.marks == (Mark(0, 8, title=True), Mark(2, 6, "X"), Mark(12, 16, "X"))
    assert found.keyphrases == ("big nets", "nets")
    assert document_of({**row, "title_tokens": 1}).title == "Big"
    assert document_of({"tokens": ["a"]}).marks == ()


# metrics


def test_answers_are_compared_as_squad_does():
    assert normal("The  Cat, a dog!") == "cat dog"
    assert overlap_f1("the cat sat", "cat") == pytest.approx(2 / 3)
    assert overlap_f1("", "") == 1.0
    assert overlap_f1("", "cat") == 0.0
    assert overlap_f1("北京市", "北京") == pytest.approx(0.8)
    assert normal("北京，市。") == "北京市"
    scores = answer_metrics(
        [ScoredAnswer("cat", ("dog", "the Cat")), ScoredAnswer("", ()), ScoredAnswer("x", (), ("hard",))]
    )
    assert (scores["em"], scores["f1"], scores["n"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3), 3)
    assert (scores["f1_answerable"], scores["no_answer_accuracy"]) == (1.0, 0.5)
    assert scores["parts"] == {"hard": {"em": 0.0, "f1": 0.0, "n": 1}}


def test_labels_are_scored_over_all_that_occur():
    rows = [ScoredLabel("a", "a"), ScoredLabel("a", "b"), ScoredLabel("b", "b"), ScoredLabel("", "c")]
    assert label_metrics(rows) == {
        "accuracy": 0.5,
        "macro_f1": pytest.approx((2 / 3 + 2 / 3 + 0) / 3),
        "n": 4,
    }
    assert label_metrics([])["n"] == 0


def test_marks_are_scored_by_place_kind_and_stems():
    row = ScoredMarks(
        frozenset({(False, 0, 4, "X"), (False, 9, 12, "X")}),
        frozenset({(False, 0, 4, "X"), (False, 9, 12, "Y"), (True, 0, 4, "X")}),
        ("graphs",),
        ("graph", "net"),
    )
    scores = mark_metrics([row])
    assert scores["span_f1"] == pytest.approx(4 / 5)
    assert scores["span_f1_typed"] == pytest.approx(2 / 5)
    assert scores["stem_f1"] == pytest.approx(2 / 3)
    assert (scores["span_p"], scores["span_r"]) == (1.0, pytest.approx(2 / 3))
