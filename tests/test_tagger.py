"""Posts to tags: lists in, lists out, nobody's answer depends on the others, and the evidence points at the text."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest
import torch

import tagsmith
from conftest import CHINESE, sample_rows
from tagsmith.bundle import load_bundle
from tagsmith.errors import BundleError, ConfigError
from tagsmith.models.segtrm import SegTrm, SegTrmConfig
from tagsmith.pipelines.auto import AutoTagger
from tagsmith.pipelines.evaluate import choose_cuts
from tagsmith.pipelines.load import load, tagger_of
from tagsmith.pipelines.run import CHUNK
from tagsmith.pipelines.tag import MOST_CHARACTERS, Candidate, Raw, Tagger, believed
from tagsmith.pipelines.write import TagSettings, Writer
from tagsmith.records import Post, Tag, Tags, to_row
from tagsmith.text.hashtags import key
from tagsmith.text.pieces import Pieces
from tagsmith.text.reading import reading

TEXTS = [str(row["text"]) for row in sample_rows()]
ODD = [
    "plain words only, nothing else to see here",
    "proud of the #ClimateAction march &amp; the #NightSky https://example.org/a?b=1 talk",
    "  blanks   at   the ends \t and\u200b invisible\u00ad ones  ",
    "mail me@example.org or ask @someone &lt;now&gt; www.example.org/x",
    "火锅 真好吃 #美食# 周末 &quot;火车&quot; https://example.org",
    "#OpenSource",
    "https://example.org/only-a-link",
    "café, ＷＩＤＥ letters ＃ＭｏｒｎｉｎｇＲｕｎ",
]


@pytest.fixture(scope="module")
def tagger(tiny_bundle) -> Tagger:
    return load(tiny_bundle)


def test_the_answers_are_as_many_as_the_posts_and_in_their_order(tagger):
    answers = tagger.tag([Post(text, id=number) for number, text in enumerate(TEXTS)])
    assert [answer.id for answer in answers] == list(range(len(TEXTS)))
    assert tagger.tag(TEXTS[::-1]) == [replace(answer, id=None) for answer in answers][::-1]
    assert tagger.tag([]) == []


def test_the_tiny_model_has_learned_its_posts(tagger):
    rows = sample_rows()
    best = [answer.tags[0].text for answer in tagger.tag([str(row["text"]) for row in rows])]
    hits = sum(key(tag) in map(key, row["hashtags"]) for tag, row in zip(best, rows, strict=True))
    assert hits > len(rows) / 2


def without_scores(answer: Tags) -> Tags:
    """The answer but for its scores."""
    segments = answer.segments and tuple(replace(one, score=0.0) for one in answer.segments)
    return replace(answer, tags=tuple(replace(tag, score=0.0) for tag in answer.tags), segments=segments)


def check_same(found: list[Tags], wanted: list[Tags]) -> None:
    """The same answers; the last digit of a score may fall on either side."""
    assert list(map(without_scores, found)) == list(map(without_scores, wanted))
    scores, others = ([tag.score for answer in some for tag in answer.tags] for some in (found, wanted))
    assert scores == pytest.approx(others, abs=1.1e-4)


def test_a_text_alone_is_tagged_as_in_company(tiny_bundle):
    tagger = tagger_of(load_bundle(tiny_bundle, dtype=torch.float32))
    texts = [*ODD, *TEXTS[:42]]
    together = tagger.tag(texts, evidence=True)
    for text, answer in zip(texts, together, strict=True):
        check_same(tagger.tag([text], evidence=True), [answer])
    tripled = tagger.tag([text for text in texts for _ in range(3)], evidence=True)
    check_same(tripled, [answer for answer in together for _ in range(3)])


@pytest.fixture
def passes(tagger, monkeypatch) -> list[list[list[int]]]:
    """The token ids of each forward pass."""
    met, find = [], tagger.finder.find
    monkeypatch.setattr(tagger.finder, "find", lambda ids, *given, **more: met.append(ids) or find(ids, *given, **more))
    return met


def test_the_longest_texts_come_first(tagger, passes):
    tagger.tag(["short", "a longer text " * 20, "a text in between " * 4])
    lengths = [len(ids[0]) for ids in passes]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_many_posts_meet_few_numbers_of_rows(tagger, passes):
    for many in (65, 71, 72, 106, 129):
        assert len(tagger.tag(["short"] * many)) == many
    assert {len(ids) for ids in passes} == {8, 48, 64}
    passes.clear()
    tagger.tag(["short"])
    assert [len(ids) for ids in passes] == [1]


def test_a_coarse_grain_pads_more_and_changes_nothing_else(tiny_bundle):
    tagger = tagger_of(load_bundle(tiny_bundle, dtype=torch.float32))
    stages, widths, find = tagger.stages(grain=32), [], tagger.finder.find
    tagger.finder.find = lambda *given, width, **more: widths.append(width) or find(*given, width=width, **more)
    posts = [Post(text) for text in TEXTS]
    ready = stages.prepare(posts)
    assert {stages.shape(one) for one in ready} == {1}
    answers = stages.finish(posts, [stages.forward([one])[0] for one in ready])
    assert set(widths) == {32}
    for answer, wanted in zip(answers, tagger.tag(posts), strict=True):
        assert [tag.text for tag in answer.tags] == [tag.text for tag in wanted.tags]
        assert [tag.score for tag in answer.tags] == pytest.approx([tag.score for tag in wanted.tags], abs=1e-3)


def test_posts_read_a_few_at_a_time_are_tagged_as_all_at_once(tiny_bundle, monkeypatch):
    tagger = tagger_of(load_bundle(tiny_bundle, dtype=torch.float32))
    texts = TEXTS * 3
    together = tagger.tag(texts, evidence=True)
    monkeypatch.setattr("tagsmith.pipelines.write.READ", 1)
    check_same(tagger.tag(texts, evidence=True), together)


def test_half_precision_moves_a_score_by_little(tiny_bundle):
    exact, coarse = (tagger_of(load_bundle(tiny_bundle, dtype=kind)) for kind in (torch.float32, torch.bfloat16))
    for text, answer in zip(TEXTS, coarse.tag(TEXTS), strict=True):
        (wanted,), (alone,) = exact.tag([text]), coarse.tag([text])
        assert answer.tags[0].score == pytest.approx(wanted.tags[0].score, abs=0.03)
        assert answer.tags[0].score == pytest.approx(alone.tags[0].score, abs=0.01)


def test_tags_come_best_first_with_scores_in_0_to_1(tagger):
    for answer in tagger.tag(TEXTS, top=8):
        scores = [tag.score for tag in answer.tags]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        assert len({key(tag.text) for tag in answer.tags}) == len(answer.tags)


def test_top_is_the_most_that_come_back(tagger):
    usual = Tagger(tagger.finder, tagger.tokeniser, replace(tagger.settings, keep=0.0, least=0.0))
    for few, many in zip(usual.tag(TEXTS[:8], top=1), usual.tag(TEXTS[:8], top=4), strict=True):
        assert len(many.tags) == 4
        assert few.tags == many.tags[:1]
    assert all(5 < len(answer.tags) <= 20 for answer in usual.tag(TEXTS[:4], top=20))
    with pytest.raises(ConfigError, match="top must be at least 1, not 0"):
        tagger.tag(TEXTS[:1], top=0)


def test_keep_leaves_out_what_is_far_below_the_best(tagger):
    def kept(share, **options):
        settings = replace(tagger.settings, keep=share, least=0.0)
        return Tagger(tagger.finder, tagger.tokeniser, settings).tag(TEXTS, **options)

    for all_of_them, some in zip(kept(0.0), kept(0.5), strict=True):
        best = all_of_them.tags[0].score
        assert [tag.text for tag in some.tags] == [tag.text for tag in all_of_them.tags if tag.score >= 0.5 * best]
    assert any(len(some.tags) < 5 for some in kept(0.5))
    # whoever asks for more than usual gets them, believed in or not
    assert kept(0.5, top=8) == kept(0.0, top=8) != kept(0.5)


def test_a_floor_leaves_out_all_but_the_best_of_what_is_hardly_believed(tagger):
    unsure = Raw([], [Candidate("a", 0.04), Candidate("b", 0.03), Candidate("c", 0.02)])
    assert [one.words for one in believed(unsure, 0.5, top=5)] == ["a", "b", "c"]
    assert [one.words for one in believed(unsure, 0.5, top=5, least=0.025)] == ["a", "b"]
    assert [one.words for one in believed(unsure, 0.5, top=5, least=0.5)] == ["a"]
    high, none = (replace(tagger.settings, keep=0.0, least=least) for least in (1.0, 0.0))
    strict, free = (Tagger(tagger.finder, tagger.tokeniser, settings) for settings in (high, none))
    assert [answer.tags for answer in strict.tag(TEXTS)] == [answer.tags[:1] for answer in free.tag(TEXTS)]
    assert strict.tag(TEXTS, top=8) == free.tag(TEXTS, top=8)  # more than usual were asked for
    assert all(len(answer.tags) == 1 for answer in strict.tag(TEXTS, top=2))


def test_cuts_are_chosen_by_what_they_cost():
    sure = Raw([], [Candidate("a", 0.5), Candidate("b", 0.3), Candidate("c", 0.2)])
    unsure = Raw([], [Candidate("x", 0.04), Candidate("y", 0.03), Candidate("z", 0.025)])

    def cuts(*posts):
        by_text = {"sure": sure, "unsure": unsure}
        ranking = SimpleNamespace(rank=lambda chunk: [by_text[post.text] for post in chunk])
        return choose_cuts(ranking, [Post(text, tags=tags) for text, tags in posts])

    assert cuts(("sure", ("a", "b"))) == (0.45, 0.1)  # c has 0.4 of the best
    assert cuts(("sure", ("a", "b")), ("unsure", ("x",))) == (0.45, 0.1)  # a floor tells them apart
    assert cuts(("sure", ("a", "b")), ("unsure", ("x", "y"))) == (0.45, 0.03)
    assert cuts() == (0.0, 0.0)


def test_spans_point_at_the_words_of_the_tag(tagger):
    found = [
        (answer.tags, text)
        for text in ("climate action now", "the ClimateAction march", "my chess club", "a ramen shop and more ramen")
        for answer in tagger.tag([text], top=40)
    ]
    present = [(tag, text) for tags, text in found for tag in tags if tag.kind == "present"]
    assert present
    for tags, text in found:
        for tag in tags:
            assert (tag.kind == "present") is bool(tag.spans)
            for start, end in tag.spans:
                assert key(text[start:end]) == key(tag.text)


def test_usual_spellings_are_used(tagger):
    tags = {tag.text for answer in tagger.tag(TEXTS, top=20) for tag in answer.tags}
    assert "Daily" in tags  # seen often enough
    assert "chess" in tags  # seen too seldom: its words as they are
    assert "Daily" not in {
        tag.text
        for answer in Tagger(tagger.finder, tagger.tokeniser, tagger.settings).tag(TEXTS, top=20)
        for tag in answer.tags
    }


def bare(text: str) -> str:
    """Without blanks."""
    return "".join(text.split())


@pytest.fixture(scope="module")
def reader() -> Tagger:
    """A model that selects every segment, and knows every letter of the odd texts."""
    torch.manual_seed(1)
    pieces = Pieces.train([reading(text) for text in ODD], 110)
    sizes = {"width": 16, "heads": 2, "inner": 32, "encoder_layers": 1, "decoder_layers": 1, "longest": 128}
    model = SegTrm(SegTrmConfig(vocab=pieces.size, segment_size=3, top=0, **sizes)).eval()
    return Tagger(Writer(model, pieces), pieces, TagSettings(listing="one", beam=2, steps=3, source=128))


@pytest.mark.parametrize("text", ODD)
def test_the_evidence_is_the_text_that_the_pieces_cover(reader, text):
    (answer,) = reader.tag([text], evidence=True)
    (ids,) = reader.tokeniser.ids([reading(text)])
    assert len(answer.segments) == -(-len(ids) // 3)
    for number, segment in enumerate(answer.segments):
        assert 0 <= segment.start < segment.end <= len(text)
        wanted = reader.tokeniser.join(ids[3 * number : 3 * number + 3])
        assert bare(wanted) in bare(reading(text[segment.start : segment.end]).lower())
    starts = [segment.start for segment in answer.segments]
    assert starts == sorted(starts)
    assert sum(segment.score for segment in answer.segments) == pytest.approx(1, abs=1e-3)


def test_the_segments_of_a_plain_text_are_all_of_it(reader):
    (answer,) = reader.tag([ODD[0]], evidence=True)
    cut = [ODD[0][segment.start : segment.end] for segment in answer.segments]
    assert len(cut) > 3
    assert bare("".join(cut)) == bare(ODD[0])


def test_selected_segments_are_some_of_all_and_only_given_when_asked_for(tagger):
    long = " ".join(TEXTS[:4])
    (asked,), (plain,) = tagger.tag([long], evidence=True), tagger.tag([long])
    assert plain.segments is None
    assert "segments" not in to_row(plain)
    assert len(asked.segments) == 3
    assert [to_row(asked)["segments"][0][name] for name in ("start", "end")] == [
        asked.segments[0].start,
        asked.segments[0].end,
    ]
    assert replace(asked, segments=None) == plain


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the text is empty; give at least one word"),
        (" \n\t ", "the text is empty"),
        ("a" * (MOST_CHARACTERS + 1), "the text has 200,001 characters, the most is 200,000; tag it in parts"),
        ("bad \ud800 letter", "the text has a lone surrogate (\\ud800) at 4; "),
        ("\u200b\u200b", "the text has nothing that can be read; give words"),
    ],
)
def test_a_text_that_cannot_be_read_says_why_and_its_neighbours_do_not_care(tagger, text, words):
    before, bad, after = tagger.tag([TEXTS[0], Post(text, id="x"), TEXTS[1]], evidence=True)
    assert [before, after] == tagger.tag(TEXTS[:2], evidence=True)
    assert bad.error is not None
    assert bad.error.startswith(words)
    assert bad == Tags(id="x", error=bad.error)


def test_the_longest_text_allowed_is_read(tagger):
    (answer,) = tagger.tag([("ramen " * MOST_CHARACTERS)[:MOST_CHARACTERS]], evidence=True)
    assert answer.error is None
    assert answer.tags


def test_a_record_is_its_json(tagger):
    (answer,) = tagger.tag([Post(TEXTS[0], id=7)])
    row = to_row(answer)
    assert list(row) == ["id", "tags", "error"]
    assert [tuple(tag) for tag in row["tags"]] == [("text", "score", "kind", "spans")] * len(answer.tags)
    again = [Tag(**{**tag, "spans": tuple(map(tuple, tag["spans"]))}) for tag in row["tags"]]
    assert tuple(again) == answer.tags


@pytest.mark.parametrize("automatic", [False, True])
def test_a_stream_reads_no_further_than_it_must(tagger, monkeypatch, automatic):
    monkeypatch.setattr("tagsmith.pipelines.auto.load_tagger", lambda name: tagger)
    used = AutoTagger() if automatic else tagger
    taken = []

    def endless():
        for number in count():
            taken.append(number)
            yield Post(TEXTS[0], id=number)

    stream = used.stream(endless(), top=1)
    assert not taken
    first = [next(stream) for _ in range(3)]
    assert [(post.id, answer.id) for post, answer in first] == [(0, 0), (1, 1), (2, 2)]
    assert len(taken) <= CHUNK
    assert [answer for _, answer in used.stream(iter(TEXTS[:5]))] == tagger.tag(TEXTS[:5])


def test_the_language_of_a_text_picks_its_model(tagger, monkeypatch):
    loaded = []

    def pretend(name):
        loaded.append(name)
        return tagger

    monkeypatch.setattr("tagsmith.pipelines.auto.load_tagger", pretend)
    auto = AutoTagger()
    assert not loaded  # until the first text
    chinese = CHINESE["美食"][0]
    mixed = [TEXTS[0], chinese, Post(TEXTS[1], id=5), Post(chinese, id=6), ""]
    assert auto.tag(mixed) == tagger.tag(mixed)
    auto.tag(mixed)
    assert sorted(loaded) == ["hashtag-en", "hashtag-zh"]  # each once
    loaded.clear()
    AutoTagger().tag([TEXTS[0]])
    assert loaded == ["hashtag-en"]


def test_a_model_for_another_task_is_refused(tiny_bundle, monkeypatch):
    monkeypatch.setattr("tagsmith.pipelines.load.PIPELINES", {"embed": tagger_of})
    with pytest.raises(BundleError, match="is for the task 'hashtag'; this version of Tagsmith knows embed"):
        tagsmith.load(tiny_bundle)
