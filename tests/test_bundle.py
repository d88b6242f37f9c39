"""A trained model as a folder: whole or refused, small on disk, and never lost to a failed save."""

from __future__ import annotations

import gc
import hashlib
import json
import pickle
import shutil
import stat
import weakref
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tagsmith import bundle as bundle_module
from tagsmith.bundle import (
    FILES,
    annotate_bundle,
    checksum,
    describe_bundle,
    find_bundle,
    load_bundle,
    pack,
    save_bundle,
    shipped_bundles,
)
from tagsmith.errors import BundleError, OutputError
from tagsmith.models.hypernet import Hypernet
from tagsmith.models.segtrm import SegTrm
from tagsmith.pipelines.load import load


@pytest.fixture
def folder(tiny_bundle, tmp_path):
    """A copy to break."""
    return shutil.copytree(tiny_bundle, tmp_path / "copy")


def sign(folder) -> None:
    """Make the checksums right again, as whoever made the bundle would have."""
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}
    (folder / "checksums.json").write_text(json.dumps(sums))


def change_config(folder, **changes) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def test_a_bundle_comes_back_with_its_weights_to_half_precision(tiny_bundle, tmp_path):
    first = load_bundle(tiny_bundle, dtype=torch.float32)
    with torch.no_grad():
        for weight in first.model.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)) * 1e-3)
    save_bundle(replace(first, weights="fp16"), tmp_path / "again")
    again = load_bundle(tmp_path / "again", dtype=torch.float32)
    for (name, weight), (_, kept) in zip(first.model.named_parameters(), again.model.named_parameters(), strict=True):
        assert torch.equal(kept, weight.half().float()), name
    assert (again.name, again.task, again.language) == (first.name, first.task, first.language)
    assert (again.pipeline, again.spellings, again.card) == (first.pipeline, first.spellings, first.card)
    assert again.model.config == first.model.config
    assert again.tokeniser.ids(["a flat white"]) == first.tokeniser.ids(["a flat white"])
    assert not again.model.training


def test_whole_numbers_stay_within_half_a_step_of_the_weights(tiny_bundle):
    model = load_bundle(tiny_bundle, dtype=torch.float32).model
    packed = pack(model)
    for name, weight in model.named_parameters():
        if packed[name].dtype == torch.int8:
            scale = packed[f"{name}.scale"].float()
            error = (packed[name].float() * scale - weight).abs()
            assert (error <= 0.55 * scale).all()  # half a step, and the rounding of the scale itself
    assert any(value.dtype == torch.int8 for value in packed.values())


def test_shared_weights_stand_once_on_disk_and_are_one_again(tiny_bundle):
    with safe_open(tiny_bundle / "weights.safetensors", framework="pt") as file:
        tables = [name for name in file.keys() if name.endswith("table.weight") and "embed" in name]  # noqa: SIM118
    assert len(tables) == 1
    model = load_bundle(tiny_bundle).model
    assert isinstance(model, SegTrm)
    assert model.embed_source.table.weight is model.embed_target.table.weight


def test_whole_numbers_take_less_room_than_halves_and_anyone_may_read_them(tiny_bundle, tmp_path):
    loaded = load_bundle(tiny_bundle, dtype=torch.float32)
    sizes = {}
    for how in ("int8", "fp16"):
        save_bundle(replace(loaded, weights=how), tmp_path / how)
        path = tmp_path / how / "weights.safetensors"
        sizes[how] = path.stat().st_size
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert sizes["int8"] < 0.75 * sizes["fp16"]


def test_loading_does_not_need_pickle(tiny_bundle, monkeypatch):
    def refuse(*given, **options):
        raise AssertionError("a pickle was opened")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    assert load_bundle(tiny_bundle).name == "tiny"


