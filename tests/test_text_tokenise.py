"""Characters and words, and the way back."""

from hypothesis import given
from hypothesis import strategies as st

from tagsmith.text.tokenise import CharacterTokeniser, WordTokeniser, characters, word_spans, words


def test_words_of_mixed_scripts() -> None:
    assert words("Don't panic，世界 G7 👍🏽!?") == ["Don't", "panic", "，", "世", "界", "G7", "👍🏽", "!", "?"]
    assert words("it’s naïve cafe\u0301 snake_case") == ["it’s", "naïve", "cafe\u0301", "snake", "_", "case"]
    assert words("👨‍👩‍👧🇫🇷🇩🇪 ❤️") == ["👨‍👩‍👧", "🇫🇷", "🇩🇪", "❤️"]
    assert words("かな한글") == ["か", "な", "한", "글"]
    assert words("'quoted'") == ["'", "quoted", "'"]


@given(st.text())
def test_words_are_where_they_say_and_only_blanks_are_between(text: str) -> None:
    end = 0
    for word, start, stop in word_spans(text):
        assert text[start:stop] == word
        assert not text[end:start].strip()
        end = stop
    assert not text[end:].strip()
    assert [word for word, _, _ in word_spans(text)] == words(text)


@given(st.text())
def test_joined_characters_are_the_text(text: str) -> None:
    tokeniser = CharacterTokeniser()
    assert tokeniser.split(text) == characters(text)
    assert len(characters(text)) == len(text)
    assert tokeniser.join(tokeniser.split(text)) == text


def test_joined_words_read_well() -> None:
    tokeniser = WordTokeniser()
    for text in ("climate action now!", "世界杯决赛", "a (small) test, done.", "用iPhone拍", ""):
        assert tokeniser.join(tokeniser.split(text)) == text


@given(st.lists(st.sampled_from(["one", "two", "世", "界", ",", "#", "3"])))
def test_joining_loses_no_token(tokens: list[str]) -> None:
    assert WordTokeniser().join(tokens).replace(" ", "") == "".join(tokens)
