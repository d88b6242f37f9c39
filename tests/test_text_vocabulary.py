"""The vocabulary: counting, numbers there and back, copied words, files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tagsmith.errors import BundleError, ConfigError
from tagsmith.text.vocabulary import END, PAD, SEP, SPECIALS, UNK, Vocabulary

TEXTS = [["b", "a", "c"], ["a", "b", "a"], ["d", "[SEP]"]]


def test_frequent_tokens_first_and_ties_by_alphabet() -> None:
    vocabulary = Vocabulary.count(TEXTS, size=7)
    assert vocabulary.tokens(range(7)) == [*SPECIALS, "a", "b", "c"]
    assert len(vocabulary) == 7
    assert "c" in vocabulary
    assert "d" not in vocabulary
    assert len(Vocabulary.count(TEXTS, size=99, minimum=2)) == 6
    assert vocabulary.ids(["[PAD]", "[UNK]", "[END]", "[SEP]"]) == [PAD, UNK, END, SEP]


def test_unknown_tokens() -> None:
    vocabulary = Vocabulary.count(TEXTS, size=6)
    assert vocabulary.ids(["a", "zebra", "[END]"]) == [4, UNK, END]


def test_copied_words_get_numbers_past_the_end() -> None:
    vocabulary = Vocabulary.count(TEXTS, size=6)
    ids, extra = vocabulary.extended_ids(["x", "a", "y", "x"])
    assert (ids, extra) == ([6, 4, 7, 6], ["x", "y"])
    assert vocabulary.target_ids(["y", "b", "z"], extra) == [7, 5, UNK]
    assert vocabulary.tokens([7, 5, 6], extra) == ["y", "b", "x"]


@given(st.lists(st.sampled_from("abcdefgh")))
def test_extended_numbers_lead_back(tokens: list[str]) -> None:
    vocabulary = Vocabulary.count(TEXTS, size=6)
    ids, extra = vocabulary.extended_ids(tokens)
    assert vocabulary.tokens(ids, extra) == tokens
    assert vocabulary.target_ids(tokens, extra) == ids


def test_odd_tokens_survive_the_file(tmp_path: Path) -> None:
    odd = ["line\nbreak", "\u2028", " ", "", "\ud83d", '"', "\\n", "世", "\x85", "\r"]
    vocabulary = Vocabulary([*SPECIALS, *odd])
    vocabulary.save(tmp_path / "vocabulary.txt")
    loaded = Vocabulary.load(tmp_path / "vocabulary.txt")
    assert loaded.tokens(range(len(loaded))) == [*SPECIALS, *odd]
    assert "世" in (tmp_path / "vocabulary.txt").read_text(encoding="utf-8")


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="begins with"):
        Vocabulary(["a", "b"])
    with pytest.raises(ConfigError, match="'a' is in it twice"):
        Vocabulary([*SPECIALS, "a", "a"])
    with pytest.raises(ConfigError, match="room for its 4 special tokens"):
        Vocabulary.count(TEXTS, size=3)
    with pytest.raises(BundleError, match="there is no vocabulary"):
        Vocabulary.load(tmp_path / "none.txt")
    for wrong in ("not json\n", "[1]\n", "1\n"):
        (tmp_path / "wrong.txt").write_text(wrong)
        with pytest.raises(BundleError, match="is no vocabulary"):
            Vocabulary.load(tmp_path / "wrong.txt")
