"""Readers of titles and texts, questions and passages: from rows to answers, alone and in company."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import tagsmith
from conftest import sample_documents, sample_labelled, sample_questions, write_rows
from tagsmith.bundle import load_bundle
from tagsmith.config import from_dict, to_dict
from tagsmith.errors import BundleError, ConfigError, DataError
from tagsmith.pipelines.evaluate_reading import (
    ALWAYS,
    KEEPS,
    SINGLES,
    choose_margin,
    choose_ranking,
    choose_temperature,
    evaluate_reader,
)
from tagsmith.pipelines.heads import FILL, Extractor, Marked, spans_of
from tagsmith.pipelines.load import load, load_reader, load_tagger
from tagsmith.pipelines.read import Reader, ReadSettings
from tagsmith.recipe.make import job_of
from tagsmith.recipe.own import own_recipe
from tagsmith.recipe.reading import ReadJob
from tagsmith.recipe.settings import Recipe, read_recipe
from tagsmith.recipe.together import READER
from tagsmith.records import Document, Labelled, Question, document_of, labelled_of, question_of

RECIPES = sorted((Path(__file__).parent.parent / "recipes" / "reader").glob("*.toml"))
LABELLED = [labelled_of(row) for row in sample_labelled()]
QUESTIONS = [question_of(row) for row in sample_questions()]
DOCUMENTS = [document_of(row) for row in sample_documents()]


@pytest.fixture(scope="module")
def labeller(classify_bundle):
    return load(classify_bundle)


@pytest.fixture(scope="module")
def answerer(answer_bundle):
    return load(answer_bundle)


@pytest.fixture(scope="module")
def extractor(extract_bundle):
    return load(extract_bundle)


# classify


def test_texts_get_their_labels_with_scores(labeller):
    found = labeller.classify(LABELLED, top=4)
    assert sum(one.labels[0].label == item.label for one, item in zip(found, LABELLED, strict=True)) >= 11
    assert [one.id for one in found] == [item.id for item in LABELLED]
    for one in found:
        scores = [label.score for label in one.labels]
        assert scores == sorted(scores, reverse=True)
        assert sum(scores) == pytest.approx(1.0, abs=1e-3)
    assert len(labeller.classify(["fresh beans"])[0].labels) == 3
    assert labeller.reads == "labelled"


def test_a_text_may_lack_its_title_and_a_title_its_text(labeller):
    found = labeller.classify(
        [
            Labelled("the barista and fresh beans"),
            Labelled("", title="the barista and fresh beans"),
            Labelled("beans", title="the barista " * 40),  # a title much longer than its text, and than the window
            Labelled("beans " * 400, title="beans"),
        ]
    )
    assert all(one.labels and one.error is None for one in found)


def test_texts_that_cannot_be_read_keep_their_place(labeller):
    found = labeller.classify(["", "a \ud800 b", "fresh beans", "\u200b"])
    assert [one.error is None for one in found] == [False, False, True, found[3].error is None]
    assert "empty" in found[0].error
    assert "surrogate" in found[1].error


def test_an_answer_does_not_depend_on_neighbours(labeller, extractor, answerer):
    together = labeller.classify(LABELLED)
    for item, one in zip(LABELLED[:4], together, strict=False):
        (alone,) = labeller.classify([item])
        assert [label.label for label in alone.labels] == [label.label for label in one.labels]
        assert [label.score for label in alone.labels] == pytest.approx([label.score for label in one.labels], abs=2e-2)
    marked = extractor.extract(DOCUMENTS)
    assert [[tag.text for tag in one.tags] for one in marked[:4]] == [
        [tag.text for tag in extractor.extract([item])[0].tags] for item in DOCUMENTS[:4]
    ]
    assert [one.answers[:1] for one in answerer.answer(QUESTIONS)][3:5] == [
        answerer.answer([item])[0].answers for item in QUESTIONS[3:5]
    ]


def test_the_temperature_is_chosen_on_dev(labeller, classify_bundle):
    chosen = load_bundle(classify_bundle).pipeline["temperature"]
    assert chosen == choose_temperature(labeller, LABELLED)
    assert choose_temperature(labeller, []) == 1.0


def test_labels_that_training_did_not_have_count_as_wrong(labeller):
    scores = evaluate_reader(labeller, [*LABELLED, replace(LABELLED[0], label="Opera")])
    assert scores["unseen_labels"] == 1
    assert scores["accuracy"] < 1.0
    assert scores["n"] == 13


# answer


def test_questions_get_a_piece_of_the_passage_or_nothing(answerer):
    found = answerer.answer(QUESTIONS)
    right = 0
    for item, one in zip(QUESTIONS, found, strict=True):
        right += (one.answers[0].text if one.answers else "") == (item.answers[0].text if item.answers else "")
        for answer in one.answers:
            assert item.context[answer.start : answer.end] == answer.text
            assert 0 <= answer.score <= 1
    assert right >= 20


def test_long_passages_are_read_in_windows(answerer):
    item = QUESTIONS[0]
    filler = "Nobody said a word about the long walk. " * 12
    (found,) = answerer.answer([Question(item.question, filler + item.context)], top=3)
    windows, raws = answerer.raw([Question(item.question, filler + item.context)])[0]
    assert len(windows) == len(raws) > 2
    assert windows[-1].places[-1].end == len(filler + item.context)
    for answer in found.answers:
        assert (filler + item.context)[answer.start : answer.end] == answer.text
    starts = [answer.start for answer in found.answers]
    assert len(set(starts)) == len(starts)


def test_questions_that_cannot_be_read_are_errors_in_their_place(answerer):
    found = answerer.answer(
        [Question("", "a passage"), Question("who?", ""), Question("who\ud800?", "x"), QUESTIONS[0]]
    )
    assert ["question" in (one.error or "") for one in found] == [True, False, True, False]
    assert "passage is empty" in found[1].error
    assert found[3].error is None


def test_the_margin_is_chosen_where_some_questions_have_no_answer(answerer):
    assert choose_margin(answerer, [item for item in QUESTIONS if item.answers]) == ALWAYS
    assert choose_margin(answerer, QUESTIONS) > ALWAYS


def test_a_margin_may_be_asked_to_spare_the_answers_there_are(answerer):
    wrong = [replace(item, context=f"{item.context} {item.context}", answers=(), impossible=True) for item in QUESTIONS]
    mixed = [*(item for item in QUESTIONS if item.answers), *wrong]  # cannot be told apart: silence is best over all
    sparing = Reader(answerer.model, answerer.pieces, answerer.head, replace(answerer.settings, spare=0.9))

    def answered(margin):
        sparing.settings = replace(sparing.settings, margin=margin)
        return evaluate_reader(sparing, mixed)["f1_answerable"]

    loose, strict = answered(choose_margin(sparing, mixed)), answered(choose_margin(answerer, mixed))
    assert answered(ALWAYS) >= loose >= 0.9 * answered(ALWAYS) > strict


def test_a_model_in_training_is_judged_with_the_margin_that_suits_it(answerer):
    job = ReadJob(Recipe(name="x", task="answer"))
    job.tokeniser, job.settings = answerer.pieces, replace(answerer.settings, margin=1e9)  # would never answer
    scores = job.evaluate(answerer.model, QUESTIONS)
    assert job.settings.margin == choose_margin(answerer, QUESTIONS)
    assert min(scores["f1_answerable"], scores["no_answer_accuracy"]) > 0.5


# extract


def test_keyphrases_come_with_their_places(extractor):
    found = extractor.extract(DOCUMENTS)
    assert evaluate_reader(extractor, DOCUMENTS)["span_f1"] > 0.8
    assert [one.id for one in found] == [item.id for item in DOCUMENTS]
    for item, one in zip(DOCUMENTS, found, strict=True):
        for tag in one.tags:
            assert tag.kind == "present"
            assert 0 < tag.score <= 1
            assert tag.title_spans is not None
            written = {item.text[start:end] for start, end in tag.spans}
            written |= {item.title[start:end] for start, end in tag.title_spans}
            assert tag.text in written


def test_a_document_may_lack_title_or_text(extractor):
    bare, only_title, empty = extractor.extract(["the film festival", Document("", title="the film festival"), ""])
    assert bare.error is None
    assert all(tag.title_spans is None for tag in bare.tags)
    assert all(tag.spans == () for tag in only_title.tags)
    assert "empty" in empty.error


def test_long_documents_are_read_to_their_end(extractor):
    item = DOCUMENTS[0]
    times = 20
    long = replace(item, text=" ".join([item.text] * times))
    (found,) = extractor.extract([long])
    spans = sorted(span for tag in found.tags for span in tag.spans)
    assert spans[-1][1] > len(long.text) - len(item.text)
    assert all(one[1] <= two[0] for one, two in pairwise(spans))


def test_labels_become_spans_that_never_cross_from_title_to_text():
    assert spans_of([1, 2, 0, 1, 2, 2], [True] * 4 + [False] * 2) == [(0, 2, 0), (3, 4, 0), (4, 6, 0)]
    assert spans_of([1, 3, 4, 2], [False] * 4) == [(0, 1, 0), (1, 3, 1), (3, 4, 0)]


def test_the_chance_of_a_span_is_that_of_brute_force():
    from itertools import product

    from tagsmith.nn.crf import CRF
    from tagsmith.pipelines.heads import SpanChances

    torch.manual_seed(0)
    crf, scores, lengths = CRF(3), torch.randn(1, 4, 3), torch.tensor([4])
    with torch.no_grad():
        chances = SpanChances(crf, scores, lengths)
        weights = {
            path: float(crf.path_score(scores, torch.tensor([path]), lengths).exp())
            for path in product(range(3), repeat=4)
        }
        for start, end in ((0, 1), (1, 3), (2, 4), (0, 4)):
            held = [
                weight
                for path, weight in weights.items()
                if path[start] == 1 and set(path[start + 1 : end]) <= {2} and (end == 4 or path[end] != 2)
            ]
            assert chances.of(0, start, end, 0) == pytest.approx(sum(held) / sum(weights.values()), rel=1e-4)
        (every,) = chances.likely(0.0)
        assert len(every) == 4 + 3 + 2 + 1
        assert dict(every)[1, 3, 0] == pytest.approx(chances.of(0, 1, 3, 0))


@pytest.fixture
def unsure(extractor):
    """A model that believes less in its best paths."""
    model = copy.deepcopy(extractor.model)
    with torch.no_grad():
        model.head.weight.mul_(0.4)
    return Reader(model, extractor.pieces, extractor.head, extractor.settings)


def test_keyphrases_beside_the_best_path_come_if_they_are_likely_enough(unsure):
    few = unsure.extract(DOCUMENTS, top=20)
    before = evaluate_reader(unsure, DOCUMENTS)["span_f1"]
    unsure.settings = replace(unsure.settings, keep=0.02)
    many = unsure.extract(DOCUMENTS, top=20)
    assert evaluate_reader(unsure, DOCUMENTS)["span_f1"] == before  # of the best path
    assert sum(len(one.tags) for one in many) > sum(len(one.tags) for one in few)
    for one, more in zip(few, many, strict=True):
        assert one.tags == more.tags[: len(one.tags)]  # they come behind all those of the best path
        assert len(more.tags) <= max(len(one.tags), FILL)
        assert len({tag.text.lower() for tag in more.tags}) == len(more.tags)
        assert [tag.score for tag in more.tags] == sorted((tag.score for tag in more.tags), reverse=True)


def test_keyphrases_of_one_word_may_count_less():
    head, item = Extractor(["KEY"]), Document("sea salt and honey and fresh basil oil")
    raws = [[Marked(0, 8, False, 0, 0.5), Marked(13, 18, False, 0, 0.9), Marked(23, 38, False, 0, 0.4, best=False)]]

    def ranked(**changes):
        return [tag.text for tag in head.finish(item, [], raws, ReadSettings(keep=0.1, **changes)).tags]

    assert ranked() == ["honey", "sea salt", "fresh basil oil"]
    assert ranked(single=0.5) == ["sea salt", "honey", "fresh basil oil"]
    assert ranked(top=1) == ["honey"]


def test_what_is_beside_the_best_path_neither_begins_nor_ends_with_a_stop_word():
    head, item = Extractor(["KEY"]), Document("the salt of the sea")
    spans = [(0, 3), (0, 8), (4, 8), (4, 11), (16, 19), (4, 19)]
    raws = [[Marked(*span, False, 0, 0.3 - number / 100, best=False) for number, span in enumerate(spans)]]
    found = head.finish(item, [], raws, ReadSettings(keep=0.1)).tags
    assert {tag.text for tag in found} == {"salt", "salt of the sea", "sea"}


def test_a_number_is_a_keyphrase_on_the_best_path_only():
    head, item = Extractor(["KEY"]), Document("3 of 1984 seas")
    raws = [[Marked(0, 1, False, 0, 0.3, best=False), Marked(5, 9, False, 0, 0.3)]]
    assert [tag.text for tag in head.finish(item, [], raws, ReadSettings(keep=0.1)).tags] == ["1984"]


def test_what_is_beside_the_best_path_stands_outside_of_better_keyphrases():
    head, item = Extractor(["KEY"]), Document("sea salt and salt oil", title="sea")
    raws = [
        [
            Marked(0, 8, False, 0, 0.5),  # sea salt
            Marked(0, 3, False, 0, 0.9, best=False),  # the sea of the text is in it,
            Marked(0, 3, True, 0, 0.4, best=False),  # that of the title is not
            Marked(4, 8, False, 0, 0.9, best=False),
            Marked(13, 21, False, 0, 0.3, best=False),  # salt oil, less believed in
            Marked(13, 17, False, 0, 0.2, best=False),  # than its salt
        ]
    ]
    found = head.finish(item, [], raws, ReadSettings(keep=0.1)).tags
    assert [(tag.text, tag.spans, tag.title_spans) for tag in found] == [
        ("sea salt", ((0, 8),), ()),
        ("sea", (), ((0, 3),)),
        ("salt", ((13, 17),), ()),
        ("salt oil", ((13, 21),), ()),
    ]


# what is asked of which model


def test_a_model_does_what_it_was_trained_for(labeller, classify_bundle):
    with pytest.raises(ConfigError, match="trained to classify, not to extract"):
        labeller.extract(["x"])
    with pytest.raises(BundleError, match="for the task 'classify', not for 'answer'"):
        load_reader(classify_bundle, "answer")
    with pytest.raises(BundleError, match="use `tagsmith classify` with it"):
        load_tagger(classify_bundle)
    assert isinstance(labeller, tagsmith.Reader)


def test_streams_are_lazy(labeller):
    def endless():
        while True:
            yield "fresh beans"

    stream = labeller.stream(endless())
    assert next(stream)[1].labels


# command line


def test_labels_from_the_command_line(run_cli, classify_bundle, tmp_path):
    result = run_cli(
        "classify", "--model", classify_bundle, "--title", "About beans", "fresh beans today", "--top", "2"
    )
    assert result.code == 0
    (row,) = result.rows
    assert set(row) == {"id", "labels", "error"}
    assert len(row["labels"]) == 2
    shown = run_cli("classify", "--model", classify_bundle, "fresh beans", terminal=True)
    assert shown.code == 0
    file = tmp_path / "in.csv"
    file.write_text("headline,body\nAbout the barista,so happy about the barista\n,\n", encoding="utf-8")
    out = tmp_path / "out.parquet"
    result = run_cli(
        *("classify", "--model", classify_bundle, "--input", file, "--title-field", "headline", "--output", out)
    )
    assert result.code == 1  # the second row is empty
    assert out.exists()


def test_broken_rows_keep_their_place(run_cli, answer_bundle, classify_bundle, extract_bundle, tmp_path):
    file = tmp_path / "in.jsonl"
    good = {
        "id": 2,
        "question": "What does Ada love?",
        "context": "Ada loves the broth.",
        "body": "x y",
        "abstract": "x y",
    }
    file.write_text('{"id": 1, "question": 7}\nnot json\n' + json.dumps(good) + "\n", encoding="utf-8")
    for command, bundle in (("answer", answer_bundle), ("classify", classify_bundle), ("extract", extract_bundle)):
        result = run_cli(command, "--model", bundle, "--input", file, "--json")
        assert result.code == 1
        assert [row["id"] for row in result.rows] == [1, None, 2]
        assert [row["error"] is None for row in result.rows] == [False, False, True], command


def test_answers_and_keyphrases_from_the_command_line(run_cli, answer_bundle, extract_bundle):
    asked = ("answer", "--model", answer_bundle, "Ada loves the broth. Ben hates rising seas.")
    result = run_cli(*asked, "--question", "What does Ada love?")
    assert result.code == 0
    assert set(result.rows[0]) == {"id", "answers", "error"}
    assert "give it with --question" in run_cli(*asked).err
    assert run_cli(*asked, "--question", "What does Ada love?", terminal=True).code == 0
    result = run_cli("extract", "--model", extract_bundle, "--title", "A study of broth", "does anyone love the broth?")
    assert result.code == 0
    assert "title_spans" in json.dumps(result.rows[0]) or result.rows[0]["tags"] == []
    assert run_cli("extract", "--model", extract_bundle, "the broth", terminal=True).code == 0
    assert "there is no model or folder 'extract-it'" in run_cli("extract", "--model", "extract-it", "the broth").err


def test_evaluate_gives_the_metrics_of_each_task(run_cli, answer_bundle, extract_bundle, classify_bundle, tmp_path):
    wanted = {
        "accuracy": (classify_bundle, sample_labelled()),
        "em": (answer_bundle, sample_questions()),
        "span_f1": (extract_bundle, sample_documents()),
    }
    for metric, (bundle, rows) in wanted.items():
        file = write_rows(tmp_path / "rows.jsonl", rows)
        scores = json.loads(run_cli("evaluate", bundle, file, "--json").out)
        assert scores[metric] > 0.7
        assert scores["n"] == len(rows)
        bare = write_rows(tmp_path / "bare.jsonl", [{"body": "x", "abstract": "x", "question": "x", "context": "x"}])
        assert "no row that tells what is right" in run_cli("evaluate", bundle, bare).err


# own files


@pytest.mark.parametrize("path", [one for one in RECIPES if one.stem != "reader-en"], ids=lambda path: path.stem)
def test_every_recipe_of_a_reader_can_be_built(path):
    recipe = read_recipe(path)
    assert recipe.name == path.stem
    assert from_dict(Recipe, to_dict(recipe)) == recipe
    job = job_of(replace(recipe, backbone=""))
    job.tokeniser, job.labels = SimpleNamespace(size=100), ("a", "b")
    with torch.device("meta"):
        model = job.build()
    assert model.config.asked == recipe.task
    assert model.config.longest >= recipe.batches.source == job.settings.source
    assert model.config.width == (312 if recipe.pipeline.get("language") == "zh" else 384)


def test_the_shipped_readers_of_a_language_have_one_reader():
    recipe = read_recipe(RECIPES[0].parent / "reader-en.toml")
    assert [part.name for part in recipe.parts] == ["extract-en", "topic-en", "answer-en"]
    found = set()
    for job in job_of(replace(recipe, backbone="")).jobs:
        job.tokeniser, job.labels = SimpleNamespace(size=100), ("a", "b")
        with torch.device("meta"):
            config = to_dict(job.build().config)
        found.add(tuple(config[name] for name in READER))
    assert len(found) == 1


def test_the_recipes_are_there():
    names = {path.stem for path in RECIPES}
    tails = ("", "-paper", "-plain", "-bilstm-crf", "-tg-crf")
    assert {f"extract-{one}{tail}" for one in ("inspec", "semeval2010", "semeval2017") for tail in tails} <= names


def test_an_own_file_begins_with_the_shipped_reader_of_its_language(tmp_path):
    english = write_rows(tmp_path / "en.jsonl", sample_labelled())
    chinese = write_rows(tmp_path / "zh.jsonl", [{"body": "今天的比赛很精彩", "label": "体育"}] * 3)

    def begun(task, file, *changes):
        recipe = own_recipe(task, str(file), out=None, fields={}, changes=changes)
        return recipe.start, recipe.model.get("freeze")

    frozen = not torch.cuda.is_available()
    assert begun("classify", english) == ("topic-en", frozen)
    assert begun("answer", english) == ("answer-en", frozen)
    assert begun("classify", chinese) == begun("extract", chinese) == ("topic-zh", frozen)
    assert begun("classify", english, "start=extract-en", "model.freeze=false") == ("extract-en", False)
    assert begun("classify", english, "backbone=folder") == ("", frozen)
    assert begun("classify", english, "start=") == ("", False)


def test_a_file_of_texts_is_enough_to_train(run_cli, tmp_path):
    lines = ["headline,body,label"]
    lines += [f"{row['title']},{row['body']},{row['label']}" for row in sample_labelled() * 4]
    file = tmp_path / "my.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = run_cli(
        *("train", "--task", "classify", "--data", file, "--title-field", "headline", "--out", tmp_path / "my-topics"),
        *("--set", "train.steps=8"),
    )
    assert result.code == 0, result.err
    assert "tagsmith classify --model" in result.err
    assert "weakest: " in result.err
    assert "chosen model on" in result.err
    again = run_cli("classify", "--model", tmp_path / "my-topics" / "bundle", "fresh beans")
    assert again.rows[0]["labels"]


def test_files_that_teach_nothing_are_refused(run_cli, tmp_path):
    one = write_rows(tmp_path / "one.jsonl", [{"body": f"text {number}", "label": "only"} for number in range(30)])
    result = run_cli("train", "--task", "classify", "--data", one, "--out", tmp_path / "out")
    assert result.code == 2
    assert "a classifier needs two at least" in result.err
    none = write_rows(tmp_path / "none.jsonl", [{"body": "x"}])
    result = run_cli("train", "--task", "extract", "--data", none, "--out", tmp_path / "out2")
    assert result.code == 2


def test_rows_of_the_wrong_shape_say_so():
    with pytest.raises(DataError, match="'label' must be a string or a whole number"):
        labelled_of({"body": "x", "label": [1]})
    with pytest.raises(DataError, match="has no field 'context'"):
        question_of({"question": "x"})
    with pytest.raises(DataError, match="an answer must be"):
        question_of({"question": "x", "context": "y", "answers": [7]})
    with pytest.raises(DataError, match="lists of one length"):
        document_of({"tokens": ["a"], "tags": []})
    with pytest.raises(DataError, match="has no field 'title', 'body' or 'text'"):
        labelled_of({"id": 1})


def test_keyphrases_are_also_measured_as_ranked_phrases(extractor):
    scores = evaluate_reader(extractor, DOCUMENTS)
    assert 0 < scores["present_f1@10"] < scores["present_f1@5"] < scores["present_f1@M"] <= 1
    assert "present_f1@5" not in evaluate_reader(extractor, DOCUMENTS, ranked=False)
    chosen = choose_ranking(extractor, DOCUMENTS)
    assert chosen.keep in KEEPS
    assert chosen.single in SINGLES
    assert replace(chosen, keep=1.0, single=1.0) == extractor.settings
    assert extractor.settings.keep == 1.0


def test_windows_are_made_once_where_they_are_remembered(extractor, monkeypatch):
    reader = Reader(extractor.model, extractor.pieces, extractor.head, extractor.settings, memory={})
    first = reader.raw(DOCUMENTS)
    monkeypatch.setattr(reader, "windows", lambda items: [] if not items else pytest.fail("made again"))
    assert reader.raw(DOCUMENTS) == first
