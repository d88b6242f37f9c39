"""The normaliser: worked examples, idempotence, alignment, and linear time on hostile text."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tagsmith.text.normalise import _marks, align, lone_surrogate, normalise

PIECES = [
    *(
        "&",
        "&amp;",
        "amp;",
        "#38;",
        "&#",
        "&lt",
        ";",
        "&#xFF06;",
        "&semi;",
        "&#64;",
        "&nbsp;",
        "&#8203;",
        "&bne;",
        "x3A;",
    ),
    *("http://", "HTTPS://", "www.", "://", "httpurl", "emailaddr", "@user", "@", "@@", "张三", "李", "。", "，"),
    *("a", "b.co", "com", ".", "-", "_", "+", "%", "/", "#", "?", ",", "'", " ", "\n", "\x00", "　", "！", "＠", "＆"),
    *("\u200b", "\ufeff", "\u200d", "\ufe0f", "👩", "é", "İ", "ß", "1"),
]
posts = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(PIECES), max_size=12).map("".join))


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("ＡＢＣ　１２３！", "ABC 123!"),
        ("Tom &amp; Jerry &lt;3 &#39;x&#x27;", "Tom & Jerry <3 'x'"),
        ("&amp;amp;lt; &&#108;t; &amp;#38;gt;", "< < >"),
        ("&lt&semi; &lt&#59;", "< <"),
        ("&notanentity; &amp &unknown;", "&notanentity; &amp &unknown;"),
        ("see https://t.co/aB3, (www.x.com/?q=1&r=2). HTTP://X.Y!", "see httpurl, (httpurl). httpurl!"),
        ("视频http://t.cn/abc看", "视频httpurl看"),
        ("write to a.b+c@mail.example.co.uk.", "write to emailaddr."),
        (".@Some_One's talk with @x9: hi", ".@user's talk with @user: hi"),
        ("转发@张三丰，好 //@李四abc:是 @abc你好", "转发@user,好 //@user:是 @user你好"),
        ("5@home a@b", "5@home a@b"),
        ("@张三@foo.com @李b.x@@http://y", "@user@user.com @user.x@@user://y"),
        ("  tabs\tand\r\nlines \x00 \u2028end ", "tabs and lines end"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("&#8203;", ""),
        ("&#8203;.x", ".x"),
        ("#ClimateAction ❤️ 👨‍👩‍👧", "#ClimateAction ❤️ 👨‍👩‍👧"),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_examples(text: str, clean: str) -> None:
    assert normalise(text) == clean


@settings(max_examples=800, deadline=None)
@given(posts)
def test_a_normal_text_stays_as_it_is(text: str) -> None:
    clean = normalise(text)
    assert normalise(clean) == clean


@settings(max_examples=300, deadline=None)
@given(posts)
def test_alignment_gives_the_same_text_and_offsets_that_only_grow(text: str) -> None:
    clean, origins = align(text)
    assert clean == normalise(text)
    assert len(origins) == len(clean) + 1
    assert origins == sorted(origins)
    assert 0 <= origins[0] <= origins[-1] <= len(text)


@given(posts)
def test_a_text_without_links_is_marked_as_among_blanks_that_ask_for_the_whole_pattern(text: str) -> None:
    text = " ".join(text.split())
    whole = _marks(f"{text} .  .")
    assert _marks(text) == [edit for edit in whole if edit.end <= len(text)]


def test_alignment_leads_back_to_the_words() -> None:
    text = "  Ｔom &amp;amp; @Someone at http://x.y/z: \u200bclimate   action  "
    clean, origins = align(text)
    assert clean == "Tom & @user at httpurl: climate action"

    def source(piece: str) -> str:
        start = clean.index(piece)
        return text[origins[start] : origins[start + len(piece)]]

    assert source("Tom") == "Ｔom"
    assert source("&") == "&amp;amp;"
    assert source("@user") == "@Someone"
    assert source("httpurl") == "http://x.y/z"
    assert source("climate action") == "climate   action"


def test_an_entity_of_two_characters_keeps_both() -> None:
    assert align("a&bne;b") == ("a=\u20e5b", [0, 1, 6, 6, 7])


@pytest.mark.parametrize(
    "text",
    [
        *("@" * 1_000_000, "a@" * 500_000, "&" * 1_000_000, "www." * 250_000, "&" + "amp;" * 250_000, "&;" * 500_000),
        *("a." * 500_000, "a@" + "b." * 500_000, "http://" + "." * 1_000_000, " " * 1_000_000, "." * 999_999 + "@"),
    ],
    ids=lambda text: text[:6],
)
def test_a_million_hostile_characters_take_linear_time(text: str) -> None:
    begin = time.perf_counter()
    normalise(text)
    assert time.perf_counter() - begin < 30  # quadratic time would be hours


def test_lone_surrogate() -> None:
    assert lone_surrogate("fine 😀 é") is None
    assert lone_surrogate("plain") is None
    assert lone_surrogate("é \ud83d x \udc00") == 2
