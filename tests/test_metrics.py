"""Metrics: against the reference library, by hand, and by law."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from tagsmith.errors import DataError
from tagsmith.metrics.tags import Scored, hashtag_metrics, rouge_tokens, score_tags
from tagsmith.metrics.texts import Rouge, rouge

KEYS = ["rouge1", "rouge2", "rougeL", "f1@1", "f1@5", "f1@5_full", "p@1", "r@10", "unseen_r@10", "n"]
tokens = st.lists(st.sampled_from("abcd"), max_size=12)


class Blanks:
    """Tokens are what blanks separate."""

    def tokenize(self, text: str) -> list[str]:
        return text.split()


@settings(max_examples=300, deadline=None)
@given(tokens, tokens)
def test_rouge_is_the_reference_librarys(candidate: list[str], reference: list[str]) -> None:
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], tokenizer=Blanks())
    theirs = scorer.score(" ".join(reference), " ".join(candidate))
    ours = rouge(candidate, reference)
    for name in ("rouge1", "rouge2", "rougeL"):
        assert getattr(ours, name) == pytest.approx(theirs[name].fmeasure)


def test_rouge_by_hand() -> None:
    assert rouge(["a", "b"], ["a", "b"]) == Rouge(1.0, 1.0, 1.0)
    assert rouge(["b", "a"], ["a", "b"]) == Rouge(1.0, 0.0, 0.5)
    assert rouge([], ["a"]) == Rouge(0.0, 0.0, 0.0)


def test_tags_by_hand() -> None:
    predicted = ["news", "Climate_Action", "climateaction", "x", "y", "z"]
    scores = score_tags(predicted, ["ClimateAction", "Z"], seen=[True, False])
    assert scores.p_at_1 == 0
    assert scores.f1_at_1 == 0
    assert scores.f1_at_5 == pytest.approx(2 * 2 / (5 + 2))  # the second spelling does not take a place
    assert scores.r_at_10 == 1
    assert (scores.unseen_found, scores.unseen) == (1, 1)


def test_precision_divides_by_what_was_returned() -> None:
    assert score_tags(["a"], ["a"]).f1_at_5 == 1
    assert score_tags(["a", "b"], ["a"]).f1_at_5 == pytest.approx(2 / 3)
    assert score_tags(["a", "b"], ["a"]).f1_at_1 == 1
    assert score_tags([], ["a"]).f1_at_5 == 0
    assert score_tags([], ["a"]).p_at_1 == 0


def test_what_is_returned_is_judged_apart_from_the_ranking() -> None:
    scores = score_tags(["a", "b", "c"], ["a"], returned=["a", "A"])
    assert scores.f1_at_5 == 1
    assert scores.f1_at_5_full == pytest.approx(2 / 4)
    assert score_tags(["a"], ["a"], returned=[]).f1_at_5 == 0
    assert score_tags(["a", "b"], ["a"]).f1_at_5 == score_tags(["a", "b"], ["a"]).f1_at_5_full


def test_only_the_first_ten_count() -> None:
    predicted = [f"t{number}" for number in range(12)]
    scores = score_tags(predicted, ["t9", "t10"], seen=[False, False])
    assert scores.r_at_10 == 0.5
    assert (scores.unseen_found, scores.unseen) == (1, 2)


@given(st.lists(st.sampled_from("abcdef"), max_size=8), st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4))
def test_the_order_of_gold_tags_does_not_matter(predicted: list[str], gold: list[str]) -> None:
    assert score_tags(predicted, gold) == score_tags(predicted, gold[::-1]) == score_tags(predicted, gold + gold)
    assert score_tags(gold, gold).r_at_10 == 1


def test_seen_must_fit_the_tags() -> None:
    with pytest.raises(DataError, match="2 tags need as many values, not 1"):
        score_tags(["a"], ["a", "b"], seen=[True])


def test_metrics_are_means_over_posts_with_tags() -> None:
    rows = [
        Scored(["a"], ["a"], best=["a"], reference=["a"], seen=[True], parts=["iid"]),
        Scored(["b"], ["c", "d"], best=["c", "x"], reference=["c", "d"], seen=[False, False], parts=["new"]),
        Scored(["e"], ["e", "f", "g"], best=[], reference=["e"], seen=[False, True, True], parts=["new", "late"]),
        Scored(["a"], []),
    ]
    metrics = hashtag_metrics(rows)
    assert list(metrics) == [*KEYS, "parts"]
    assert metrics["n"] == 3
    assert metrics["p@1"] == pytest.approx(2 / 3)
    assert metrics["rouge1"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert metrics["r@10"] == pytest.approx((1 + 0 + 1 / 3) / 3)
    assert metrics["f1@1"] == pytest.approx((1 + 0 + 0.5) / 3)
    assert metrics["unseen_r@10"] == pytest.approx(1 / 3)  # over tags, not posts
    assert list(metrics["parts"]) == ["iid", "new", "late"]
    assert [part["n"] for part in metrics["parts"].values()] == [1, 2, 1]
    assert "unseen_r@10" not in metrics["parts"]["iid"]
    assert metrics["parts"]["new"] == hashtag_metrics([Scored(**_fields(row)) for row in rows[1:3]])


def test_without_parts_and_without_rows() -> None:
    assert "parts" not in hashtag_metrics([Scored(["a"], ["a"])])
    assert hashtag_metrics([])["n"] == 0


def test_rouge_tokens() -> None:
    assert rouge_tokens(["Climate action", "vote"], "en") == ["climate", "action", "vote"]
    assert rouge_tokens(["世界 杯", "G7"], "zh") == ["世", "界", "杯", "g", "7"]


def _fields(row: Scored) -> dict[str, object]:
    """The row without its parts."""
    return {name: getattr(row, name) for name in ("predicted", "gold", "best", "reference", "seen")}
