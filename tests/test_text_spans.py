"""Tags found again in the given text."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagsmith.text.spans import SpanFinder, find_spans


@pytest.mark.parametrize(
    ("tag", "text", "found"),
    [
        ("ClimateAction", "Climate action, now", ["Climate action"]),
        ("climate action", "#ClimateAction and climateactions", ["ClimateAction", "climateactions"]),
        (
            "ClimateAction",
            "climate-action climate_action CLIMATE #ACTIONS",
            ["climate-action", "climate_action", "CLIMATE #ACTIONS"],
        ),
        ("ClimateAction", "climate. action; climate new action", []),
        ("action", "interaction in action", ["action"]),
        ("go go", "go go go go go", ["go go", "go go"]),
        ("COVID19", "covid-19, Covid19 and COVID 19", ["covid-19", "Covid19", "COVID 19"]),
        ("WomensDay", "Happy Women's Day", ["Women's Day"]),
        ("trump", "Trump's and TRUMP’s", ["Trump", "TRUMP"]),
        ("Cafe\u0301", "a café, a CAFE\u0301", ["café", "CAFE\u0301"]),
        ("iPhone", "my iPhone", ["iPhone"]),
        ("happiness", "the happy few", ["happy"]),
        ("ONeil", "Mr O'Neil", ["O'Neil"]),
        ("NASA", "ＮＡＳＡ İİ nasa", ["ＮＡＳＡ", "nasa"]),
        ("İstanbul", "İß in İstanbul", ["İstanbul"]),
        ("G7", "拜登与G7在一起", ["G7"]),
        ("世界杯", "İß世界杯ß#世界杯#", ["世界杯", "世界杯"]),
        ("g7峰会", "ßＧ７峰会", ["Ｇ７峰会"]),
        ("s峰", "ß峰", []),
        ("s世s", "ß世s世s", ["s世s"]),
        ("#世界 杯", "世界 杯", ["世界 杯"]),
        ("❤", "I ❤ it", ["❤"]),
        ("", "text", []),
        ("#", "a # b", []),
        ("tag", "", []),
    ],
)
def test_examples(tag: str, text: str, found: list[str]) -> None:
    assert [text[start:end] for start, end in find_spans(tag, text)] == found


words = st.sampled_from(["climate", "Action", "now", "ßtreet", "İzmir", "世界", "19", "don't", "a"])


@given(st.lists(words, min_size=1, max_size=12), st.data())
def test_what_stands_there_is_found_and_nothing_overlaps(tokens: list[str], data: st.DataObject) -> None:
    text = " ".join(tokens)
    start = data.draw(st.integers(0, len(tokens) - 1))
    tag = " ".join(tokens[start : start + 2])
    spans = find_spans(tag, text)
    assert spans
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert any(text[begin:end].casefold() == tag.casefold() for begin, end in spans)


def test_one_finder_serves_many_tags() -> None:
    text = "Vote for climate action in 世界 today"
    finder = SpanFinder(text)
    for tag in ("vote", "ClimateAction", "世界", "absent", "today"):
        assert finder.find(tag) == find_spans(tag, text)
    assert finder.find("vote") == ((0, 4),)
