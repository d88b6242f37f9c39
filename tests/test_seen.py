"""Models on one Transformer read a text once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch

import tagsmith
from tagsmith.bundle import load_bundle
from tagsmith.data.reading import Example, collated
from tagsmith.pipelines.load import head_of, reader_of
from tagsmith.pipelines.read import Reader
from tagsmith.pipelines.seen import Seen
from tagsmith.records import Document, Labelled

TITLE, TEXT = "A study of ramen", "We look at the viscosity of broth and at the elasticity of noodles in ramen."


@pytest.fixture
def passes():
    """The sizes of the batches that the shared Transformer reads."""
    reader = reader_of(load_bundle("extract-en")).model.reader
    read = []
    hook = reader.register_forward_pre_hook(lambda _, given: read.append(len(given[0])))
    yield read
    hook.remove()


def test_one_pass_whatever_is_asked(passes):
    extractor, labeller = tagsmith.load("extract-en"), tagsmith.load("topic-en")
    assert extractor.model.reader is labeller.model.reader
    assert extractor.seen is labeller.seen
    extractor.seen.kept.clear()
    extractor.seen.tokens = 0
    found = extractor.extract([Document(TEXT, title=TITLE)])
    assert passes == [1]
    labels = labeller.classify([Labelled(TEXT, title=TITLE)])
    assert extractor.extract([Document(TEXT, title=TITLE)]) == found
    assert passes == [1]
    labeller.classify([Labelled(TEXT, title=TITLE), Labelled(TEXT, title="Another title")])
    assert passes == [1, 1]
    alone = Reader(labeller.model, labeller.pieces, head_of("classify", labeller.head.labels), labeller.settings)
    (expected,) = alone.classify([Labelled(TEXT, title=TITLE)])
    assert [one.label for one in labels[0].labels] == [one.label for one in expected.labels]
    assert [one.score for one in labels[0].labels] == pytest.approx([one.score for one in expected.labels], abs=0.02)


def test_a_bundle_by_itself_remembers_nothing(classify_bundle):
    assert tagsmith.load(classify_bundle).seen is None


def test_the_oldest_are_forgotten():
    seen = Seen(most=10)
    for number in range(5):
        seen.keep((number,) * 4, torch.zeros(4, 2))
    assert list(seen.kept) == [(3,) * 4, (4,) * 4]
    assert seen.tokens == 8
    seen.keep((3,) * 4, torch.zeros(4, 2))
    seen.keep((5,) * 4, torch.zeros(4, 2))
    assert list(seen.kept) == [(3,) * 4, (5,) * 4]
    seen.keep((6,) * 11, torch.zeros(11, 2))  # more than may be kept
    assert seen.tokens == len(seen.kept) == 0


def test_many_threads_may_ask():
    class Model:
        def reader(self, ids, same, lengths):
            return SimpleNamespace(states=ids[:, :, None].float())

    def ask(number):
        texts = [(number % 5, one) for one in range(4)]
        ids = torch.tensor([[*text, 0] for text in texts])
        batch = collated([Example(list(text), 1, [1]) for text in texts])._replace(ids=ids)
        return seen.filled(Model(), batch, texts).states[:, :2, 0].tolist() == [list(text) for text in texts]

    seen = Seen(most=12)  # less than what is asked for
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(200)))
    assert seen.tokens == sum(map(len, seen.kept)) <= 12
