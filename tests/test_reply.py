"""Replies: training data, drawing and search, the replier's promises, evidence, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import tagsmith
from battery import random_batch
from conftest import sample_pairs, write_rows
from tagsmith.data.batches import BatchSettings, PairBatch
from tagsmith.data.replies import MOST_TOPICS, ReplyBatches, ReplyCorpus, ReplyRow
from tagsmith.decode import Ends, Several, draw_at, follow, greedy
from tagsmith.errors import BundleError, ConfigError, DataError, TrainError
from tagsmith.models.relevance import Relevance, RelevanceConfig
from tagsmith.pipelines.evaluate_replies import evaluate_replier
from tagsmith.pipelines.load import load_replier, load_tagger
from tagsmith.pipelines.replies import Candidate, ReplyFinder, log_probabilities, towards
from tagsmith.pipelines.reply import Replier
from tagsmith.recipe import informative, job_of, make, read_recipe
from tagsmith.recipe.informative import UNSEEN, Relations, topics_of
from tagsmith.records import Pair, Post, Replies, pair_of, reply_row
from tagsmith.text.block_list import BlockList, read_block_list
from tagsmith.text.keywords import EnglishKeywords, Word
from tagsmith.text.pieces import END, PAD, SEPARATOR, Pieces

PAIRS = [pair_of(row) for row in sample_pairs()]
QUERIES = [pair.query for pair in PAIRS]


@pytest.fixture(scope="module")
def replier(reply_bundle):
    return load_replier(reply_bundle)


# records


def test_a_pair_is_read_and_replies_are_written():
    assert pair_of({"query": "hi", "response": "hello", "id": 3}) == Pair("hi", ("hello",), 3)
    assert pair_of({"query": "hi", "responses": ["a, b", " "], "part": "iid"}) == Pair("hi", ("a, b",), None, ("iid",))
    with pytest.raises(DataError, match=r"no field 'query'.*--field query=NAME"):
        pair_of({"text": "hi"})
    with pytest.raises(DataError, match="'query' must be a string, not int"):
        pair_of({"query": 3})
    with pytest.raises(DataError, match="'responses' must be a list of strings"):
        pair_of({"query": "hi", "responses": [3]})
    assert reply_row(Replies(id=1, error="no")) == {"id": 1, "replies": [], "error": "no"}


# what training learns from


def test_related_words_are_informative():
    pairs = [
        Pair("my dog barks at night", ("dogs bark loudly",)),
        Pair("my cat sleeps at night", ("cats sleep softly",)),
        Pair("that dog barks again", ("dogs bark",)),
    ] * 2
    keywords = EnglishKeywords()
    found = Relations.count(pairs, keywords)
    assert found.relation("dog", ["dogs"]) == pytest.approx(4 / (4 * 4))
    assert found.relation("night", ["dogs"]) == pytest.approx(2 / (4 * 4))
    assert found.relation("dog", ["cats"]) == UNSEEN
    assert found.relation("yak", ["dogs"]) == UNSEEN
    assert found.informative(["dog", "barks", "night"], ["dogs"]) == {"dog", "barks", "night"}
    many = ["house", "street", "garden", "window", "yard", "night", "dog"]
    assert found.informative(many, ["dogs"]) == {
        "dog",
        "night",
        "house",
        "street",
        "garden",
    }  # five; the first of equals


def test_counting_in_parts_is_counting_at_once(monkeypatch):
    keywords = EnglishKeywords()
    whole = Relations.count(PAIRS, keywords)
    monkeypatch.setattr(informative, "BUFFER", 7)
    parts = Relations.count(PAIRS, keywords)
    assert np.array_equal(parts._codes, whole._codes)
    assert np.array_equal(parts._times, whole._times)
    monkeypatch.setattr(informative, "MOST_PAIRS", 5)
    monkeypatch.setattr(informative, "MOST_WORDS", 20)
    few = Relations.count(PAIRS, keywords)
    assert len(few._codes) < len(whole._codes)


def test_topics_are_the_keywords_of_all_responses():
    assert topics_of([["red", "wine"], ["wine", "cheese"]], language="en") == ["red", "wine", "cheese"]
    assert topics_of([["火锅", "好的"]], language="zh") == ["火锅"]  # as in the paper: no stop character


def corpus_of(folder, rows=None) -> ReplyCorpus:
    rows = rows or [
        ReplyRow([10, 11, 12], [[20], [21, 22]], [[0], [1, 2]], [30, 31, 32, 33, 34]),
        ReplyRow([], [[20]], [[]], []),
        ReplyRow([13] * 9, [[], [23]], [[0], [8]], []),
        ReplyRow([14], [[24] * 12], [[]], list(range(40, 90))),
    ]
    return ReplyCorpus.write(rows, folder, separator=SEPARATOR)


def test_batches_carry_the_marks_of_the_response_that_was_drawn(tmp_path):
    batches = ReplyBatches(corpus_of(tmp_path), BatchSettings(tokens=96, source=8, target=8, targets="one"))
    seen = set()
    for epoch in range(12):
        for (batch,) in batches.epoch(epoch):
            assert batch.topics.shape[1] == MOST_TOPICS
            assert batch.informative.shape == batch.source.shape
            for ids, target, marks, topics in zip(batch.source, batch.target, batch.informative, batch.topics):
                own, said = ids[ids != PAD].tolist(), target[target != PAD].tolist()
                assert said[-1] == END
                if own[0] == 10:
                    assert marks.nonzero()[:, 0].tolist() == ([0] if said[0] == 20 else [1, 2])
                    assert len(set(topics.tolist()) - {PAD}) == 4  # 80 % of five
                    assert set(topics.tolist()) <= {PAD, 30, 31, 32, 33, 34}
                    seen.add(said[0])
                if own[0] == 13:
                    assert not marks.any()  # its mark lies beyond the cut
                if own[0] == 14:
                    assert (topics != PAD).sum() == MOST_TOPICS
                    assert len(said) == 8
    assert seen == {20, 21}
    again = [batch.target.tolist() for (batch,) in batches.shard(0, 1).epoch(3)]
    assert again == [batch.target.tolist() for (batch,) in batches.epoch(3)]
    with pytest.raises(TrainError, match="no finished corpus"):
        ReplyCorpus.open(tmp_path / "none")


def test_preparation_is_the_same_twice_and_found_again(reply_recipe, reply_bundle, tmp_path):
    recipe = read_recipe(reply_recipe)
    first = job_of(recipe)
    first.prepare(tmp_path / "a", lambda event: None)
    made = sorted((tmp_path / "a" / "corpus").iterdir())
    for path in made:
        assert path.read_bytes() == (reply_bundle.parent / "corpus" / path.name).read_bytes()
    stamps = [path.stat().st_mtime_ns for path in made]
    job_of(recipe).prepare(tmp_path / "a", lambda event: None)
    assert [path.stat().st_mtime_ns for path in made] == stamps


def test_recipes_that_cannot_be_are_refused(reply_recipe):
    for change, message in (
        ('tokeniser.kind="words"', "tokeniser.kind 'pieces', not 'words'"),
        ('batches.targets="all"', "batches.targets is 'one', not 'all'"),
        ('teacher="x"', "has no teacher"),
        ("pipeline.temperature=0", "temperature must be above 0"),
        ("pipeline.tops=3", "did you mean 'top'"),
    ):
        with pytest.raises(ConfigError, match=message):
            job_of(read_recipe(reply_recipe, [change]))


class Pairs:
    """Words of two characters, instead of jieba's."""

    def words(self, text):
        return [Word(text[start : start + 2], start, start + 2) for start in range(0, len(text) - 1, 2)]

    def keywords(self, text):
        return [word.text for word in self.words(text)][:5]

    def topical(self, text):
        return frozenset(self.keywords(text))


