"""Hashtags to words and back, keys, stems."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagsmith.text.hashtags import hashtag_of, key, words_of
from tagsmith.text.stems import stem, stems


@pytest.mark.parametrize(
    ("tag", "words"),
    [
        ("ClimateAction", "climate action"),
        ("#ClimateAction", "climate action"),
        ("climateaction", "climateaction"),
        ("climate action", "climate action"),
        ("snake_case", "snake case"),
        ("MAGAWorld", "maga world"),
        ("MakeAWish", "make a wish"),
        ("COVID19", "covid 19"),
        ("GOTV2020", "gotv 2020"),
        ("Windows10Fail", "windows 10 fail"),
        ("100DaysToGo", "100 days to go"),
        ("May4thBeWithYou", "may 4th be with you"),
        ("iPhoneX", "i phone x"),
        ("VMAs2015", "vmas 2015"),
        *((name, name.lower()) for name in ("PS4", "UFC195", "U2", "5G", "B2B", "NASA", "UAVs")),
        ("HouseofCards", "house of cards"),
        ("SaladBowloftheWorld", "salad bowl of the world"),
        ("FireproofJacket", "fireproof jacket"),
        ("ÉtéÀParis", "été à paris"),
        ("Women'sDay", "womens day"),
        ("财会人为何总在考证路上", "财会人为何总在考证路上"),
        ("G7峰会", "g7峰会"),
        ("❤️", "❤️"),
        ("", ""),
    ],
)
def test_words_of_a_tag(tag: str, words: str) -> None:
    assert " ".join(words_of(tag)) == words


def test_a_tag_of_words() -> None:
    assert hashtag_of("climate action") == hashtag_of(["climate", "action"]) == "ClimateAction"
    assert hashtag_of(["climate action", "now"]) == "ClimateActionNow"
    assert hashtag_of("covid 19") == "Covid19"
    assert hashtag_of("iPhone") == "iPhone"
    assert hashtag_of(["世界", "杯"]) == "世界杯"
    assert hashtag_of("g7 峰会") == "g7峰会"
    assert hashtag_of("") == ""


@given(st.lists(st.text("abcdefgh", min_size=4, max_size=7), min_size=2, max_size=4))
def test_camel_case_leads_back_to_the_words(words: list[str]) -> None:
    assert words_of(hashtag_of(words)) == words


@given(st.text())
def test_a_key_is_its_own_key_and_knows_the_other_spellings(tag: str) -> None:
    assert key(key(tag)) == key(tag)
    assert key(f"#{tag}") == key(tag)
    assert key(f" {tag}_") == key(tag)


def test_keys_of_one_tag() -> None:
    assert key("#Climate_Action") == key("climate action") == key("CLIMATEACTION") == "climateaction"
    assert key("Cafe\u0301") == key("café")
    assert key("climate") != key("climates")


def test_an_accent_after_an_underscore_is_composed() -> None:
    assert key("cafe_\u0301") == key("café")


def test_stems() -> None:
    assert stem("Running") == stem("runs") == "run"
    assert stems("Deep-learning networks, women's") == ("deep", "learn", "network", "women")
    assert stems("") == ()
    assert stems("state_of the-art") == ("state", "of", "the", "art")
