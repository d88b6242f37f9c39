"""Documents to keyphrases: terms and targets, rules of writing, the tagger's promises, a user's own list."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from conftest import sample_documents, write_rows
from tagsmith.data.trie import Trie
from tagsmith.errors import DataError
from tagsmith.pipelines.load import load, load_tagger
from tagsmith.pipelines.missing import Missing
from tagsmith.pipelines.phrases import KeyphraseSettings, exclusive, grammar, phrases_in, within
from tagsmith.records import Document, Tag, Tags, document_of, to_row
from tagsmith.text.symbols import load_tokeniser
from tagsmith.text.term_list import TermList, read_terms
from tagsmith.text.terms import ABSENT, PRESENT, Terms, phrase_terms, targets_of, terms
from tagsmith.text.vocabulary import END, SEP, UNK

DOCUMENTS = [document_of(row) for row in sample_documents()]


@pytest.fixture(params=["keyphrase_bundle", "slots_bundle"])
def tagger(request):
    return load_tagger(request.getfixturevalue(request.param))


# terms and targets


def test_terms_are_lower_case_without_asides_and_numbers_are_one_word():
    assert terms("The Co-occurrence [12] of 3.5 GHz, {x} e.g. 4") == [
        *("the", "co", "occurrence", "of", "<digit>", ".", "<digit>", "ghz", ",", "e", ".", "g", ".", "<digit>")
    ]
    assert terms("in 1999 2000 and 3rd") == ["in", "<digit>", "and", "<digit>"]
    assert phrase_terms("Support Vector Machines (SVM)?") == ("support", "vector", "machines")


def test_targets_are_present_by_place_then_absent_each_stem_once():
    text = "Learning of kernels. Support vector machines learn graphs."
    found = targets_of(text, ["Graph", "deep learning", "Support Vector Machine", "graphs", "kernel", "one two " * 4])
    assert [(one.kind, " ".join(one.words)) for one in found] == [
        (PRESENT, "kernel"),
        (PRESENT, "support vector machine"),
        (PRESENT, "graph"),
        (ABSENT, "deep learning"),
    ]


def test_unknown_words_have_ids_of_their_own_text(tmp_path):
    coder = Terms.count(["a graph of words", "a graph"], 10, extra=1)
    (text,) = coder.read(["a quux of zork quux"])
    assert text.unknown == ("quux",)
    assert text.ids[1] == text.ids[4] == coder.size
    assert text.ids[3] == UNK  # there is room for one only
    targets = targets_of("a quux of zork quux", ["quux", "zork", "blip", "graph quux"])
    rows = coder.write(text, targets)
    assert [row[0] for row in rows] == [PRESENT, ABSENT]  # those of unknown words alone are left out
    assert coder.join(rows[0][1:], text) == "quux"
    assert coder.join([UNK], text) == ""
    coder.save(tmp_path / "t.json")
    again = load_tokeniser(tmp_path / "t.json")
    assert isinstance(again, Terms)
    assert again.read(["a quux"]) == coder.read(["a quux"])


# rules


def test_the_grammar_of_phrases():
    rule = grammar(KeyphraseSettings(words=2))

    def allowed(*written: int) -> set[int]:
        scores = rule(torch.tensor([[list(written)]]).long().view(1, 1, -1), torch.zeros(1, 1, 10))
        return set((scores[0, 0] > -torch.inf).nonzero()[:, 0].tolist())

    words = {UNK, 6, 7, 8, 9}
    assert allowed() == {PRESENT, ABSENT}
    assert allowed(PRESENT) == words
    assert allowed(PRESENT, 7) == words | {SEP}
    assert allowed(PRESENT, 7, 8) == {SEP}
    assert allowed(PRESENT, 7, SEP) == {PRESENT, ABSENT, END}
    assert allowed(PRESENT, 7, SEP, ABSENT) == words


def test_a_phrase_does_not_begin_like_the_ones_before_it():
    written = torch.tensor([[[PRESENT, 7, 8, SEP, PRESENT, 9, SEP, ABSENT]]])
    for count, banned in ((1, {9}), (2, {7, 9})):
        scores = exclusive(count, kinds=True)(written, torch.zeros(1, 1, 10))
        assert set((scores[0, 0] == -torch.inf).nonzero()[:, 0].tolist()) - {0} == banned
    inside = exclusive(2, kinds=True)(written[:, :, :-2], torch.zeros(1, 1, 10))
    assert (inside[0, 0, 1:] == 0).all()
    flat = exclusive(1, kinds=False)(torch.tensor([[[7, 8, SEP]]]), torch.zeros(1, 1, 10))
    assert float(flat[0, 0, 7]) == -torch.inf


def test_phrases_are_cut_at_their_marks():
    assert list(phrases_in([PRESENT, 7, 8, SEP, ABSENT, 9, SEP])) == [(1, 3), (5, 6)]
    assert list(phrases_in([7, 8, SEP, SEP, 9])) == [(0, 2), (4, 5)]


def test_a_tree_knows_what_may_follow():
    tree = Trie([[7, 8, SEP], [7, SEP], [9, SEP], [7, 8, SEP]])
    assert tree.children(()).tolist() == [7, 9]
    assert tree.children((7,)).tolist() == [SEP, 8]
    assert tree.children((7, 8)).tolist() == [SEP]
    assert tree.children((8,)).tolist() == []
    assert tree.children((7, 8, SEP)).tolist() == []


def test_a_list_bars_everything_else():
    rule = within(Trie([[7, 8, SEP], [9, SEP]]), 10, kinds=True)
    written = torch.tensor([[[PRESENT, 9, SEP, PRESENT], [PRESENT, 9, SEP, PRESENT]], [[PRESENT, 7, 8, SEP]] * 2])
    scores = rule(written, torch.zeros(2, 2, 12))
    assert (scores[0, 0] > -torch.inf).nonzero()[:, 0].tolist() == [7, 9]
    assert (scores[1] == 0).all()  # between phrases the grammar decides
    inside = rule(torch.tensor([[[PRESENT, 7]]]), torch.zeros(1, 1, 12))
    assert (inside[0, 0] > -torch.inf).nonzero()[:, 0].tolist() == [8]


# the tagger


def test_what_was_learned_is_written(tagger):
    right = 0
    for document, answer in zip(DOCUMENTS, tagger.tag(DOCUMENTS), strict=True):
        gold = {phrase.lower() for phrase in document.keyphrases}
        right += len(gold & {tag.text.lower() for tag in answer.tags[:3]})
    assert right > 2.2 * len(DOCUMENTS)


def test_answers_keep_their_order_and_do_not_depend_on_neighbours(tagger):
    together = tagger.tag(DOCUMENTS)
    assert [answer.id for answer in together] == [document.id for document in DOCUMENTS]
    for place in (0, 7, 20):
        alone = tagger.tag([DOCUMENTS[place]])[0]
        assert {tag.text: tag.score for tag in alone.tags} == pytest.approx(
            {tag.text: tag.score for tag in together[place].tags}, abs=0.02
        )
    assert [answer for _, answer in tagger.stream(DOCUMENTS)] == together


def test_scores_fall_and_spans_point_at_the_words(tagger):
    for document, answer in zip(DOCUMENTS, tagger.tag(DOCUMENTS), strict=True):
        scores = [tag.score for tag in answer.tags]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        for tag in answer.tags:
            assert tag.title_spans is not None
            assert (tag.kind == "present") == bool(tag.spans or tag.title_spans)
            for start, end in tag.spans:
                assert document.text[start:end].lower() == tag.text.lower()


def test_top_is_the_most_that_come_back(tagger):
    assert all(len(answer.tags) == 1 for answer in tagger.tag(DOCUMENTS[:5], top=1))


@pytest.mark.parametrize("given", ["", "   ", "?!", "\ud800"])
def test_a_document_that_cannot_be_read_says_why(tagger, given):
    good, bad = tagger.tag(["a bowl of noodles", given])
    assert bad.error
    assert not bad.tags
    assert good.error is None


def test_a_title_alone_is_enough_and_long_texts_are_cut(tagger):
    alone, long = tagger.tag([Document("", title="A study of broth"), Document("a bowl of noodles " * 5000)])
    assert alone.error is None
    assert alone.tags
    assert all(tag.spans == () for tag in alone.tags)
    assert long.error is None


def test_a_phrase_is_spelled_as_in_the_text():
    from tagsmith.pipelines.keyphrase import plainest

    assert plainest("dna methylation", ["DNA Methylation", "DNA methylation"]) == "DNA methylation"
    assert plainest("absent one", []) == "absent one"


def test_the_row_of_a_document_has_the_places_in_its_title():
    row = to_row(Tags((Tag("x", 0.5, "present", ((0, 1),), ((2, 3),)),), id=1))
    assert row["tags"] == [{"text": "x", "score": 0.5, "kind": "present", "spans": [[0, 1]], "title_spans": [[2, 3]]}]


# a user's own list


def test_a_list_is_kept_to_in_its_own_spelling(tagger):
    bound = tagger.within(TermList(["Bowl of NOODLES", "Ramen Research", "chess research"]))
    answers = bound.tag(DOCUMENTS)
    assert {tag.text for answer in answers for tag in answer.tags} <= {
        "Bowl of NOODLES",
        "Ramen Research",
        "chess research",
    }
    of_ramen = next(place for place, one in enumerate(DOCUMENTS) if "bowl of noodles" in one.title)
    assert answers[of_ramen].tags[0].text in ("Bowl of NOODLES", "Ramen Research")
    assert tagger.tag(DOCUMENTS[:1])[0].tags  # the free one is as before
    assert tagger.rules == ()


def test_terms_that_cannot_be_written_are_refused(keyphrase_bundle):
    with pytest.raises(DataError, match="none of the 1 terms"):
        load_tagger(keyphrase_bundle).within(TermList(["zyzzyva quux"]))


def test_a_list_knows_its_terms_by_their_stems(tmp_path):
    (tmp_path / "list.txt").write_text("Neural Networks\n\nneural network\nDNA\n" + "x" * 300 + "\n", encoding="utf-8")
    found = read_terms(tmp_path / "list.txt")
    assert (len(found), found.repeated, found.too_long) == (2, 1, 1)
    assert "neural network" in found
    assert found.spelling("dna") == "DNA"
    assert found.spelling("rna") is None


@pytest.mark.parametrize(
    ("content", "words"), [(b"\n \n", "is empty; give one term"), (b"\xff\xfe\x00x", "no text in UTF-8")]
)
def test_a_file_that_is_no_list_is_refused(tmp_path, content, words):
    (tmp_path / "list.txt").write_bytes(content)
    with pytest.raises(DataError, match=words):
        read_terms(tmp_path / "list.txt")
    with pytest.raises(DataError, match="cannot be read"):
        read_terms(tmp_path / "none.txt")


def test_a_document_that_no_term_fits_gets_none():
    bound = load_tagger("keyphrase-en").within(TermList(["graph neural networks", "labour law"]))
    fits = "We train graph neural networks on molecules and show that their depth matters."
    found = bound.tag([fits, "A recipe for noodle soup with eggs and spring onions."])
    assert [[tag.text for tag in one.tags] for one in found] == [["graph neural networks"], []]


def test_what_a_list_lacks_is_counted_by_document():
    missing = Missing(TermList(["graph"]))
    for texts in (["graphs", "deep learning"], ["Deep Learning", "once"], ["graph"]):
        missing.add(Tags(tuple(Tag(text, 0.5, "absent") for text in texts)))
    assert missing.frequent() == [("deep learning", 2)]
    assert missing.frequent(least=1, most=1) == [("deep learning", 2)]


def test_the_pipeline_of_a_bundle_reads_documents(slots_bundle):
    assert load(slots_bundle).reads == "documents"


def test_documents_go_in_and_rows_come_out(keyphrase_bundle, tmp_path, run_cli):
    rows = write_rows(tmp_path / "in.jsonl", sample_documents()[:4])
    terms_file = tmp_path / "list.txt"
    terms_file.write_text("bowl of noodles\nflat white\n", encoding="utf-8")
    result = run_cli("tag", "--model", keyphrase_bundle, "--input", rows, "--output", tmp_path / "out.jsonl")
    assert result.code == 0
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == [0, 1, 2, 3]
    assert all("title_spans" in tag for line in lines for tag in line["tags"])
    result = run_cli(
        *("tag", "--model", keyphrase_bundle, "--input", rows, "--output", tmp_path / "out.parquet"),
        *("--vocab", terms_file, "--missing", tmp_path / "missing.jsonl"),
    )
    assert result.code == 0
    assert (tmp_path / "missing.jsonl").exists()
    result = run_cli("evaluate", keyphrase_bundle, write_rows(tmp_path / "all.jsonl", sample_documents()), "--json")
    scores = json.loads(result.out)
    assert scores["present_f1@M"] > 0.6
    assert {"present_f1@5", "absent_f1@M", "duplicates", "predicted", "intervals", "n"} <= set(scores)


def test_a_list_is_for_keyphrases_and_missing_is_for_a_list(tiny_bundle, keyphrase_bundle, tmp_path, run_cli):
    (tmp_path / "list.txt").write_text("coffee\n", encoding="utf-8")
    wrong = run_cli("tag", "--model", tiny_bundle, "some text", "--vocab", tmp_path / "list.txt")
    assert wrong.code == 2
    assert "--vocab is for models that write keyphrases" in wrong.err
    wrong = run_cli("tag", "--model", keyphrase_bundle, "some text", "--missing", tmp_path / "m.jsonl")
    assert wrong.code == 2
    assert "name the list with --vocab" in wrong.err


def test_a_model_goes_on_with_a_users_own_documents(slots_bundle, tmp_path, run_cli, monkeypatch):
    shutil.copytree(slots_bundle, tmp_path / "bundles" / "keyphrase-en")
    monkeypatch.setattr("tagsmith.bundle.SHIPPED", tmp_path / "bundles")
    data = write_rows(tmp_path / "mine.jsonl", sample_documents())
    out = tmp_path / "my-model"
    result = run_cli("train", "--task", "keyphrase", "--data", data, "--out", out, "--set", "train.steps=3")
    assert result.code == 0, result.err
    assert run_cli("tag", "--model", out / "bundle", "a bowl of noodles", "--json").rows[0]["tags"]
    bare = write_rows(tmp_path / "bare.jsonl", [{"text": "no phrases here"}])
    wrong = run_cli("train", "--task", "keyphrase", "--data", bare, "--out", tmp_path / "other")
    assert wrong.code == 2
    assert "have no keyphrases; they belong in a field 'keyphrases' (rename yours" in wrong.err
