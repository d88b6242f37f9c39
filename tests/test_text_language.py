"""English or Chinese."""

import pytest

from tagsmith.text.language import language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Hello world", "en"),
        ("近日，一份教育行业成交数据显示", "zh"),
        ("拜登与G7在一起开会", "zh"),
        ("好看 http://t.cn/abcdefghijklmnop @someone_with_a_name", "zh"),
        ("I learned the character 学 today in class", "en"),
        ("これは日本語のテストです", "en"),
        ("café déjà vu", "en"),
        ("2024 😀 !!", "en"),
        ("", "en"),
    ],
)
def test_examples(text: str, language: str) -> None:
    assert language_of(text) == language
