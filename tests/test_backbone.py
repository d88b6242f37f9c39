"""A pre-trained BERT as a reader: its pieces under our ids, its weights under our names, the same states."""

from __future__ import annotations

import json
import math

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch.nn.functional import gelu, layer_norm, linear
from torch.testing import assert_close

from tagsmith.bundle import load_bundle
from tagsmith.errors import ConfigError
from tagsmith.models.slots import Slots, SlotsConfig
from tagsmith.pipelines.load import load
from tagsmith.recipe import make, own_recipe
from tagsmith.recipe.backbone import backbone_pieces, backbone_sizes, start_reader
from tagsmith.text.pieces import SPECIALS, Pieces

PIECES = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "graph", "##s", "of", "word", "a", "##x", "rare"]
WIDTH, HEADS, INNER = 8, 2, 12


def random_weights() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    sizes = {
        "embeddings.word_embeddings.weight": (len(PIECES), WIDTH),
        "embeddings.position_embeddings.weight": (16, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "pooler.dense.weight": (WIDTH, WIDTH),
    }
    for number in range(2):
        layer = f"encoder.layer.{number}."
        for name, out, inner in (
            ("attention.self.query", WIDTH, WIDTH),
            ("attention.self.key", WIDTH, WIDTH),
            ("attention.self.value", WIDTH, WIDTH),
            ("attention.output.dense", WIDTH, WIDTH),
            ("intermediate.dense", INNER, WIDTH),
            ("output.dense", WIDTH, INNER),
        ):
            sizes |= {f"{layer}{name}.weight": (out, inner), f"{layer}{name}.bias": (out,)}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            sizes |= {f"{layer}{name}.weight": (WIDTH,), f"{layer}{name}.bias": (WIDTH,)}
    sizes |= {"embeddings.LayerNorm.weight": (WIDTH,), "embeddings.LayerNorm.bias": (WIDTH,)}
    return {name: torch.randn(size) * 0.5 for name, size in sizes.items()}


@pytest.fixture
def folder(tmp_path):
    """A Hugging Face folder of a very small BERT."""
    tokenizer = Tokenizer(models.WordPiece({piece: place for place, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    save_file(random_weights(), tmp_path / "model.safetensors")
    return tmp_path


def bert(weights: dict[str, torch.Tensor], ids: torch.Tensor, *, first: int = 0) -> torch.Tensor:
    """BERT's encoder, written out for one text; `first` is the row of the first place."""

    def dense(states: torch.Tensor, name: str) -> torch.Tensor:
        return linear(states, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(states: torch.Tensor, name: str) -> torch.Tensor:
        return layer_norm(states, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"])

    states = weights["embeddings.word_embeddings.weight"][ids]
    states = states + weights["embeddings.position_embeddings.weight"][first : first + len(ids)]
    states = norm(states + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for number in range(2):
        layer = f"encoder.layer.{number}."
        query, key, value = (
            dense(states, f"{layer}attention.self.{name}").view(len(ids), HEADS, -1).transpose(0, 1)
            for name in ("query", "key", "value")
        )
        looks = (query @ key.transpose(1, 2) / math.sqrt(WIDTH / HEADS)).softmax(-1) @ value
        mixed = dense(looks.transpose(0, 1).flatten(1), f"{layer}attention.output.dense")
        states = norm(states + mixed, f"{layer}attention.output.LayerNorm")
        wide = gelu(dense(states, f"{layer}intermediate.dense"))
        states = norm(states + dense(wide, f"{layer}output.dense"), f"{layer}output.LayerNorm")
    return states


def config(**changes: object) -> SlotsConfig:
    sizes = {"width": WIDTH, "heads": HEADS, "inner": INNER, "reader_layers": 2, "writer_layers": 1, "longest": 16}
    return SlotsConfig(**{"vocab": 12, "reader_norm": "post", "places": "learned", "dropout": 0.0, **sizes, **changes})


def test_the_pieces_that_are_used_are_kept_behind_our_specials(folder, tmp_path):
    pieces = backbone_pieces(folder, ["graphs of words", "a graph of graphs", "graphs words of word"])
    assert pieces.vocabulary() == [*SPECIALS, "graph", "##s", "of", "word", "a", "##x"]
    assert pieces.join(pieces.ids(["Graphs of words"])[0]) == "graphs of words"
    assert pieces.ids(["rare"]) == [[1]]
    few = backbone_pieces(folder, ["graphs of words"] * 3, singles=1)
    assert few.vocabulary() == [*SPECIALS, "graph", "##s", "of", "word"]  # "##s" is the first
    pieces.save(tmp_path / "tokeniser.json")
    assert Pieces.load(tmp_path / "tokeniser.json").ids(["graphs"]) == pieces.ids(["graphs"])


def test_the_reader_reads_as_the_backbone_does(folder):
    pieces = backbone_pieces(folder, ["graphs of words"] * 3)
    model = Slots(config(vocab=pieces.size)).eval()
    start_reader(model, folder, pieces)
    (ids,) = pieces.ids(["a graph of words"])
    states = model.encode(torch.tensor([ids]), torch.tensor([len(ids)])).states[0]
    theirs = torch.tensor([PIECES.index(piece) for piece in ("a", "graph", "of", "word", "##s")])
    assert_close(states, bert(random_weights(), theirs), atol=1e-4, rtol=1e-4)


def test_a_task_that_every_text_has_is_put_to_the_places(folder):
    weights = random_weights()
    task = torch.randn(3, WIDTH)
    save_file({**weights, "embeddings.task_type_embeddings.weight": task}, folder / "model.safetensors")
    pieces = backbone_pieces(folder, ["graphs"] * 3)
    model = Slots(config(vocab=pieces.size)).eval()
    start_reader(model, folder, pieces)
    every = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
    assert_close(model.reader.embed.places.weight, every + task[0])


MERGED = ["<s>", "<pad>", "</s>", "<unk>", "Ġ", "a", "b", "c", "ab", "Ġab", "Ġc", "Ġabc", "<mask>"]


@pytest.fixture
def roberta(folder):
    """The same weights behind bytes that are merged to words."""
    merges = [("a", "b"), ("Ġ", "ab"), ("Ġ", "c"), ("Ġab", "c")]
    tokenizer = Tokenizer(models.BPE({piece: place for place, piece in enumerate(MERGED)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_a_backbone_may_merge_bytes_and_count_its_places_from_two(roberta, tmp_path):
    pieces = backbone_pieces(roberta, [], least=0)
    assert pieces.vocabulary() == [*SPECIALS, *(one for one in MERGED if not one.startswith("<"))]
    pieces.save(tmp_path / "tokeniser.json")
    text = "abc c ab"
    ((ids, spans),) = Pieces.load(tmp_path / "tokeniser.json").encoded([text])
    assert [text[start:end] for start, end in spans] == ["abc", "c", "ab"]
    assert pieces.ids([text]) == [ids]
    assert pieces.join(ids) == text
    model = Slots(config(vocab=pieces.size, longest=14)).eval()
    start_reader(model, roberta, pieces)
    states = model.encode(torch.tensor([ids]), torch.tensor([3])).states[0]
    theirs = torch.tensor([MERGED.index(piece) for piece in ("Ġabc", "Ġc", "Ġab")])
    assert_close(states, bert(random_weights(), theirs, first=2), atol=1e-4, rtol=1e-4)


def test_pieces_of_which_others_are_made_are_kept(roberta):
    pieces = backbone_pieces(roberta, [" abc"] * 3)
    assert set(pieces.vocabulary()) == {*SPECIALS, "Ġ", "a", "b", "c", "ab", "Ġab", "Ġabc"}
    assert pieces.join(pieces.ids(["abc c"])[0]) == "abc c"


def test_other_ways_to_split_words_are_refused(folder):
    Tokenizer(models.Unigram([("a", 0.0)])).save(str(folder / "tokenizer.json"))
    with pytest.raises(ConfigError, match="splits words by Unigram; only BERT's WordPiece and RoBERTa's BPE"):
        backbone_pieces(folder, [])


def test_a_backbone_that_does_not_fit_is_refused(folder, tmp_path):
    pieces = backbone_pieces(folder, ["graphs"] * 3)
    with pytest.raises(ConfigError, match="does not fit the model"):
        start_reader(Slots(config(vocab=pieces.size, inner=16)), folder, pieces)
    with pytest.raises(ConfigError, match="is no tokeniser"):
        backbone_pieces(tmp_path / "none", ["x"])
    (folder / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ConfigError, match="cannot be read"):
        start_reader(Slots(config(vocab=pieces.size)), folder, pieces)


def test_names_of_other_files_are_known_and_missing_tensors_named(folder):
    pieces = backbone_pieces(folder, ["graphs"] * 3)
    weights = random_weights()
    older = {f"bert.{name}".replace("LayerNorm.weight", "LayerNorm.gamma"): value for name, value in weights.items()}
    save_file(older, folder / "model.safetensors")
    model = Slots(config(vocab=pieces.size))
    start_reader(model, folder, pieces)
    assert_close(model.reader.embed.norm.weight, weights["embeddings.LayerNorm.weight"])
    for name in ("encoder.layer.1.output.dense.bias", "embeddings.position_embeddings.weight"):
        save_file({each: value for each, value in weights.items() if each != name}, folder / "model.safetensors")
        with pytest.raises(ConfigError, match=f"lacks the tensor '{name}'"):
            start_reader(model, folder, pieces)
    save_file({"embeddings.word_embeddings.weight": torch.zeros(13, 8)}, folder / "model.safetensors")
    with pytest.raises(ConfigError, match="lacks the tensor"):
        start_reader(model, folder, pieces)


def test_the_sizes_of_a_backbone_are_read_from_its_folder(folder):
    names = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12, "num_hidden_layers": 2}
    (folder / "config.json").write_text(json.dumps(names), encoding="utf-8")
    assert backbone_sizes(folder) == {
        **{"width": 8, "heads": 2, "inner": 12, "reader_layers": 2},
        **{"reader_norm": "post", "places": "learned"},
    }
    (folder / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="does not tell its sizes"):
        backbone_sizes(folder)
    assert backbone_pieces(folder, [], least=0).size == len(PIECES) - 5 + len(SPECIALS)


def test_a_reader_of_titles_learns_on_a_frozen_backbone(folder, tmp_path):
    names = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12, "num_hidden_layers": 2}
    (folder / "config.json").write_text(json.dumps(names), encoding="utf-8")
    rows = [{"title": "graph", "body": "graphs of words", "label": "x"}, {"body": "a word of graph", "label": "y"}] * 20
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    changes = [f"backbone={folder}", "model.freeze=true", "model.hidden=8", "train.steps=6", "pipeline.source=16"]
    changes += ["pipeline.meta=4", "pipeline.overlap=2", "batches.source=16", "weights=fp16"]
    recipe = own_recipe("classify", str(data), out=tmp_path / "out", fields={}, changes=changes)
    said = []
    bundle = make(recipe, tmp_path / "out", report=lambda event: said.append(event.get("text", "")))
    assert (tmp_path / "out" / "states-2.bin").stat().st_size > 0
    assert any("once with the frozen backbone" in text for text in said)
    reader = load(bundle)
    assert reader.classify(["graphs of words"])[0].labels
    own = load_bundle(bundle, dtype=torch.float32).model.reader.embed.norm.weight
    assert_close(own, random_weights()["embeddings.LayerNorm.weight"], atol=1e-3, rtol=1e-3)
    changes = [f"start={bundle}", "model.freeze=true", "train.steps=3", "weights=fp16"]
    again = make(own_recipe("classify", str(data), out=tmp_path / "two", fields={}, changes=changes), tmp_path / "two")
    assert_close(load_bundle(again, dtype=torch.float32).model.reader.embed.norm.weight, own)
    with pytest.raises(ConfigError, match="has a Transformer of other sizes"):
        make(
            own_recipe("classify", str(data), out=None, fields={}, changes=[*changes, "model.width=4"]), tmp_path / "3"
        )
