"""Models that rank known tags: tweet2vec and quick, their head, and the tagger made of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

from battery import check_save, padded, random_batch, rows_of
from conftest import TOPICS, sample_rows
from tagsmith.bundle import load_bundle
from tagsmith.errors import ConfigError
from tagsmith.models import find_model
from tagsmith.models.quick import SIZES, Quick, pair_places
from tagsmith.models.tweet2vec import SIZES as TWEET2VEC_SIZES
from tagsmith.models.tweet2vec import Tweet2Vec
from tagsmith.nn.ranking import TagHead
from tagsmith.nn.recurrent import BothWays
from tagsmith.pipelines.evaluate import choose_temperature, evaluate_tagger
from tagsmith.pipelines.load import tagger_of
from tagsmith.records import Post
from tagsmith.text.hashtags import key
from tagsmith.text.symbols import Symbols

TEXTS = [str(row["text"]) for row in sample_rows()]


def tweet2vec() -> Tweet2Vec:
    torch.manual_seed(1)
    return Tweet2Vec(replace(TWEET2VEC_SIZES["tweet2vec-tiny"], vocab=40, tags=40)).eval()


def quick(**options) -> Quick:
    torch.manual_seed(1)
    return Quick(replace(SIZES["quick-tiny"], vocab=40, tags=40, **options)).eval()


MODELS = {"tweet2vec": tweet2vec, "quick": quick, "bag": lambda: quick(layers=0), "plain bag": lambda: quick(pairs=0)}


@pytest.fixture(params=MODELS)
def build(request):
    return MODELS[request.param]


def test_padding_and_company_change_nothing(build):
    model, batch = build(), random_batch()
    seen = model(batch)
    for found, wanted in zip(model(padded(batch, source=9, target=2)), seen, strict=True):
        assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    for place in range(5):
        assert_close(model(rows_of(batch, [place])).scores[0], seen.scores[place], atol=1e-5, rtol=1e-4)


def test_ten_examples_are_learned_by_heart(build):
    model, batch = build().train(), random_batch(10, seed=3)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(150):
        model.loss(batch).backward()
        optimiser.step()
        optimiser.zero_grad()
    assert (model.eval()(batch).scores.argmax(-1) == batch.target[:, 0]).all()


def test_saving_and_loading_is_exact_and_packing_stays_close(build, tmp_path):
    check_save(build, tmp_path)


def test_the_paper_sizes_have_the_paper_parameters():
    for name, wanted in (("tweet2vec-paper", 3.90e6), ("tweet2vec-words", 3.91e6)):
        with torch.device("meta"):
            model = Tweet2Vec(replace(TWEET2VEC_SIZES[name], tags=2040))
        count = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
        assert count == pytest.approx(wanted, rel=0.01)


def test_reading_both_ways_equals_a_packed_bidirectional_gru():
    torch.manual_seed(2)
    reader, lengths, vectors = BothWays(5, 4), torch.tensor([6, 1, 3]), torch.randn(3, 6, 5)
    nn.init.normal_(reader.starts)
    twin = nn.GRU(5, 4, batch_first=True, bidirectional=True)
    for name, weight in reader.forward_reader.named_parameters():
        getattr(twin, name).data.copy_(weight)
    for name, weight in reader.backward_reader.named_parameters():
        getattr(twin, f"{name}_reverse").data.copy_(weight)
    packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
    _, wanted = twin(packed, reader.starts[:, None].expand(-1, 3, -1).contiguous())
    ahead, back = reader(vectors, lengths)
    assert_close(ahead, wanted[0])
    assert_close(back, wanted[1])
    assert not torch.allclose(ahead, BothWays(5, 4)(vectors, lengths)[0])


def test_pairs_depend_on_both_tokens_and_their_order():
    source = torch.tensor([[7, 8, 7, 8, 9, 8, 7]])
    places = pair_places(source, 100_003)[0].tolist()
    assert places[1] == places[3] != places[5]  # 7 8 twice, then 9 8
    assert places[6] != places[1]  # 8 7 is not 7 8
    assert all(0 <= place < 5 for place in pair_places(torch.randint(0, 30_000, (4, 50)), 5).flatten().tolist())


def test_known_tags_share_one_softmax_and_learned_ones_stand_beside_it():
    torch.manual_seed(3)
    head, vectors = TagHead(6, 4, learned=2), torch.randn(5, 6)
    nn.init.normal_(head.learned_rows)
    weights = head.weights(vectors, temperature=2.0)
    assert_close(weights[:, :4], (head(vectors) / 2).softmax(-1))
    for place in range(2):  # each set against all trained tags, but not against the other
        rivals = torch.cat([head(vectors), vectors @ head.learned_rows[place, :, None]], dim=1)
        assert_close(weights[:, 4 + place], (rivals / 2).softmax(-1)[:, 4])


def test_a_new_row_follows_from_its_examples_as_trained_rows_do():
    torch.manual_seed(4)
    head, rule, middle = TagHead(3, 40), torch.randn(4, 3), torch.tensor([1.0, 2.0, 3.0])
    means = middle + torch.randn(41, 3)
    rows = (means - means[:40].mean(0)) @ rule.T + torch.tensor([0.1, 0.2, 0.3, 0.4])
    with torch.no_grad():
        head.known.weight.copy_(rows[:40, :3])
        head.known.bias.copy_(rows[:40, 3])
    head.measure(means[:40].repeat_interleave(5, 0), torch.arange(40).repeat_interleave(5), ridge=1e-9)
    row, bias = head.row_for(means[40:].expand(7, -1), doubt=0.0)
    assert_close(torch.cat([row, bias[None]]), rows[40], atol=1e-3, rtol=1e-3)


def test_tags_without_posts_do_not_teach_the_rule():
    torch.manual_seed(5)
    vectors, tags = torch.randn(100, 3), torch.arange(20).repeat(5)
    heads = [TagHead(3, 20), TagHead(3, 21)]
    for head in heads:
        for name, weight in heads[0].known.named_parameters():
            getattr(head.known, name).data[:20] = weight.data
    heads[1].known.weight.data[20] = 99.0
    for head in heads:
        head.measure(vectors, tags)
    assert_close(heads[1].foretell, heads[0].foretell)
    assert_close(heads[1].usual, heads[0].usual)


def test_without_trained_tags_to_learn_from_a_row_points_to_the_mean():
    torch.manual_seed(6)
    head, vectors = TagHead(8, 3), torch.randn(3, 8)  # three tags cannot tell a rule of eight dimensions
    with torch.no_grad():
        head.known.weight.copy_(2.0 * (vectors - vectors.mean(0)))
    head.measure(vectors.repeat(50, 1), torch.arange(3).repeat(50))
    aside = torch.linalg.qr(torch.cat([vectors - vectors.mean(0), torch.randn(5, 8)]).T)[0][:, 4]  # orthogonal to all
    row, _ = head.row_for((vectors.mean(0) + aside).expand(9, -1), doubt=0.0)
    assert_close(row - head.usual[:-1], 2.0 * aside, atol=1e-3, rtol=1e-3)


def test_few_examples_move_a_row_little():
    head, example = TagHead(3, 2), torch.ones(1, 3)
    nn.init.normal_(head.foretell)
    sure, unsure = (head.row_for(example, doubt=doubt)[0] for doubt in (0.0, 3.0))
    assert_close(unsure, sure / 4)


def test_what_a_new_tag_lacks_gives_it_the_chance_on_its_examples():
    torch.manual_seed(7)
    head, examples = TagHead(6, 4, learned=1), torch.randn(5, 6)
    row, bias = torch.randn(6), torch.tensor(-9.0)
    raised = bias + head.lacking(examples, row, bias, chance=0.05, temperature=1.3)
    with torch.no_grad():
        head.learned_rows.copy_(row[None])
        head.learned_bias.copy_(raised[None])
    weights = head.weights(examples, temperature=1.3)[:, -1]
    assert_close(weights.logit().mean(), torch.tensor(0.05).logit())


@pytest.fixture(scope="module")
def ranker(rank_bundle):
    return tagger_of(load_bundle(rank_bundle, dtype=torch.float32))


def test_a_trained_ranker_knows_its_topics(ranker):
    posts = [Post(str(row["text"]), tags=tuple(row["hashtags"])) for row in sample_rows()]
    scores = evaluate_tagger(ranker, posts)
    assert scores["p@1"] > 0.8
    assert 1 <= scores["mean_rank"] < 3
    assert "rouge1" not in scores
    answer = ranker.tag(["cannot stop thinking of the comet"])[0]
    assert answer.tags[0].text == "NightSky"
    assert len(answer.tags) <= 5


def test_a_text_alone_is_ranked_as_in_company(ranker):
    together = ranker.tag(TEXTS)
    assert [ranker.tag([text])[0] for text in TEXTS] == together
    assert all(0 <= tag.score <= 1 for answer in together for tag in answer.tags)


def test_more_can_be_asked_for_and_each_tag_comes_once(ranker):
    for answer in ranker.tag(TEXTS[:5], top=12):
        assert len(answer.tags) == 12
        assert len({key(tag.text) for tag in answer.tags}) == 12


def test_an_unknown_gold_tag_ranks_behind_all(ranker):
    known = len(ranker.finder.labels)
    scores = evaluate_tagger(ranker, [Post("the comet", tags=("NeverSeen",))])
    assert scores["mean_rank"] == known + 1


def test_the_temperature_is_the_least_surprising_one(ranker):
    posts = [Post(str(row["text"]), tags=tuple(row["hashtags"])) for row in sample_rows()]
    wrong = [replace(post, tags=(list(TOPICS)[number % 12],)) for number, post in enumerate(posts)]
    assert choose_temperature(ranker, posts) < choose_temperature(ranker, wrong)


@pytest.mark.parametrize("text", ["👍", "x", "word " * 19_000, "مرحبا بالعالم", "שלום hello 世界"])
def test_odd_posts_are_ranked(ranker, text):
    (answer,) = ranker.tag([text])
    assert answer.error is None
    assert answer.tags


def test_characters_and_words_are_read_lower_case():
    letters = Symbols.count("characters", ["Abba"], 10)
    assert letters.ids(["ABBA", "b?"]) == [letters.ids(["abba"])[0], [letters.ids(["b"])[0][0], 1]]
    words = Symbols.count("words", ["The cat sat on the mat"], 6)
    assert words.ids(["THE Cat!"])[0][0] == words.ids(["the"])[0][0]
    assert words.unknown("the dog barks") == 2
    assert words.spans("the cat") == [(0, 3), (4, 7)]


def test_a_temperature_must_be_above_zero(ranker):
    with pytest.raises(ConfigError, match=r"RankSettings\.temperature must be above 0, not 0"):
        replace(ranker.settings, temperature=0.0)


def test_the_catalogue_has_the_rankers():
    assert find_model("tweet2vec") is Tweet2Vec
    assert find_model("quick") is Quick
