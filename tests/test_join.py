"""Keyphrases of several models in one list."""

from __future__ import annotations

import json

import pytest

from conftest import sample_documents, write_rows
from tagsmith.errors import ConfigError
from tagsmith.pipelines.join import JoinedTagger
from tagsmith.pipelines.load import load_reader, load_tagger
from tagsmith.records import Document, Tag, Tags


class Says:
    """A voice that says the same of every document."""

    reads = "documents"

    def __init__(self, *tags, error=None):
        self.tags, self.error = tags, error

    def tag(self, documents, *, top=None):
        return [Tags(self.tags[:top], id=one.id, error=self.error) for one in documents]


def test_what_both_voices_say_comes_first():
    one = Says(Tag("sea salt", 0.6, "present", [(0, 8)]), Tag("cooking", 0.5, "absent"))
    two = Says(Tag("Honey", 0.8, "present", [(9, 14)]), Tag("sea salts", 0.4, "present", [(0, 8)]))
    (found,) = JoinedTagger([one, two]).tag([Document("sea salt honey", id="a")])
    assert [(tag.text, tag.score) for tag in found.tags] == [("sea salt", 0.5), ("Honey", 0.4), ("cooking", 0.25)]
    assert found.id == "a"
    assert found.tags[0].spans == [(0, 8)]
    (few,) = JoinedTagger([one, two]).tag(["sea salt honey"], top=1)
    assert len(few.tags) == 1


def test_a_voice_that_fails_leaves_the_word_to_the_others():
    silent, good = Says(error="it is too long"), Says(Tag("honey", 0.8, "present"))
    assert [tag.text for tag in JoinedTagger([silent, good]).tag(["x"])[0].tags] == ["honey"]
    assert JoinedTagger([silent, silent]).tag(["x"])[0].error == "it is too long"


def test_posts_and_documents_are_not_mixed(rank_bundle, extract_bundle):
    with pytest.raises(ConfigError, match="1 of the 2 voices tag posts"):
        JoinedTagger([load_tagger(rank_bundle), load_tagger(extract_bundle)])


def test_a_reader_that_extracts_joins_tag(run_cli, extract_bundle, tmp_path):
    rows = sample_documents()
    file = write_rows(tmp_path / "documents.jsonl", rows)
    alone = run_cli("extract", "--model", extract_bundle, "--input", file)
    assert run_cli("tag", "--model", extract_bundle, "--input", file).rows == alone.rows
    joined = run_cli("tag", "--model", "keyphrase-en", "--with", extract_bundle, "--input", file, "--top", 5)
    assert joined.code == 0, joined.err
    assert [row["id"] for row in joined.rows] == [row["id"] for row in alone.rows]
    assert all(0 < len(row["tags"]) <= 5 for row in joined.rows)
    kinds = {tag["kind"] for row in joined.rows for tag in row["tags"]}
    assert kinds == {"present", "absent"}
    scores = json.loads(run_cli("evaluate", "keyphrase-en", file, "--with", extract_bundle, "--json").out)
    assert scores["present_f1@M"] > 0.1


def test_streams_are_the_same_as_lists(extract_bundle):
    reader = load_reader(extract_bundle, "extract")
    joined = JoinedTagger([load_tagger(extract_bundle)])
    texts = ["the broth was salty", "noodles and broth"]
    assert [answer for _, answer in joined.stream(texts)] == joined.tag(texts)
    assert [one.words for one in joined.rank([Document(texts[0])])[0].candidates] == [
        tag.text for tag in reader.extract([texts[0]])[0].tags
    ]
