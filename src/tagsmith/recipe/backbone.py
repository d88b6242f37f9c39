"""A pre-trained BERT, ERNIE or RoBERTa, as Hugging Face keeps it in a folder, as the beginning of a reader.

folder/{tokenizer.json, model.safetensors} --the pieces that our texts use--> Pieces, weights of the reader

RoBERTa splits words by merging bytes, counts places from 2 on and has names of its own for the specials; ERNIE adds the
vector of a task. Otherwise all are BERT.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from tagsmith.errors import ConfigError
from tagsmith.text.pieces import SPECIALS, Pieces

AT_ONCE = 10_000  # texts counted together


class Family(NamedTuple):
    """What differs between backbones."""

    stands_for: tuple[str, ...]  # theirs for ours, in the order of SPECIALS
    first_place: int  # the row of the first place in their table


FAMILIES = {
    "WordPiece": Family(("[PAD]", "[UNK]", "[SEP]", "[SEP]", "[CLS]", "[MASK]"), 0),
    "BPE": Family(("<pad>", "<unk>", "</s>", "</s>", "<s>", "<mask>"), 2),
}


def backbone_pieces(
    folder: str | Path, texts: Iterable[str], *, phrases: Iterable[str] = (), least: int = 3, singles: int = 0
) -> Pieces:
    """The backbone's pieces that occur `least` times in the texts, and single characters, behind our specials.

    Of these the first `singles` are kept whether they occur or not; 0: all.
    Those that are used most in `phrases` come first: a model may write only so many, and copy the others.
    """
    whole = _tokenizer(folder)
    family = _family(whole)
    used, written = _count(whole, texts), _count(whole, phrases)
    known = sorted(whole.get_vocab().items(), key=lambda one: (-written[one[1]], one[1]))
    single = [(number, piece) for piece, number in known if len(piece.removeprefix("##")) == 1]
    always = {piece for _, piece in sorted(single)[: singles or None]}
    kept = [
        piece
        for piece, number in known
        if piece not in family.stands_for and (used[number] >= least or piece in always)
    ]
    small = _by_merges(whole, kept) if family is FAMILIES["BPE"] else _by_words(whole, kept)
    small.add_special_tokens(list(SPECIALS))
    return Pieces(small)


def _by_words(whole: Tokenizer, kept: list[str]) -> Tokenizer:
    small = Tokenizer(models.WordPiece(_numbered(kept), unk_token="[UNK]"))
    small.normalizer, small.pre_tokenizer = whole.normalizer, whole.pre_tokenizer
    small.decoder = decoders.WordPiece(cleanup=False)
    return small


def _by_merges(whole: Tokenizer, kept: list[str]) -> Tokenizer:
    """Bytes merged to pieces; those of which a kept one is made are kept too. Every word has a blank before it."""
    merges = [(one, two) for one, two in json.loads(whole.to_str())["model"]["merges"]]
    also = set(kept)
    for one, two in reversed(merges):
        if one + two in also:
            also |= {one, two}
    vocabulary = _numbered([*kept, *sorted(also - set(kept))])
    small = Tokenizer(models.BPE(vocabulary, [pair for pair in merges if "".join(pair) in also]))
    small.normalizer = whole.normalizer
    small.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    small.decoder = decoders.ByteLevel()
    return small


def _numbered(kept: list[str]) -> dict[str, int]:
    return {piece: number for number, piece in enumerate((*SPECIALS, *kept))}


def _count(tokenizer: Tokenizer, texts: Iterable[str]) -> Counter[int]:
    used: Counter[int] = Counter()
    stream = iter(texts)
    while chunk := list(islice(stream, AT_ONCE)):
        for found in tokenizer.encode_batch_fast(chunk, add_special_tokens=False):
            used.update(found.ids)
    return used


def start_reader(model: Any, folder: str | Path, pieces: Pieces) -> None:
    """Give a model's reader the backbone's weights; it must be of its size, post-norm, with learned places."""
    path = Path(folder) / "model.safetensors"
    try:
        weights = {name: value.float() for name, value in load_file(path).items()}
    except (OSError, SafetensorError) as wrong:
        raise ConfigError(f"backbone: {path} cannot be read: {wrong}") from None
    weights = {_plain_name(name): value for name, value in weights.items()}
    whole = _tokenizer(folder)
    family, numbers = _family(whole), whole.get_vocab()
    names = pieces.vocabulary()
    rows = [numbers[family.stands_for[SPECIALS.index(name)] if name in SPECIALS else name] for name in names]
    places = slice(family.first_place, family.first_place + model.config.longest)
    try:
        state = reader_state(weights, torch.tensor(rows), places)
    except (KeyError, ValueError) as lacking:
        raise ConfigError(f"backbone: {path} lacks the tensor {lacking}; it must be a whole BERT encoder") from None
    own = dict(model.reader.state_dict())
    other = [name for name in own if name not in state or state[name].shape != own[name].shape]
    if other:
        raise ConfigError(
            f"backbone: {folder} does not fit the model ({other[0]} differs); take width, heads, inner and "
            'reader_layers from its config.json, with reader_norm = "post" and places = "learned"'
        )
    model.reader.load_state_dict({name: state[name] for name in own})


def backbone_sizes(folder: str | Path) -> dict[str, Any]:
    """The settings of a reader that can take over this backbone, from its config.json."""
    path = Path(folder) / "config.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        sizes = {ours: int(found[theirs]) for ours, theirs in _SIZES.items()}
    except (OSError, ValueError, KeyError, TypeError) as wrong:
        raise ConfigError(f"backbone: {path} does not tell its sizes: {wrong}; name a Hugging Face BERT") from None
    return {**sizes, "reader_norm": "post", "places": "learned"}


_SIZES = {
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
    "reader_layers": "num_hidden_layers",
}


def _plain_name(name: str) -> str:
    """A tensor's name without the task it was trained for, and as newer files have it."""
    for task in ("bert.", "ernie.", "roberta."):
        name = name.removeprefix(task)
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def reader_state(weights: dict[str, Tensor], rows: Tensor, places: slice) -> dict[str, Tensor]:
    """Their weights under our names; `rows` are the pieces to keep. What every piece gets is put to the places."""
    of = weights.__getitem__
    embedding = "embeddings."
    placed = of(f"{embedding}position_embeddings.weight")[places] + of(f"{embedding}token_type_embeddings.weight")[0]
    if (task := f"{embedding}task_type_embeddings.weight") in weights:
        placed = placed + weights[task][0]
    state = {"embed.table.weight": of(f"{embedding}word_embeddings.weight")[rows], "embed.places.weight": placed}
    _copy(state, "embed.norm", weights, f"{embedding}LayerNorm")
    numbers = [int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")]
    if not numbers:
        raise KeyError("encoder.layer.0")
    layers = 1 + max(numbers)
    for number in range(layers):
        theirs, ours = f"encoder.layer.{number}.", f"encoder.layers.{number}."
        looks = f"{theirs}attention.self."
        _copy(state, f"{ours}attention.query", weights, f"{looks}query")
        for kind in ("weight", "bias"):
            both = [of(f"{looks}key.{kind}"), of(f"{looks}value.{kind}")]
            state[f"{ours}attention.key_value.{kind}"] = torch.cat(both)
        _copy(state, f"{ours}attention.out", weights, f"{theirs}attention.output.dense")
        _copy(state, f"{ours}residuals.0.norm", weights, f"{theirs}attention.output.LayerNorm")
        _copy(state, f"{ours}forward_part.0", weights, f"{theirs}intermediate.dense")
        _copy(state, f"{ours}forward_part.2", weights, f"{theirs}output.dense")
        _copy(state, f"{ours}residuals.1.norm", weights, f"{theirs}output.LayerNorm")
    return state


def _copy(state: dict[str, Tensor], ours: str, weights: dict[str, Tensor], theirs: str) -> None:
    for kind in ("weight", "bias"):
        state[f"{ours}.{kind}"] = weights[f"{theirs}.{kind}"]


def _tokenizer(folder: str | Path) -> Tokenizer:
    path = Path(folder) / "tokenizer.json"
    try:
        found = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as wrong:  # the library raises bare Exception for every cause
        raise ConfigError(f"backbone: {path} is no tokeniser: {wrong}; name a Hugging Face folder of a BERT") from None
    if (kind := _kind(found)) not in FAMILIES:
        known = "BERT's WordPiece and RoBERTa's BPE are known"
        raise ConfigError(f"backbone: {folder} splits words by {kind}; only {known}")
    found.no_truncation()
    found.no_padding()
    return found


def _kind(tokenizer: Tokenizer) -> str:
    return str(json.loads(tokenizer.to_str())["model"]["type"])


def _family(tokenizer: Tokenizer) -> Family:
    return FAMILIES[_kind(tokenizer)]
