"""A corpus on disk and the batches made of it."""

from __future__ import annotations

import threading
import tracemalloc
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from tagsmith.data import corpus as corpus_module
from tagsmith.data.batches import Batches, BatchSettings, pad_ids, prefetch
from tagsmith.data.corpus import Corpus
from tagsmith.errors import TrainError
from tagsmith.text.pieces import END, PAD, SEPARATOR

SETTINGS = BatchSettings(tokens=256, source=24, target=8)


def by_letter(texts):
    """A tokeniser: one id for each letter."""
    return [[ord(letter) - ord("a") + 10 for letter in text] for text in texts]


def build(folder, pairs) -> Corpus:
    return Corpus.build(pairs, by_letter, folder, separator=SEPARATOR)


def random_pairs(count: int, *, seed: int = 0) -> list[tuple[str, list[str]]]:
    """Texts of 1 to 40 letters with 1 to 4 tags of 1 to 14."""
    chance = np.random.default_rng(seed)

    def word(longest: int) -> str:
        return "".join(map(chr, chance.integers(97, 123, chance.integers(1, longest + 1))))

    return [(word(40), [word(14) for _ in range(chance.integers(1, 5))]) for _ in range(count)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("corpus"), random_pairs(300))


def rows(made, epoch: int = 0, **options) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Source and target ids of every row of an epoch, without their padding."""
    return [
        (tuple(source[:length].tolist()), tuple(target[:end].tolist()))
        for step in made.epoch(epoch, **options)
        for batch in step
        for source, length, target, end in zip(*batch, strict=True)
    ]


def test_a_corpus_comes_back_as_it_went_in(tmp_path):
    pairs = [("abc", ["x", "yz"]), ("d", ["w"]), ("efgh", ["u", "v", "t"])]
    for corpus in (build(tmp_path, pairs), Corpus.open(tmp_path)):
        made = Batches(corpus, replace(SETTINGS, target=32))
        wanted = {(tuple(by_letter([text])[0]), tuple(by_letter(["#".join(tags)])[0])) for text, tags in pairs}
        found = {
            (source, tuple(ord("#") - ord("a") + 10 if token == SEPARATOR else token for token in target[:-1]))
            for source, target in rows(made)
        }
        assert found == wanted


def test_posts_without_text_or_tags_are_left_out(tmp_path):
    corpus = build(tmp_path, [("abc", []), ("", ["x"]), ("d", ["w", ""]), ("e", [""])])
    assert len(corpus) == 1
    assert corpus.target_counts(np.array([0])).tolist() == [1]
    with pytest.raises(TrainError, match="no post with text and tags"):
        build(tmp_path, [("abc", []), ("", ["x"])])


def test_an_unfinished_corpus_is_an_error(tmp_path):
    def broken():
        yield "abc", ["x"]
        raise RuntimeError("the disk went away")

    build(tmp_path, [("abc", ["x"])])
    with pytest.raises(RuntimeError):
        build(tmp_path, broken())
    with pytest.raises(TrainError, match="holds no finished corpus"):
        Corpus.open(tmp_path)


def test_a_corpus_stays_on_disk_and_is_built_in_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "CHUNK", 500)

    def peak(count: int) -> int:
        tracemalloc.start()
        corpus = build(tmp_path / str(count), (("abcdefghij" * 2, ["xyz", "uvw"]) for _ in range(count)))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        parts = (corpus.source.flat, corpus.source.ends, corpus.targets.flat, corpus.targets.ends, corpus.groups)
        assert all(isinstance(part, np.memmap) for part in parts)
        assert len(corpus) == count
        return most

    assert peak(16_000) < 1.2 * peak(4_000)


@pytest.mark.parametrize("targets", ["all", "one"])
def test_every_post_comes_exactly_once_an_epoch(corpus, targets):
    made = Batches(corpus, replace(SETTINGS, targets=targets))
    plan = np.concatenate([posts for step in made.plan(3) for posts in step])
    assert sorted(plan.tolist()) == list(range(300))
    wanted = Counter(tuple(by_letter([text])[0][:24]) for text, _ in random_pairs(300))
    assert Counter(source for source, _ in rows(made, 3)) == wanted


@pytest.mark.parametrize("targets", ["all", "one"])
@pytest.mark.parametrize("tokens", [96, 256, 1000])
def test_a_padded_batch_keeps_to_the_budget(corpus, targets, tokens):
    made = Batches(corpus, replace(SETTINGS, tokens=tokens, targets=targets, target=16))
    sizes = []
    for epoch in range(4):
        for (batch,) in made.epoch(epoch):
            sizes.append(batch.source.numel() + batch.target.numel())
            assert sizes[-1] <= tokens or len(batch.source) == 1
    assert np.mean(sizes) > tokens / 2  # and uses it


def test_a_step_is_cut_by_length_so_that_less_is_padding(corpus):
    def padded(parts: int) -> int:
        settings = replace(SETTINGS, tokens=1024 // parts, parts=parts, source=40)
        steps = list(Batches(corpus, settings).epoch(0))
        assert {len(step) for step in steps} == {parts}
        return sum(batch.source.numel() for step in steps for batch in step)

    assert padded(4) < 0.8 * padded(1)


def test_a_long_target_counts_as_a_long_post(tmp_path):
    pairs = [("a" * 8, ["x" * (8 if number % 2 else 30)]) for number in range(64)]
    made = Batches(build(tmp_path, pairs), replace(SETTINGS, tokens=32 * 64, source=32, target=32, parts=2))
    for short, long in made.epoch(0):
        assert short.target.shape[1] < long.target.shape[1]


def test_a_step_is_a_fair_sample_of_lengths(corpus):
    means = []
    for step in Batches(corpus, replace(SETTINGS, parts=4, source=40)).plan(0):
        longest = [int(corpus.source.lengths(posts).max()) for posts in step]
        assert longest == sorted(longest)
        means.append(float(np.mean(corpus.source.lengths(np.concatenate(step)))))
    assert np.std(means) < 4  # of texts of 1 to 40 letters
    assert len(means) > 5


def test_all_steps_are_of_one_size(corpus):
    for parts in (1, 3):
        made = Batches(corpus, replace(SETTINGS, parts=parts)).plan(0)
        assert len({len(posts) for step in made for posts in step}) <= 2


def test_the_order_depends_on_seed_and_epoch_alone(corpus):
    made = Batches(corpus, replace(SETTINGS, targets="one"))
    assert rows(made, 1) == rows(Batches(corpus, replace(SETTINGS, targets="one")), 1)
    assert rows(made, 1) != rows(made, 2)
    assert rows(made, 1) != rows(Batches(corpus, replace(SETTINGS, targets="one", seed=2)), 1)


@pytest.mark.parametrize("world", [2, 3])
def test_shards_are_disjoint_and_equal_in_number(corpus, world):
    whole = Batches(corpus, SETTINGS)
    shares = [whole.shard(rank, world).plan(0) for rank in range(world)]
    assert len({len(share) for share in shares}) == 1
    assert len(shares[0]) == whole.shard(0, world).steps(0) == whole.steps(0) // world
    seen = [post for share in shares for (batch,) in share for post in batch.tolist()]
    assert len(seen) == len(set(seen))


def test_more_processes_than_batches_all_get_one(tmp_path):
    corpus = build(tmp_path, [("abc", ["x"])])
    assert [Batches(corpus, SETTINGS).shard(rank, 3).steps(0) for rank in range(3)] == [1, 1, 1]


def test_one_of_the_tags_is_drawn_and_each_sooner_or_later(tmp_path):
    corpus = build(tmp_path, [("abc", ["x", "yz", "w"])])
    made = Batches(corpus, replace(SETTINGS, targets="one"))
    drawn = {target for epoch in range(40) for _, target in rows(made, epoch)}
    assert drawn == {(*ids, END) for ids in by_letter(["x", "yz", "w"])}


@pytest.mark.parametrize("targets", ["all", "one"])
def test_targets_end_once_and_are_padded_behind(corpus, targets):
    for (batch,) in Batches(corpus, replace(SETTINGS, targets=targets)).epoch(0):
        for target, length in zip(batch.target, batch.target_lengths.tolist(), strict=True):
            assert target[length - 1] == END
            assert (target == END).sum() == 1
            assert target[length:].eq(PAD).all()
            assert target[:length].ne(PAD).all()


def test_long_texts_and_targets_are_cut(tmp_path):
    corpus = build(tmp_path, [("a" * 100, ["b" * 100])])
    ((batch,),) = Batches(corpus, SETTINGS).epoch(0)
    assert batch.source.shape == (1, 24)
    assert batch.source_lengths.tolist() == [24]
    assert batch.target.tolist() == [[*by_letter(["b" * 7])[0], END]]


@pytest.mark.parametrize("skip", [1, 5])
def test_skipping_gives_the_same_later_batches(corpus, skip):
    made = Batches(corpus, replace(SETTINGS, targets="one"))
    whole, rest = list(made.epoch(2)), list(made.epoch(2, skip=skip))
    assert len(rest) == len(whole) - skip
    for (wanted,), (found,) in zip(whole[skip:], rest, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(wanted, found, strict=True))


def test_lists_become_one_padded_tensor():
    ids, lengths = pad_ids([[5, 6, 7], list(range(6, 20)), [9]], longest=10)
    assert lengths.tolist() == [3, 10, 1]
    assert ids.shape == (3, 16)
    assert ids[0].tolist() == [5, 6, 7] + [PAD] * 13


def named_threads() -> set[int | None]:
    return {thread.ident for thread in threading.enumerate()}


def test_prefetch_hands_over_batches_in_order_and_exceptions():
    def broken():
        yield from range(10)
        raise ValueError("row 10 is bad")

    found = []
    with pytest.raises(ValueError, match="row 10 is bad"):
        found.extend(prefetch(broken()))
    before = named_threads()
    stream = prefetch(iter(range(3)))
    assert list(stream) == [0, 1, 2]
    assert named_threads() == before


def test_a_closed_prefetch_stops_its_thread_and_its_source():
    made: list[int] = []

    def endless():
        while True:
            made.append(len(made))
            yield made[-1]

    before = named_threads()
    stream = prefetch(endless(), ahead=2)
    assert [next(stream), next(stream)] == [0, 1]
    assert len(named_threads()) == len(before) + 1
    stream.close()
    assert named_threads() == before
    assert len(made) <= 6  # no further ahead than asked for
