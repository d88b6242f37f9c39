"""Sub-words: round trips, Chinese without a segmenter, names as whole tags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagsmith.errors import BundleError
from tagsmith.text.pieces import SPECIALS, UNKNOWN, Pieces

TEXTS = ["climate action now", "climate change is real", "we act on climate"] * 20
TEXTS += ["大熊猫 满月了", "iphone手机 12 vs 11"] * 20


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    return Pieces.train(TEXTS, 120, alphabet=80)


def test_text_comes_back_from_its_ids(pieces):
    for text in ("climate action", "we act now", "大熊猫满月了", "iphone手机"):
        assert pieces.join(pieces.ids([text])[0]) == text


def test_every_ideograph_is_its_own_piece(pieces):
    assert len(pieces.ids(["大熊猫"])[0]) == 1 + 3  # and the mark that begins a word


def test_case_is_folded_and_blanks_before_ideographs_do_not_count(pieces):
    assert pieces.ids(["CLIMATE Action"]) == pieces.ids(["climate action"])
    assert pieces.ids(["大 熊 猫"]) == pieces.ids(["大熊猫"])


ODD = [
    "",
    " ",
    "a  b",
    " climate",
    "climate ",
    "▁climate now",
    "act\nnow",
    "é e\u0301 \u0301x",
    "ΑΣ ΑΣ",
    "大 a 熊 [SEP]",
]


def _split_whole(pieces: Pieces, text: str) -> list[int]:
    return pieces._tokenizer.encode(text, add_special_tokens=False).ids


def test_words_met_before_have_the_ids_they_would_have_anew(pieces):
    for _ in range(2):
        assert pieces.ids(ODD) == [_split_whole(pieces, text) for text in ODD]


@given(st.lists(st.text(st.sampled_from("ac tÉ大▁\n’.12\u0301\u3000"), max_size=12), max_size=5))
def test_ids_never_depend_on_what_was_met(pieces, texts):
    assert pieces.ids(texts) == [_split_whole(pieces, text) for text in texts]


def test_the_name_of_a_special_in_a_text_is_plain_text(pieces):
    for ids in pieces.ids(list(SPECIALS)):
        assert all(one == UNKNOWN or one >= len(SPECIALS) for one in ids)


def test_spans_cover_the_text(pieces):
    text = "we act on Climate 大熊猫"
    spans = pieces.spans(text)
    assert len(spans) == len(pieces.ids([text])[0])
    assert {text[start:end].strip().lower() for start, end in spans} >= {"大", "熊", "猫"}


def test_a_name_is_one_id_when_written_and_pieces_when_read(pieces):
    named = pieces.with_names(["climate action", "大熊猫"])
    first, second = named.first_name, named.first_name + 1
    assert named.size == pieces.size + 2
    assert named.tag_ids(["climate action", "ClimateAction", "climate change", "大熊猫"]) == [
        [first],
        [first],
        *pieces.ids(["climate change"]),
        [second],
    ]
    assert named.ids(["climate action"]) == pieces.ids(["climate action"])
    assert named.join([first]) == "climate action"


def test_saving_keeps_names_and_pieces(pieces, tmp_path):
    named = pieces.with_names(["climate action"])
    named.save(tmp_path / "tokeniser.json")
    loaded = Pieces.load(tmp_path / "tokeniser.json")
    assert loaded.names == named.names
    assert loaded.ids(TEXTS) == named.ids(TEXTS)


@pytest.mark.parametrize("content", ["", "{}", '{"names": [], "pieces": {"version": "1.0"}}', "no json"])
def test_a_damaged_file_is_named(content, tmp_path):
    path = tmp_path / "tokeniser.json"
    path.write_text(content)
    with pytest.raises(BundleError, match="is no tokeniser"):
        Pieces.load(path)
