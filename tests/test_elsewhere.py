"""Questions that are asked of other passages, and readers that lie beside the one whose Transformer they have."""

from __future__ import annotations

import json
import shutil

import pytest
from safetensors import safe_open

from conftest import sample_questions, write_rows
from tagsmith.config import from_dict
from tagsmith.data.elsewhere import asked_elsewhere
from tagsmith.errors import BundleError, ConfigError
from tagsmith.pipelines.load import load_reader
from tagsmith.recipe import make
from tagsmith.recipe.settings import DataSettings, Recipe
from tagsmith.records import Gold, Question

PASSAGES = ["Ada loves broth.", "Ben loves noodles.", "Cem loves broth and rice.", "Dia loves tea."]
QUESTIONS = [
    Question("What does Ada love?", PASSAGES[0], title="soup", id=0, answers=(Gold("broth", 10),)),
    Question("What does Ben love?", PASSAGES[1], title="soup", id=1, answers=(Gold("noodles", 10),)),
    Question("What does Cem love?", PASSAGES[2], title="soup", id=2, answers=(Gold("broth and rice", 10),)),
    Question("What does Dia love?", PASSAGES[3], title="drinks", id=3, answers=(Gold("tea", 10),)),
    Question("What does Eli love?", PASSAGES[3], title="drinks", id=4, impossible=True),
]


def test_questions_asked_elsewhere_have_no_answer_there():
    for seed in range(20):
        found = list(asked_elsewhere(QUESTIONS, 1.0, seed=seed))
        assert found[:5] == QUESTIONS
        for one in found[5:]:
            before = QUESTIONS[one.id]
            assert (one.question, one.answers, one.impossible) == (before.question, (), True)
            assert one.context in PASSAGES
            assert before.answers
            assert before.answers[0].text not in one.context
    assert list(asked_elsewhere(QUESTIONS, 1.0, seed=3)) == list(asked_elsewhere(QUESTIONS, 1.0, seed=3))
    assert list(asked_elsewhere(QUESTIONS, 0.0)) == QUESTIONS


def test_a_share_is_a_share():
    with pytest.raises(ConfigError, match=r"data\.elsewhere is a share"):
        DataSettings(elsewhere=1.5)


@pytest.fixture
def recipe(extract_bundle, tmp_path):
    """To learn answers with the Transformer of a model that extracts."""
    shutil.copytree(extract_bundle, tmp_path / "lender")
    write_rows(tmp_path / "questions.jsonl", sample_questions())
    values = {
        "name": "mine",
        "task": "answer",
        "start": str(tmp_path / "lender"),
        "shares": True,
        "model": {"freeze": True},
        "data": {"root": str(tmp_path), "train": ["questions.jsonl"], "elsewhere": 0.5},
        "train": {"steps": 2, "metric": "f1"},
        "pipeline": json.loads((extract_bundle / "config.json").read_text(encoding="utf-8"))["pipeline"],
    }
    return from_dict(Recipe, values)


def test_a_reader_may_share_the_one_it_began_with(recipe, tmp_path):
    made = make(recipe, tmp_path / "run")
    with safe_open(made / "weights.safetensors", "pt") as weights:
        assert not [name for name in weights.keys() if name.startswith("reader.")]  # noqa: SIM118 - no dict
    with pytest.raises(BundleError, match="shares the reader of lender, which is not beside it"):
        load_reader(made, "answer")
    shutil.copytree(made, tmp_path / "mine")
    assert load_reader(tmp_path / "mine", "answer").answer([QUESTIONS[0]])[0].error is None


def test_a_reader_that_is_trained_cannot_be_shared(recipe, tmp_path):
    for change in ({"model": {}}, {"start": ""}):
        values = {"name": "mine", "task": "answer", "shares": True, "start": "x", "model": {"freeze": True}, **change}
        with pytest.raises(ConfigError, match=r"set start and model\.freeze"):
            make(from_dict(Recipe, values), tmp_path / "run")
