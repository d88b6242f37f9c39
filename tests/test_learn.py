"""New tags from a few examples, tags taken out, and one list from several voices."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from conftest import TOPICS, sample_rows, write_rows
from tagsmith.bundle import load_bundle, save_bundle, save_twin
from tagsmith.cli import main
from tagsmith.errors import BundleError, ConfigError, DataError
from tagsmith.pipelines.embed import Embedder
from tagsmith.pipelines.index import build_index
from tagsmith.pipelines.learn import forget_tag, learn_tags
from tagsmith.pipelines.load import load_tagger, tagger_of
from tagsmith.pipelines.merge import MergedTagger, Neighbours
from tagsmith.pipelines.near import open_index
from tagsmith.records import Post
from tagsmith.text.hashtags import key

TEXTS = [str(row["text"]) for row in sample_rows()]
SAILING = [
    Post(f"{verb} the sailing boat {place}", tags=("SailingBoats",))
    for verb in ("painting", "racing", "mooring", "loading")
    for place in ("at dawn", "in the harbour", "off the coast")
]


def score_of(tagger, name, texts) -> list[float]:
    """The score of one tag for each text."""
    return [next(tag.score for tag in answer.tags if tag.text == name) for answer in tagger.tag(texts, top=20)]


@pytest.fixture
def bundle(rank_bundle):
    return load_bundle(rank_bundle, dtype=torch.float32, device="cpu")


def test_a_learned_tag_is_found_and_the_known_ones_keep_their_scores(bundle):
    before = tagger_of(bundle).tag(TEXTS, top=10)
    learned = learn_tags(bundle, SAILING)
    assert learned.new == {"SailingBoats": 12}
    after = tagger_of(learned.bundle)
    own, others = (score_of(after, "SailingBoats", texts) for texts in ([post.text for post in SAILING], TEXTS))
    assert min(own) > 1.5 * sorted(others)[len(others) // 2]  # its posts against the usual post
    for old, new in zip(before, after.tag(TEXTS, top=11), strict=True):
        kept = [tag for tag in new.tags if tag.text != "SailingBoats"][:10]
        assert [(tag.text, tag.score) for tag in kept] == [(tag.text, tag.score) for tag in old.tags]


def test_a_learned_model_survives_the_disk(bundle, tmp_path):
    learned = learn_tags(bundle, SAILING).bundle
    save_bundle(learned, tmp_path / "model")
    again = load_bundle(tmp_path / "model", dtype=torch.float32)
    assert again.labels == learned.labels
    wanted, found = (
        score_of(tagger_of(one), "SailingBoats", [post.text for post in SAILING]) for one in (learned, again)
    )
    assert found == pytest.approx(wanted, abs=0.02)


def test_known_tags_are_named_and_nothing_new_is_an_error(bundle):
    known = [Post("a flat white", tags=("coffee",)), Post("", tags=("Nothing",))]
    learned = learn_tags(bundle, [*known, *SAILING])
    assert learned.known == ("coffee",)
    assert learned.left_out == 1
    with pytest.raises(DataError, match="nothing to learn from these posts: it knows all their tags already"):
        learn_tags(bundle, known)
    with pytest.raises(DataError, match="they have no tags; give posts with tags new to it"):
        learn_tags(bundle, [Post("hello")])


def test_a_forgotten_tag_never_comes_back_and_the_others_keep_their_scores(bundle):
    text = "so happy about the comet today"
    before = tagger_of(bundle).tag([text], top=10)[0].tags
    gone = forget_tag(bundle, "#NightSky")
    after = tagger_of(gone).tag([text], top=9)[0].tags
    assert after == tuple(tag for tag in before if tag.text != "NightSky")
    with pytest.raises(ConfigError, match="tiny-rank does not know the tag 'nightsky'; known: book club, chess"):
        forget_tag(gone, "nightsky")
    again = learn_tags(gone, [Post(text, tags=("NightSky",))] * 3).bundle
    assert any(tag.text == "NightSky" for tag in tagger_of(again).tag([text], top=10)[0].tags)


def test_only_rankers_learn_and_forget(tiny_bundle):
    writer = load_bundle(tiny_bundle)
    with pytest.raises(BundleError, match="is for the task 'hashtag'; only models that rank known tags learn more"):
        learn_tags(writer, SAILING)
    with pytest.raises(BundleError, match="only models that rank"):
        forget_tag(writer, "coffee")


def test_vectors_have_length_one_and_posts_of_a_topic_are_near(rank_bundle):
    embedder = Embedder.load(rank_bundle)
    rows = [row for row in sample_rows() if row["hashtags"][0] in TOPICS]
    vectors = embedder.embed([str(row["text"]) for row in rows])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-3)
    near = vectors @ vectors.T
    topics = np.array([str(row["hashtags"][0]) for row in rows])
    same = (topics[:, None] == topics) & ~np.eye(len(rows), dtype=bool)
    assert near[same].mean() > near[topics[:, None] != topics].mean() + 0.3
    assert not embedder.embed([""]).any()
    assert embedder.embed([]).shape == (0, embedder.width)


def test_a_writer_makes_no_vectors_and_an_embedder_no_tags(tiny_bundle, rank_bundle, tmp_path):
    with pytest.raises(BundleError, match="is for the task 'hashtag' and makes no vectors; take embed-en"):
        Embedder.load(tiny_bundle)
    shutil.copytree(rank_bundle, tmp_path / "tags-en")
    save_twin(tmp_path / "embed-en", name="embed-en", task="embed", same_as="tags-en", card="# embed-en", measured={})
    twin = Embedder.load(tmp_path / "embed-en")
    assert (twin.embed(TEXTS[:3]) == Embedder.load(tmp_path / "tags-en").embed(TEXTS[:3])).all()
    with pytest.raises(BundleError, match="embed-en is for the task 'embed' and does not tag; take another model"):
        load_tagger(tmp_path / "embed-en")


@pytest.fixture
def index(rank_bundle, tmp_path):
    posts = [Post(str(row["text"]), id=row["id"], tags=tuple(row["hashtags"])) for row in sample_rows()]
    build_index(posts, Embedder.load(rank_bundle), tmp_path / "index")
    return tmp_path / "index"


def test_merging_is_the_weighted_mean_by_tag(tiny_bundle, rank_bundle, index):
    writer, ranker, near = load_tagger(tiny_bundle), load_tagger(rank_bundle), Neighbours(open_index(str(index)))
    merged = MergedTagger(writer, [ranker, near], weights=[2, 1, 1])
    posts = [Post(text) for text in TEXTS[:6]]
    voices = [voice.rank(posts, top=20) for voice in (writer, ranker, near)]
    for place, raw in enumerate(merged.rank(posts)):
        heard = [{key(one.words): min(one.score, 1.0) for one in voice[place].candidates} for voice in voices]
        for one in raw.candidates:
            wanted = sum(share * voice.get(key(one.words), 0.0) for share, voice in zip((0.5, 0.25, 0.25), heard))
            assert one.score == pytest.approx(wanted)
        assert len({key(one.words) for one in raw.candidates}) == len(raw.candidates)
    answers = merged.tag([*TEXTS[:4], ""], top=3, evidence=True)
    assert all(len(answer.tags) <= 3 for answer in answers)
    assert answers[-1].error
    assert answers[0].segments
    with pytest.raises(ConfigError, match="2 voices need as many weights"):
        MergedTagger(writer, [ranker], weights=[1])


def test_near_posts_lend_their_tags(index):
    raw = Neighbours(open_index(str(index)), posts=3).rank([Post("so happy about the comet today")])[0]
    assert raw.candidates[0].words == "night sky"
    assert sum(one.score for one in raw.candidates) == pytest.approx(1.0)


def test_an_index_of_another_model_is_refused(index, rank_bundle, tmp_path):
    other = load_bundle(rank_bundle, dtype=torch.float32)
    with torch.no_grad():
        other.model.project.bias.add_(1.0)
    save_bundle(replace(other, name="other"), tmp_path / "other")
    with pytest.raises(BundleError, match="was made by the model"):
        open_index(str(index), str(tmp_path / "other"))


def command(monkeypatch, capfdbinary, *words) -> tuple[int, list[dict], str]:
    monkeypatch.setattr("sys.argv", ["tagsmith", *map(str, words)])
    with pytest.raises(SystemExit) as done:
        main()
    out, err = capfdbinary.readouterr()
    return int(done.value.code or 0), [json.loads(line) for line in out.decode().splitlines()], err.decode()


def test_the_commands_learn_and_forget(rank_bundle, tmp_path, monkeypatch, capfdbinary):
    rows = [{"text": post.text, "hashtags": list(post.tags)} for post in SAILING]
    data = write_rows(tmp_path / "new.jsonl", rows)
    model = tmp_path / "model"
    code, out, err = command(monkeypatch, capfdbinary, "learn", rank_bundle, "--data", data, "--out", model)
    assert (code, out) == (0, [{"bundle": str(model), "learned": {"SailingBoats": 12}}]), err
    words = ("tag", "--model", model, "racing the sailing boat at dawn", "--top", 16)
    code, out, _ = command(monkeypatch, capfdbinary, *words)
    assert "SailingBoats" in [tag["text"] for tag in out[0]["tags"]]
    code, out, _ = command(monkeypatch, capfdbinary, "forget", model, "sailingboats")
    assert (code, out) == (0, [{"bundle": str(model), "forgotten": "sailingboats"}])
    code, _, err = command(monkeypatch, capfdbinary, "forget", model, "sailingboats")
    assert code == 2
    assert "does not know the tag 'sailingboats'" in err
    monkeypatch.setattr("tagsmith.bundle.SHIPPED", tmp_path)
    code, _, err = command(monkeypatch, capfdbinary, "forget", "model", "coffee")
    assert code == 2
    assert "model is shipped and stays as it is; say with --out FOLDER where the changed one goes" in err


def test_the_commands_embed_index_and_ask(rank_bundle, tmp_path, monkeypatch, capfdbinary):
    rows = [*sample_rows(), {"id": "broken"}]
    posts = write_rows(tmp_path / "posts.jsonl", rows)
    code, out, err = command(monkeypatch, capfdbinary, "embed", "--model", rank_bundle, "--input", posts)
    assert code == 1, err
    assert [row["id"] for row in out] == [row["id"] for row in rows]
    assert out[-1]["vector"] == []
    assert "has no field 'text'" in out[-1]["error"]
    for suffix in ("npy", "parquet", "csv"):
        words = ("embed", "--model", rank_bundle, "--input", posts, "--output", tmp_path / f"vectors.{suffix}")
        code, _, err = command(monkeypatch, capfdbinary, *words)
        assert code == 1
    vectors = np.load(tmp_path / "vectors.npy")
    assert vectors.shape == (len(rows), 24)
    assert vectors[0] == pytest.approx(out[0]["vector"], abs=1e-5)
    assert not vectors[-1].any()

    index = tmp_path / "index"
    code, out, err = command(monkeypatch, capfdbinary, "index", posts, index, "--model", rank_bundle)
    assert (code, out) == (1, [{"index": str(index), "posts": len(rows) - 1}]), err
    code, out, _ = command(monkeypatch, capfdbinary, "nearest", index, "so happy about the comet today", "--top", 2)
    assert code == 0
    assert [len(out[0]["nearest"]), out[0]["nearest"][0]["tags"][0]] == [2, "NightSky"]
    code, exact, _ = command(
        monkeypatch, capfdbinary, "nearest", index, "so happy about the comet today", "--top", 2, "--exact"
    )
    assert exact == out
    code, out, _ = command(monkeypatch, capfdbinary, "nearest", index, "", "--json")
    assert (code, out[0]["error"]) == (1, "the text is empty; give at least one word")


def test_the_tag_command_takes_more_voices(tiny_bundle, rank_bundle, index, monkeypatch, capfdbinary):
    words = ("tag", "--model", tiny_bundle, "--with", rank_bundle, "--with", index, TEXTS[0])
    code, out, err = command(monkeypatch, capfdbinary, *words)
    assert code == 0, err
    assert key(out[0]["tags"][0]["text"]) in ("coffee", "daily")
    code, _, err = command(monkeypatch, capfdbinary, "tag", "--with", rank_bundle, TEXTS[0])
    assert code == 2
    assert "--with adds a voice to a model; name that model with --model" in err


def test_an_array_is_written_whole_or_not_at_all(rank_bundle, tmp_path, monkeypatch, capfdbinary):
    target = tmp_path / "missing" / "vectors.npy"
    code, _, err = command(monkeypatch, capfdbinary, "embed", "--model", rank_bundle, "hello", "--output", target)
    assert code == 2
    assert "its folder does not exist; make it first" in err
    kept = tmp_path / "kept.npy"
    kept.write_bytes(b"old")
    monkeypatch.setattr(Embedder, "stream", lambda self, posts: 1 // 0)
    code, _, err = command(monkeypatch, capfdbinary, "embed", "--model", rank_bundle, "hi", "--output", kept)
    assert code == 2
    assert "ZeroDivisionError" in err
    assert kept.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.npy"]


def test_the_train_command_makes_a_ranker_of_ones_own(rank_bundle, tmp_path, monkeypatch, capfdbinary):
    shutil.copytree(rank_bundle, tmp_path / "bundles" / "tags-en")
    monkeypatch.setattr("tagsmith.bundle.SHIPPED", tmp_path / "bundles")
    rows = [
        {"text": f"{verb} {thing} {when}", "hashtags": [tag]}
        for tag, thing in (("Sailing", "the sailing boat"), ("Bread", "a loaf of bread"), ("Snow", "the deep snow"))
        for verb in ("painting", "loading", "watching", "leaving", "finding")
        for when in ("at dawn", "in spring", "all day")
    ]
    data, out = write_rows(tmp_path / "mine.jsonl", rows), tmp_path / "mine"
    words = ("train", "--task", "rank", "--data", data, "--out", out, "--set", "train.epochs=20")
    code, found, err = command(monkeypatch, capfdbinary, *words)
    assert (code, found) == (0, [{"bundle": str(out / "bundle")}]), err
    mine = load_tagger(out / "bundle")
    assert set(mine.finder.labels) == {"sailing", "bread", "snow"}
    assert [answer.tags[0].text.lower() for answer in mine.tag(["we baked bread", "so much snow"])] == ["bread", "snow"]