@pytest.mark.parametrize("name", FILES)
def test_damage_to_any_file_is_noticed(folder, name):
    data = bytearray((folder / name).read_bytes())
    place = data.index(b"tiny") if name == "config.json" else len(data) // 2
    data[place] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(BundleError, match=rf"{name} is damaged: its checksum is wrong; take a fresh copy"):
        load_bundle(folder)


@pytest.mark.parametrize("name", [name for name in FILES if name != "config.json"])
def test_a_missing_file_is_noticed(folder, name):
    (folder / name).unlink()
    with pytest.raises(BundleError, match=rf"is incomplete: {name} is missing; take a fresh copy"):
        load_bundle(folder)


@pytest.mark.parametrize("sums", [None, "", "{}", "[]", "not json"])
def test_checksums_that_say_nothing_are_not_trusted(folder, sums):
    path = folder / "checksums.json"
    path.unlink()
    if sums is not None:
        path.write_text(sums)
    with pytest.raises(BundleError, match=r"is incomplete|is damaged"):
        load_bundle(folder)


def test_cut_off_weights_are_an_error_with_or_without_the_right_checksum(folder):
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(BundleError, match=r"weights.safetensors is damaged"):
        load_bundle(folder)
    sign(folder)
    with pytest.raises(BundleError, match=r"weights.safetensors cannot be read"):
        load_bundle(folder)


def test_weights_of_another_model_are_an_error(folder):
    weights = load_file(folder / "weights.safetensors")
    save_file({name: value for name, value in weights.items() if name != "out_bias"}, folder / "weights.safetensors")
    sign(folder)
    with pytest.raises(BundleError, match=r"weights.safetensors lacks 'out_bias'; take a fresh copy"):
        load_bundle(folder)
    save_file({**weights, "out_bias": torch.zeros(3)}, folder / "weights.safetensors")
    sign(folder)
    with pytest.raises(BundleError, match=r"weights.safetensors is of another model"):
        load_bundle(folder)


def test_a_folder_that_is_no_bundle_says_so(folder, tmp_path):
    (folder / "config.json").unlink()
    with pytest.raises(BundleError, match=r"is no bundle: it has no config.json; `tagsmith train` makes bundles"):
        load_bundle(folder)
    (folder / "config.json").write_text("{ half")
    with pytest.raises(BundleError, match=r"config.json cannot be read: .*; take a fresh copy"):
        load_bundle(folder)


@pytest.mark.parametrize("number", [0, 2, None, "1"])
def test_another_format_is_refused(folder, number):
    change_config(folder, format=number)
    sign(folder)
    with pytest.raises(BundleError, match="has another format than 1, the one this version of Tagsmith reads"):
        load_bundle(folder)


def test_shipped_models_are_found_by_name_and_others_by_their_folder(shipped, tiny_bundle):
    assert find_bundle("hashtag-en") == shipped / "hashtag-en"
    assert find_bundle(tiny_bundle) == find_bundle(str(tiny_bundle)) == tiny_bundle
    with pytest.raises(BundleError, match=r"there is no model or folder 'hashtag-enn'; did you mean 'hashtag-en'?"):
        load_bundle("hashtag-enn")
    with pytest.raises(BundleError, match="there is no model or folder 'xyz'; known: hashtag-en, hashtag-zh"):
        load_bundle("xyz")


def test_shipped_models_are_described_without_loading_them(shipped):
    (shipped / "hashtag-zh" / "weights.safetensors").write_bytes(b"")
    (shipped / "no model").mkdir()
    found = shipped_bundles()
    assert [one.folder.name for one in found] == ["hashtag-en", "hashtag-zh"]
    assert describe_bundle(shipped / "hashtag-en") == found[0]
    assert found[0].task == "hashtag"
    assert found[0].megabytes > found[1].megabytes
    assert "f1@1" in found[0].measured["dev"]