def test_marks_fall_on_the_characters_of_chinese_words(reply_recipe):
    job = job_of(read_recipe(reply_recipe, ['pipeline.language="zh"']))
    job.pieces = Pieces.train(["今天火锅很好吃", "周末一起去吃火锅吧"], 60)
    pair = Pair("今天火锅", ("火锅好吃", "!"))
    (row,) = job._rows(iter([pair]), Relations.count([pair], Pairs()), Pairs())
    tokens = [job.pieces.join([one]) for one in row.query]
    assert [tokens[place] for place in row.places[0]] == ["今", "天", "火", "锅"]  # without the blank before them
    assert [job.pieces.join([one]) for one in row.topics] == ["火", "锅", "好", "吃"]
    assert row.places[0] == row.places[1]  # a response without keywords: the query's own


RECIPES = sorted((Path(__file__).parent.parent / "recipes" / "reply").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_can_be_built(path):
    """Their settings fit together, and the shipped sizes stay under 12 MB."""
    job = job_of(read_recipe(path))
    job.pieces = SimpleNamespace(size=job.recipe.tokeniser.size)
    with torch.device("meta"):
        model = job.build()
    if path.stem.startswith("reply-"):
        assert sum(weight.numel() for weight in model.parameters()) < 11.3e6
    assert job.recipe.name == path.stem


# search


def small() -> Relevance:
    torch.manual_seed(2)
    return Relevance(RelevanceConfig(vocab=40, width=16, heads=2, inner=32, layers=2, dropout=0.0, longest=48)).eval()


def test_given_chances_draw_each_token_as_often_as_it_is_likely():
    logs = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()
    chances = (torch.arange(1000) + 0.5) / 1000
    drawn = draw_at(logs.expand(1000, -1), chances, top_k=0)
    assert torch.bincount(drawn).tolist() == [500, 250, 150, 100]
    two = draw_at(logs.expand(900, -1), (torch.arange(900) + 0.5) / 900, top_k=2)
    assert torch.bincount(two).tolist() == [600, 300]
    assert draw_at(logs[None], torch.tensor([1.0]), top_k=0).tolist() == [3]


def test_following_with_one_token_to_draw_from_is_greedy():
    model, batch = small(), random_batch(4)
    wanted = greedy(model.stepper(batch.source, batch.source_lengths), ends=Ends((END,)), steps=6)
    stepper = Several(model.stepper(batch.source, batch.source_lengths), 3)
    steps = list(follow(stepper, torch.rand(12, 6), ends=Ends((END,)), top_k=1))
    written = torch.stack([step.tokens for step in steps], 1)
    for row in range(12):
        length = int(wanted.lengths[row // 3, 0])
        assert written[row, :length].tolist() == wanted.tokens[row // 3, 0, :length].tolist()
    assert_close(steps[-1].total, wanted.scores[:, 0].repeat_interleave(3), atol=1e-4, rtol=1e-4)


def test_drawing_asks_for_no_token_behind_the_last():
    model, batch = small(), random_batch(2)
    steps = model.config.longest - int(batch.source_lengths.max())  # the last token is written, not read
    stepper = model.stepper(batch.source, batch.source_lengths)
    assert len(list(follow(stepper, torch.rand(2, steps), ends=Ends((), whole=99)))) == steps


def test_what_was_drawn_counts_as_the_whole_pass_says():
    model, batch = small(), random_batch(3)
    stepper = Several(model.stepper(batch.source, batch.source_lengths), 2)
    steps = list(follow(stepper, torch.rand(6, 5), ends=Ends((39,)), temperature=0.7))
    written = torch.stack([step.tokens for step in steps], 1)
    rows = torch.arange(3).repeat_interleave(2)
    whole = PairBatch(batch.source[rows], batch.source_lengths[rows], written, torch.full((6,), written.shape[1]))
    logs = model(whole).scores.log_softmax(-1).gather(2, written[:, :, None])[:, :, 0]
    own = Ends((39,)).lengths(written[:, None])[:, 0]
    counted = torch.arange(written.shape[1]) <= own[:, None]
    assert_close(steps[-1].total, (logs * counted).sum(1), atol=1e-4, rtol=1e-4)


def test_words_to_talk_about_are_likelier_until_they_are_said():
    rule = towards([[7, 8]], 2.0)
    scores = torch.zeros(1, 1, 10)

    def raised(*written: int) -> list[int]:
        found = rule(torch.tensor([[list(written)]]).long().view(1, 1, -1), scores)
        return (found[0, 0] > 0).nonzero()[:, 0].tolist()

    assert raised() == [7]
    assert raised(3, 7) == [7, 8]
    assert raised(7, 8, 3) == []
    assert not scores.any()  # the given ones stay


@torch.no_grad()
def test_how_likely_a_text_is_by_itself_is_the_sum_of_its_tokens():
    model, batch = small(), random_batch(3)
    found = model.own_likeliness(batch.source, batch.source_lengths)
    for row, length in enumerate(batch.source_lengths.tolist()):
        total = 0.0
        for end in range(1, length):
            states = model.read(batch.source[row : row + 1, :end], torch.tensor([end])).states[:, -1:]
            total += float(model.scores(model.head(states)).log_softmax(-1)[0, 0, batch.source[row, end]])
        assert_close(float(found[row]), total, atol=1e-4, rtol=1e-4)


# the replier


def test_the_public_way_in(reply_bundle):
    found = tagsmith.load(reply_bundle).reply(["so happy about the broth today"], seed=1)
    assert isinstance(found[0], tagsmith.Replies)
    assert isinstance(tagsmith.load(reply_bundle), tagsmith.Replier)


def test_replies_are_different_scored_and_best_first(replier):
    for answer in replier.reply(QUERIES[:6], top=4, seed=1):
        texts = [one.text for one in answer.replies]
        assert 1 <= len(texts) <= 4
        assert len({text.lower().strip("!.? ") for text in texts}) == len(texts)
        scores = [one.score for one in answer.replies]
        assert all(0 < score <= 1 for score in scores)
        assert all(text[0].isupper() and text == text.strip() for text in texts)


@torch.no_grad()
def test_what_is_likely_anyway_counts_against_a_reply(replier):
    finder = replier.finder
    wish = replier.wish(top=8, seed=3)
    ready = [one for one in replier.ready([Pair(query) for query in QUERIES[:6]]) if one]
    weighed = ReplyFinder(finder.model, finder.pieces, replace(finder.settings, own_weight=0.5))
    moved = 0
    for plain, other in zip(finder.find(ready, wish), weighed.find(ready, wish), strict=True):
        scores = {one.text: one.score for one in plain}
        assert all(one.score == scores.get(one.text, one.score) for one in other)
        texts = [torch.tensor([one.ids]) for one in other]
        own = [float(finder.model.own_likeliness(ids, torch.tensor([ids.shape[1]]))) for ids in texts]
        worth = [(one.total - 0.5 * each) / (len(one.ids) + one.ended) for one, each in zip(other, own, strict=True)]
        whole = [value for value, one in zip(worth, other, strict=True) if one.ended]
        assert whole == sorted(whole, reverse=True)
        moved += [one.text for one in plain] != [one.text for one in other]
    assert moved


def test_it_learned_its_pairs(replier):
    scores = evaluate_replier(replier.searching(4), PAIRS)
    assert scores["n"] == len(PAIRS)
    assert scores["bleu2"] > 0.3
    assert scores["hit_r"] > 0.2
    assert set(scores) >= {"bleu2", "bleu3", "bleu4", "p2", "p3", "p4", "dist1", "dist2", "hit_q", "hit_r"}
    assert evaluate_replier(replier, PAIRS[:5]) == evaluate_replier(replier, PAIRS[:5])


def test_a_seed_repeats_and_an_answer_does_not_depend_on_its_neighbours(replier):
    together = replier.reply(QUERIES[:9], seed=5, evidence=True)
    assert replier.reply(QUERIES[:9], seed=5, evidence=True) == together
    for query, answer in zip(QUERIES[:9], together, strict=True):
        (alone,) = replier.reply([query], seed=5, evidence=True)
        assert [one.text for one in alone.replies] == [one.text for one in answer.replies]
        assert alone.topics == answer.topics
    turned = replier.reply(QUERIES[8::-1], seed=5, evidence=True)
    assert [[one.text for one in answer.replies] for answer in turned[::-1]] == [
        [one.text for one in answer.replies] for answer in together
    ]
    others = [replier.reply(QUERIES[:9], seed=seed) for seed in (6, 7)]
    assert others[0] != others[1]
    assert replier.reply(QUERIES[:9]) != replier.reply(QUERIES[:9])  # without a seed


def test_a_stream_is_lazy_and_the_same(replier, monkeypatch):
    monkeypatch.setattr("tagsmith.pipelines.run.CHUNK", 4)

    def endless():
        while True:
            yield from QUERIES

    stream = replier.stream(endless(), seed=3)
    pair, answer = next(stream)
    assert pair.query == QUERIES[0]
    assert [one.text for one in answer.replies] == [one.text for one in replier.reply(QUERIES[:1], seed=3)[0].replies]
    stream.close()


def test_words_come_one_at_a_time_and_are_the_reply(replier):
    for query in QUERIES[:8]:
        words = list(replier.stream_words(query, seed=2))
        (answer,) = replier.reply([query], top=1, seed=2)
        assert len(words) > 1
        assert "".join(words) == answer.replies[0].text
    with pytest.raises(DataError, match="the text is empty"):
        replier.stream_words(" ")


def test_evidence_is_words_of_the_query_and_topics(replier):
    query = "  does anyone else love  #MorningRun &amp; the broth?"
    (answer,) = replier.reply([query], seed=1, evidence=True)
    assert answer.topics
    for one in answer.replies:
        assert 0 < len(one.attended) <= 3
        for piece in one.attended:
            assert query[piece.start : piece.end].strip(" #;&") != ""
            assert 0 <= piece.score <= 1
    row = reply_row(answer)
    assert set(row) == {"id", "replies", "error", "topics"}
    assert set(row["replies"][0]) == {"text", "score", "attended"}
    assert replier.reply([query], seed=1)[0].topics is None


def test_steering_towards_a_topic(replier):
    plain = replier.reply(QUERIES[:12], top=1, seed=1)
    steered = replier.reply(QUERIES[:12], top=1, seed=1, about=["chess"])
    count = [sum("chess" in answer.replies[0].text.lower() for answer in some) for some in (plain, steered)]
    assert count[1] > max(6, count[0])
    for word in ("魑魅", "\ud800", " "):
        with pytest.raises(ConfigError, match="is not in the model's vocabulary; take another word"):
            replier.reply(["hi"], about=[word])


def test_blocked_words_are_not_said(replier, tmp_path):
    (tmp_path / "block.txt").write_text("tell me\nLOVE\n\n", encoding="utf-8")
    block = read_block_list(tmp_path / "block.txt")
    for answer in replier.reply(QUERIES[:8], seed=1, block=block):
        assert answer.error is None
        for one in answer.replies:
            assert "tell me" not in one.text.lower()
            assert "love" not in one.text.lower().split()
    assert "".join(replier.stream_words(QUERIES[0], seed=1, block=["love", "tell"])).lower().count("love") == 0
    assert BlockList(["ass", "火锅"]).blocks("a class") is False
    assert BlockList(["ass", "火锅"]).blocks("吃火锅吧") is True
    for name, message in (("none.txt", "cannot be read"), ("empty.txt", "is empty"), ("odd.txt", "UTF-8")):
        (tmp_path / "empty.txt").write_text("\n")
        (tmp_path / "odd.txt").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(DataError, match=message):
            read_block_list(tmp_path / name)


def test_what_stands_for_something_is_never_said(replier):
    finder = replier.finder
    said = [one.text.lower() for answer in replier.reply(QUERIES[:8], seed=1) for one in answer.replies]
    assert any("e" in text for text in said)
    barred = Replier(ReplyFinder(finder.model, finder.pieces, replace(finder.settings, never=("e",))))
    said = [one.text.lower() for answer in barred.reply(QUERIES[:8], seed=1) for one in answer.replies]
    assert said
    assert not any("e" in text for text in said)
    for name in ("reply-en", "reply-zh"):
        assert load_replier(name).settings.never == ("longnum",)


def test_a_model_that_is_full_still_shows_its_evidence(replier):
    settings = replace(replier.settings, source=8, steps=replier.finder.model.config.longest - 8)
    full = Replier(ReplyFinder(replier.finder.model, replier.finder.pieces, settings))
    wish = full.wish(top=1, seed=1, evidence=True)
    (ready,) = full.ready([Pair("a query that is long enough to fill all the places it is given, and more")])
    cut = Candidate(tuple(ready.ids[:1] * settings.steps), "said", 0.0, ended=False)
    assert len(ready.ids) == 8
    assert len(full._weights(ready, [cut])[0]) == 8
    assert full.finder.find([ready], wish)


def test_a_length_limit_holds(replier):
    for longest in (1, 4):
        for answer in replier.reply(QUERIES[:6], seed=1, longest=longest):
            assert all(len(one.text.split()) <= longest for one in answer.replies)
    for name in ("top", "longest"):
        with pytest.raises(ConfigError, match=f"{name} must be at least 1, not 0"):
            replier.reply(["hi"], **{name: 0})


def test_bad_input_gets_an_error_in_its_place(replier):
    given = [
        "",
        "so happy about the broth today",
        "bad \ud800 half",
        "word " * 2000,
        "火锅 and 🍜 ramen",
        "\u200b",
        Post("hi", id=7),
    ]
    answers = replier.reply(given, seed=1)
    assert len(answers) == len(given)
    assert "the text is empty" in answers[0].error
    assert "lone surrogate" in answers[2].error
    assert "nothing that can be read" in answers[5].error
    assert [bool(answer.replies) for answer in answers] == [False, True, False, True, True, False, True]
    assert answers[6].id == 7
    assert replier.reply([]) == []


def test_a_model_of_one_pair_replies(reply_recipe, tmp_path):
    write_rows(tmp_path / "pairs.jsonl", [{"query": "good morning sun", "responses": ["hello moon"]}])
    changes = [f'data.root="{tmp_path}"', "train.steps=5", "train.evaluate_every=5", "model.layers=1"]
    bundle = make(read_recipe(reply_recipe, changes), tmp_path / "run")
    (answer,) = load_replier(bundle).reply(["good morning"], seed=1, evidence=True)
    assert answer.error is None
    assert len(answer.replies) <= 3


def test_other_models_do_not_reply(tiny_bundle, reply_bundle):
    with pytest.raises(BundleError, match="does not reply"):
        load_replier(tiny_bundle)
    with pytest.raises(BundleError, match="does not tag"):
        load_tagger(reply_bundle)


# baselines and the judge


@pytest.fixture(scope="module")
def backward(reply_recipe):
    changes = [
        'pipeline.direction="backward"',
        'model.source_attention="none"',
        "model.topics=false",
        "train.steps=60",
        "train.evaluate_every=60",
    ]
    return make(read_recipe(reply_recipe, changes), reply_recipe.parent / "backward")


def test_a_judge_ranks_by_both_directions(replier, backward, reply_bundle):
    judged = replier.judged_by(str(backward))
    judged.finder.settings = type(judged.settings)(**{**vars(judged.settings), "judge_draws": 8})
    ready = judged.ready([Pair(QUERIES[0])])
    wish = judged.wish(top=5, seed=1)
    found = judged.finder.find(ready, wish)[0]
    judge = judged.finder.judge
    back = judge.likely(QUERIES[0], [one.text for one in found])
    values = [one.total + 0.5 * other for one, other in zip(found, back, strict=True)]
    assert values == sorted(values, reverse=True)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    with pytest.raises(ConfigError, match="must be trained on swapped pairs"):
        replier.judged_by(str(reply_bundle))


def test_log_probabilities_are_the_same_alone(replier):
    settings, model, pieces = replier.settings, replier.finder.model, replier.finder.pieces
    sources, targets = pieces.ids(QUERIES[:20]), pieces.ids([pair.responses[0] for pair in PAIRS[:20]])
    sums, counts = log_probabilities(model, sources, targets, settings)
    assert counts.tolist() == [len(ids) + 1 for ids in targets]
    alone, _ = log_probabilities(model, sources[7:8], targets[7:8], settings)
    assert_close(alone[0], sums[7], atol=1e-4, rtol=1e-4)


def test_an_encoder_and_decoder_replies_too(reply_recipe, tmp_path):
    """TFM-S2S is SEGTRM's Transformer without segments."""
    text = reply_recipe.read_text(encoding="utf-8")
    before, rest = text.split("[model]")
    rest = rest[rest.index("[batches]") :]
    own = "[model]\nname = 'segtrm'\nsegments = false\nwidth = 32\nheads = 2\ninner = 64\nlongest = 64\n"
    own += "encoder_layers = 1\ndecoder_layers = 1\n"
    (tmp_path / "s2s.toml").write_text(before + own + rest, encoding="utf-8")
    bundle = make(read_recipe(tmp_path / "s2s.toml", ["train.steps=40", "train.evaluate_every=40"]), tmp_path / "run")
    (answer,) = load_replier(bundle).reply([QUERIES[0]], seed=1, evidence=True)
    assert answer.replies
    assert answer.topics == ()
    assert answer.replies[0].attended == ()


# the command line


def test_replies_on_the_command_line(run_cli, reply_bundle, tmp_path):
    done = run_cli("reply", "so happy about the broth today", "", "--model", reply_bundle, "--seed", 1, "--top", 2)
    assert done.code == 1
    assert [row["id"] for row in done.rows] == [0, 1]
    assert set(done.rows[0]) == {"id", "replies", "error"}
    assert set(done.rows[0]["replies"][0]) == {"text", "score"}
    assert "the text is empty" in done.rows[1]["error"]
    again = run_cli("reply", "so happy about the broth today", "--model", reply_bundle, "--seed", 1, "--top", 2)
    assert again.code == 0
    assert again.rows[0] == done.rows[0]
    shown = run_cli("reply", "the broth", "--model", reply_bundle, "--seed", 1, "--evidence", terminal=True)
    assert "topics:" in shown.out


def test_words_that_no_reply_says_are_told(run_cli, reply_bundle):
    said = run_cli("reply", "--model", reply_bundle, QUERIES[0], "--about", "chess", "--seed", 1, "--top", 5)
    unsaid = run_cli(
        "reply", "--model", reply_bundle, QUERIES[0], "--about", "qqqqqq,chess", "--seed", "1", "--top", "5"
    )
    assert said.code == unsaid.code == 0
    assert "no reply says" not in said.err
    assert "no reply says qqqqqq: " in unsaid.err


def test_files_of_queries(run_cli, reply_bundle, tmp_path):
    rows = [{"id": "a", "query": "the broth made my week!"}, {"id": "b"}, {"id": "c", "query": 3}]
    path = write_rows(tmp_path / "in.jsonl", rows)
    path.write_text(path.read_text() + "{broken\n", encoding="utf-8")
    out = tmp_path / "out.jsonl"
    done = run_cli("reply", "--model", reply_bundle, "--input", path, "--output", out, "--seed", 4)
    assert done.code == 1
    found = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in found] == ["a", "b", "c", None]
    assert [bool(row["error"]) for row in found] == [False, True, True, True]
    assert "row 4" in found[3]["error"]
    (tmp_path / "in.csv").write_text("id,post\n1,the broth\n", encoding="utf-8")
    parquet = tmp_path / "out.parquet"
    words = ("reply", "--model", reply_bundle, "--input", tmp_path / "in.csv", "--evidence")
    assert run_cli(*words, "--field", "query=post", "--output", parquet).code == 0
    assert parquet.exists()
    lacking = run_cli(*words)
    assert lacking.code == 2
    assert "has no column 'query'" in lacking.err


def test_commands_that_cannot_be(run_cli, reply_bundle, tiny_bundle, tmp_path):
    for words, message in (
        (("reply",), "give texts or --input FILE"),
        (("reply", "hi", "--model", tiny_bundle), "does not reply"),
        (("reply", "hi", "--model", reply_bundle, "--about", "魑魅"), "not in the model's vocabulary"),
        (("reply", "hi", "--model", reply_bundle, "--block", tmp_path / "no"), "cannot be read"),
        (("reply", "hi", "--with", reply_bundle), "name it with --model"),
        (("reply", "hi", "--model", reply_bundle, "--with", reply_bundle), "swapped pairs"),
        (("evaluate", tiny_bundle, "x.jsonl", "--beam", 3), "--beam is for models that reply"),
    ):
        done = run_cli(*words)
        assert done.code == 2
        assert message in done.err


def test_evaluate_replies(run_cli, reply_bundle, backward, tmp_path):
    rows = [{**row, "part": "iid"} for row in sample_pairs()[:6]]
    path = write_rows(tmp_path / "pairs.jsonl", [*rows, {"id": 9}])
    done = run_cli("evaluate", reply_bundle, path, "--json")
    assert done.code == 1
    (scores,) = done.rows
    assert scores["n"] == 6
    assert scores["parts"]["iid"]["n"] == 6
    assert {"bleu4", "p4", "dist2", "hit_q", "hit_r", "copy_rate", "repetition_rate"} <= set(scores)
    assert run_cli("evaluate", reply_bundle, path, "--json", "--limit", 2, "--with", backward, "--beam", 3).code == 0
    none = write_rows(tmp_path / "none.jsonl", [{"query": "hi"}])
    done = run_cli("evaluate", reply_bundle, none)
    assert done.code == 2
    assert "'query' and 'responses'" in done.err


def test_the_model_of_a_language_is_taken(run_cli, reply_bundle, tmp_path, monkeypatch):
    import shutil

    for name in ("reply-en", "reply-zh"):
        shutil.copytree(reply_bundle, tmp_path / "bundles" / name)
    monkeypatch.setattr("tagsmith.bundle.SHIPPED", tmp_path / "bundles")
    done = run_cli("reply", "the broth", "今天的火锅太好吃了", "--seed", 1)
    assert done.code == 0
    assert [row["id"] for row in done.rows] == [0, 1]
    assert done.rows[0]["replies"]


def test_own_pairs_train_a_model(run_cli, tmp_path):
    rows = [{"query": pair.query, "response": pair.responses[0]} for pair in PAIRS]
    data = write_rows(tmp_path / "pairs.jsonl", rows)
    small = [f"--set=model.{name}" for name in ("width=16", "heads=2", "inner=32", "layers=1")]
    settings = [*small, "--set=tokeniser.size=300", "--set=train.epochs=1", "--set=batches.tokens=400"]
    code, out, _ = run_cli("train", "--task", "reply", "--data", str(data), "--out", str(tmp_path / "own"), *settings)
    assert code == 0
    code, out, _ = run_cli("reply", "--model", json.loads(out)["bundle"], QUERIES[0])
    assert code == 0
    assert json.loads(out)["replies"]


def test_own_pairs_that_teach_nothing(run_cli, tmp_path):
    one = write_rows(tmp_path / "one.jsonl", [{"query": "hello there", "response": "hi yourself"}])
    code, _, err = run_cli("train", "--task", "reply", "--data", str(one), "--out", str(tmp_path / "own"))
    assert code == 2
    assert "one pair to learn from; give at least 2" in err
    none = write_rows(tmp_path / "none.jsonl", [{"query": "hello there", "answer": "hi yourself"}])
    code, _, err = run_cli("train", "--task", "reply", "--data", str(none), "--out", str(tmp_path / "own"))
    assert code == 2
    assert "have no responses" in err
    assert "--field response=NAME" in err
    assert not (tmp_path / "own").exists()