def test_an_old_bundle_survives_a_save_that_fails(folder, monkeypatch):
    loaded = load_bundle(folder)

    def full(tensors, path):
        path.write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle_module, "save_file", full)
    with pytest.raises(OutputError, match=r"cannot write the bundle .*: .*No space left on device"):
        save_bundle(loaded, folder)
    assert load_bundle(folder).name == "tiny"
    assert [path.name for path in folder.parent.iterdir()] == ["copy"]


@pytest.mark.parametrize("left", ["old", "part", "both"])
def test_what_a_killed_save_left_behind_does_no_harm(folder, left):
    loaded = load_bundle(folder)
    for ending in ("old", "part"):
        if left in (ending, "both"):
            shutil.copytree(folder, folder.with_name(f".copy.{ending}"))
    save_bundle(loaded, folder)
    assert load_bundle(folder).name == "tiny"
    assert [path.name for path in folder.parent.iterdir()] == ["copy"]


def test_a_save_killed_between_two_names_is_made_good_by_the_next(folder, monkeypatch):
    loaded = load_bundle(folder)
    folder.rename(folder.with_name(".copy.old"))
    monkeypatch.setattr(bundle_module, "save_file", lambda tensors, path: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OutputError):
        save_bundle(loaded, folder)
    assert load_bundle(folder).name == "tiny"


def test_a_new_card_leaves_the_bundle_whole(folder):
    annotate_bundle(folder, card="# New\n", measured={"posts_per_cpu_second": 7})
    assert load_bundle(folder).card == "# New\n"
    assert describe_bundle(folder).measured["posts_per_cpu_second"] == 7
    assert "dev" in describe_bundle(folder).measured


# models that share a reader


@pytest.fixture
def sharing(extract_bundle, tmp_path):
    """A model, and another with the same reader beside it."""
    first = load_bundle(extract_bundle, dtype=torch.float32)
    save_bundle(replace(first, lends=True), tmp_path / "one")
    second = Hypernet(replace(first.model.config, asked="classify", labels=2))
    second.reader = first.model.reader
    made = replace(first, name="two", task="classify", model=second, labels=("a", "b"), shares="one")
    save_bundle(made, tmp_path / "two")
    return tmp_path


def test_a_shared_reader_lies_once_on_disk_and_in_memory(sharing):
    assert not (sharing / "two" / "tokeniser.json").exists()
    assert not any(name.startswith("reader.") for name in load_file(sharing / "two" / "weights.safetensors"))
    two = load_bundle(sharing / "two")
    one, again = load_bundle(sharing / "one"), load_bundle(sharing / "two")
    assert one.model.reader is two.model.reader is again.model.reader
    assert one.tokeniser is two.tokeniser
    assert one.model.body is not two.model.body
    assert load_bundle(sharing / "one", dtype=torch.float64).model.reader is not one.model.reader
    assert load(sharing / "two").classify(["the film festival"])[0].labels
    assert len({one.fingerprint, two.fingerprint}) == 2
    assert checksum(sharing / "one") != checksum(sharing / "two")


def test_what_a_model_shares_is_let_go_with_it(sharing):
    two = load_bundle(sharing / "two")
    assert len(bundle_module._LENT) >= 2
    kept = weakref.ref(two.model.reader)
    del two
    gc.collect()
    assert kept() is None


def test_a_shared_reader_must_be_there_and_of_the_right_size(sharing, tiny_bundle):
    change_config(sharing / "one", name="renamed")
    with pytest.raises(BundleError, match="checksum is wrong"):
        load_bundle(sharing / "two")
    (sharing / "one").rename(sharing / "three")
    with pytest.raises(BundleError, match="shares the reader of one, which is not beside it; copy both"):
        load_bundle(sharing / "two")


def test_a_loaded_model_that_shares_is_saved_whole(sharing, tmp_path):
    save_bundle(load_bundle(sharing / "two", dtype=torch.float32), tmp_path / "elsewhere" / "two")
    assert load(tmp_path / "elsewhere" / "two").classify(["the film festival"])[0].labels
