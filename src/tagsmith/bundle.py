"""A trained model as a folder that can be moved, shipped and checked.

my-model/
├── config.json          task, language, model and pipeline settings
├── tokeniser.json       the sub-words, characters or words
├── labels.json          the tags it ranks, if it ranks a closed list; null for one that was taken out
├── weights.safetensors  int8 matrices with fp16 scales, the rest fp16
├── spellings.json       how a tag is usually written, where that is not its words run together
├── README.md            the model card
└── checksums.json       sha256 of each of the above

A model may share the reader and the tokeniser of one beside it (`shares`): it holds neither, and in memory both models
have the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tagsmith.config import from_dict, nearest, to_dict
from tagsmith.errors import BundleError, OutputError
from tagsmith.models import CATALOG, find_model
from tagsmith.text.symbols import Tokeniser, load_tokeniser

FORMAT = 1
FILES = ("config.json", "tokeniser.json", "weights.safetensors", "spellings.json", "README.md")
LABELS = "labels.json"
SHORT = 32  # values of a row that is not worth a scale of its own
READER = "reader."  # how the names of weights begin that models share
SHIPPED = Path(__file__).parent / "bundles"


@dataclass(frozen=True)
class Bundle:
    """Everything a pipeline needs."""

    name: str
    task: str
    language: str
    model: nn.Module
    tokeniser: Tokeniser
    pipeline: Mapping[str, Any]
    spellings: Mapping[str, str] = field(default_factory=dict)
    labels: tuple[str | None, ...] = ()  # the words of each output
    card: str = ""
    weights: str = "int8"  # how they are kept on disk
    fingerprint: str = ""  # of weights and tokeniser, as they were loaded
    lends: bool = False  # models beside it share its reader and tokeniser
    shares: str = ""  # the model beside it that lends it these
    common: bool = False  # as it was loaded: other models in memory may have the same reader


_LENT: WeakValueDictionary[tuple[str, ...], Any] = WeakValueDictionary()  # readers and tokenisers in memory


@dataclass(frozen=True)
class Description:
    """What `config.json` tells without loading anything else."""

    name: str
    folder: Path
    task: str
    language: str
    megabytes: float
    measured: Mapping[str, Any]


def save_bundle(bundle: Bundle, folder: Path, *, measured: Mapping[str, Any] | None = None) -> None:
    """Write a bundle; an older one of that name is replaced only when the new one is whole."""
    beside, old = folder.with_name(f".{folder.name}.part"), folder.with_name(f".{folder.name}.old")
    shutil.rmtree(beside, ignore_errors=True)
    _clear_up(folder, old)
    try:
        beside.mkdir(parents=True)
        _fill(beside, bundle, measured=measured or {})
        if folder.exists():
            os.replace(folder, old)
        os.replace(beside, folder)
    except (OSError, SafetensorError) as problem:
        shutil.rmtree(beside, ignore_errors=True)
        raise OutputError(f"cannot write the bundle {folder}: {problem}; choose another place") from None
    finally:
        _clear_up(folder, old)


def _clear_up(folder: Path, old: Path) -> None:
    """Nothing stays of the older bundle, unless it is the only one: then it gets its name back."""
    if old.exists() and not folder.exists():
        os.replace(old, folder)
    shutil.rmtree(old, ignore_errors=True)


def _fill(folder: Path, bundle: Bundle, *, measured: Mapping[str, Any]) -> None:
    """All files of a bundle."""
    model_name = next(name for name in CATALOG if isinstance(bundle.model, find_model(name)))
    config = {
        "format": FORMAT,
        "name": bundle.name,
        "task": bundle.task,
        "language": bundle.language,
        "model": {"name": model_name, **to_dict(bundle.model.config)},
        "pipeline": dict(bundle.pipeline),
        "weights": bundle.weights,
        "measured": dict(measured),
        **({"lends": True} if bundle.lends else {}),
        **({"shares": bundle.shares} if bundle.shares else {}),
    }
    _write(folder / "config.json", json.dumps(config, indent=1, ensure_ascii=False))
    tensors = pack(bundle.model, how=bundle.weights)
    if bundle.shares:
        tensors = {name: value for name, value in tensors.items() if not name.startswith(READER)}
    else:
        bundle.tokeniser.save(folder / "tokeniser.json")
    save_file(tensors, folder / "weights.safetensors")
    _write(folder / "spellings.json", json.dumps(dict(bundle.spellings), ensure_ascii=False))
    _write(folder / "README.md", bundle.card)
    if bundle.labels:
        _write(folder / LABELS, json.dumps(bundle.labels, ensure_ascii=False))
    (folder / "weights.safetensors").chmod(0o644)  # the library writes files only their owner can read
    _write_checksums(folder)


def save_twin(folder: Path, *, name: str, task: str, same_as: str, card: str, measured: Mapping[str, Any]) -> None:
    """A bundle that is another one's model under another task; it lies beside that one and holds no weights."""
    language = _read_config(folder.parent / same_as)["language"]
    folder.mkdir(parents=True, exist_ok=True)
    config = {"format": FORMAT, "name": name, "task": task, "language": language, "same_as": same_as}
    _write(folder / "config.json", json.dumps({**config, "measured": dict(measured)}, indent=1, ensure_ascii=False))
    _write(folder / "README.md", card)


def annotate_bundle(folder: Path, *, card: str, measured: Mapping[str, Any]) -> None:
    """Give a bundle a new card and add to what was measured of it; the model stays as it is."""
    config = _read_config(folder)
    config["measured"] = {**config.get("measured", {}), **measured}
    _write(folder / "config.json", json.dumps(config, indent=1, ensure_ascii=False))
    _write(folder / "README.md", card)
    _write_checksums(folder)


def load_bundle(name: str | Path, *, dtype: torch.dtype | None = None, device: str | None = None) -> Bundle:
    """Load a shipped model by name or any bundle by its folder, after checking that every file is whole."""
    folder = find_bundle(name)
    config = _read_config(folder)
    if "same_as" in config:
        shared = load_bundle(folder.parent / config["same_as"], dtype=dtype, device=device)
        card = (folder / "README.md").read_text(encoding="utf-8")
        return replace(shared, name=config["name"], task=config["task"], card=card)
    sums = _verify(folder, config)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = dtype or best_dtype(device)
    owner = _owner(folder, config, dtype=dtype, device=device) if "shares" in config else None
    reader: Any = owner.model.reader if owner else None
    model: Any = _filled(folder, config, dtype=dtype, reader=reader).to(device).eval()
    tokeniser = owner.tokeniser if owner else load_tokeniser(folder / "tokeniser.json")
    mark = f"{sums['weights.safetensors']} {owner.fingerprint if owner else sums['tokeniser.json']}"
    if config.get("lends"):
        where = (sums["weights.safetensors"], str(dtype), device)
        model.reader = _LENT.setdefault((*where, "reader"), model.reader)
        tokeniser = _LENT.setdefault((*where, "tokeniser"), tokeniser)
    return Bundle(
        name=config["name"],
        task=config["task"],
        language=config["language"],
        model=model,
        tokeniser=tokeniser,
        pipeline=config["pipeline"],
        spellings=json.loads((folder / "spellings.json").read_text(encoding="utf-8")),
        labels=_labels(folder),
        card=(folder / "README.md").read_text(encoding="utf-8"),
        weights=config.get("weights", "int8"),
        fingerprint=hashlib.sha256(mark.encode()).hexdigest(),
        common="lends" in config or "shares" in config,
    )


def _owner(folder: Path, config: Mapping[str, Any], *, dtype: torch.dtype, device: str) -> Bundle:
    """The bundle whose reader and tokeniser this one has too."""
    owner = folder.parent / config["shares"]
    if not (owner / "config.json").exists():
        raise BundleError(f"{folder} shares the reader of {owner.name}, which is not beside it; copy both")
    return load_bundle(owner, dtype=dtype, device=device)


def _filled(folder: Path, config: Mapping[str, Any], *, dtype: torch.dtype, reader: nn.Module | None) -> nn.Module:
    """The model with its weights; those of its reader may be another model's."""
    values = dict(config["model"])
    model_class = find_model(values.pop("name"))
    with _Unfilled():
        model: Any = model_class(from_dict(model_class.Config, values))
    try:
        tensors = load_file(folder / "weights.safetensors")
    except (SafetensorError, OSError) as problem:
        raise BundleError(f"{folder}/weights.safetensors cannot be read: {problem}") from None
    if reader is not None:
        if len(reader.embed.table.weight) != model.config.vocab:  # type: ignore[union-attr,arg-type]
            raise BundleError(f"{folder} shares a reader of other sizes; take a fresh copy of both models")
        model.reader = reader
        tensors |= {f"{READER}{name}": weight for name, weight in reader.named_parameters()}
    unpack(tensors, model, dtype=dtype, folder=folder)
    return model


def find_bundle(name: str | Path) -> Path:
    """The folder of a shipped model or of a path."""
    if (SHIPPED / str(name) / "config.json").exists() and os.sep not in str(name):
        return SHIPPED / str(name)
    folder = Path(name)
    if (folder / "config.json").exists():
        return folder
    if folder.exists():
        raise BundleError(f"{folder} is no bundle: it has no config.json; `tagsmith train` makes bundles")
    shipped = sorted(path.name for path in SHIPPED.glob("*") if (path / "config.json").exists())
    raise BundleError(f"there is no model or folder {str(name)!r}; {nearest(str(name), shipped)}")


def describe_bundle(folder: Path) -> Description:
    """The facts about one bundle."""
    config = _read_config(folder)
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    return Description(
        config["name"], folder, config["task"], config["language"], round(size, 1), config.get("measured", {})
    )


def checksum(name: str | Path) -> str:
    """One number for all a model's files, by what their checksums say; `load_bundle` checks those."""
    folder = find_bundle(name)
    config = _read_config(folder)
    if "same_as" in config:
        shared = checksum(folder.parent / config["same_as"])
        return hashlib.sha256(f"{shared} {config['task']}".encode()).hexdigest()
    try:
        own = _digest(folder / "checksums.json")
        if "shares" not in config:
            return own
        return hashlib.sha256(f"{own} {checksum(folder.parent / config['shares'])}".encode()).hexdigest()
    except OSError:
        raise BundleError(f"{folder} is incomplete: it has no readable checksums.json; take a fresh copy") from None


def shipped_bundles() -> list[Description]:
    """All models inside the package."""
    return [describe_bundle(path) for path in sorted(SHIPPED.glob("*")) if (path / "config.json").exists()]


def pack(model: nn.Module, *, how: str = "int8") -> dict[str, Tensor]:
    """Weights for the disk: trained matrices as int8 rows with a scale each, everything else fp16.

    Where rows are short, as in maps from a small code to many weights, columns have the scales.
    """
    packed: dict[str, Tensor] = {}
    for name, weight in model.named_parameters():
        value = weight.detach().float().cpu()
        if how == "int8" and value.dim() == 2 and weight.requires_grad:
            along = 1 if value.shape[1] > SHORT else 0
            scale = value.abs().amax(along, keepdim=True).clamp(min=1e-8) / 127
            packed[name] = (value / scale).round().to(torch.int8)
            packed[f"{name}.scale"] = scale.half()
        else:
            packed[name] = value.half()
    return packed


def unpack(tensors: Mapping[str, Tensor], model: nn.Module, *, dtype: torch.dtype, folder: Path) -> None:
    """Fill a model that has no storage yet."""
    values = {
        name: value.to(dtype) * tensors[f"{name}.scale"].to(dtype) if value.dtype == torch.int8 else value.to(dtype)
        for name, value in tensors.items()
        if not name.endswith(".scale")
    }
    first = {id(weight): name for name, weight in model.named_parameters()}
    shared = {
        name: first[id(weight)] for name, weight in model.named_parameters(remove_duplicate=False) if name not in values
    }
    missing = sorted(name for name, source in shared.items() if source not in values)
    if missing:
        raise BundleError(f"{folder}/weights.safetensors lacks {missing[0]!r}; take a fresh copy of the model")
    for name, source in shared.items():
        values[name] = values[source]
    try:
        model.load_state_dict(values, strict=False, assign=True)
    except RuntimeError as problem:  # weights of other sizes
        raise BundleError(f"{folder}/weights.safetensors is of another model: {problem}; take a fresh copy") from None


def best_dtype(device: str) -> torch.dtype:
    """bf16 where the processor multiplies it fast, else fp32."""
    if device != "cpu":
        return torch.bfloat16
    own = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    fast = any(asked is not None and asked() for asked in own)  # others can, but slower than fp32
    return torch.bfloat16 if fast else torch.float32


class _Unfilled(TorchFunctionMode):
    """Leaves new weights unfilled: they are about to be loaded, and filling them costs more than loading."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise BundleError(f"{folder}/config.json cannot be read: {problem}; take a fresh copy of the model") from None
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise BundleError(f"{folder} has another format than {FORMAT}, the one this version of Tagsmith reads")
    return config


def _verify(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """Every file is there and whole; returns their checksums."""
    files = [name for name in FILES if name != "tokeniser.json" or "shares" not in config]
    try:
        sums = json.loads((folder / "checksums.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise BundleError(f"{folder} is incomplete: it has no readable checksums.json; take a fresh copy") from None
    for name in (*files, *([LABELS] if isinstance(sums, dict) and LABELS in sums else [])):
        path = folder / name
        if not path.exists():
            raise BundleError(f"{folder} is incomplete: {name} is missing; take a fresh copy of the model")
        if not isinstance(sums, dict) or _digest(path) != sums.get(name):
            raise BundleError(f"{path} is damaged: its checksum is wrong; take a fresh copy of the model")
    return sums


def _write_checksums(folder: Path) -> None:
    names = [name for name in (*FILES, LABELS) if (folder / name).exists()]
    _write(folder / "checksums.json", json.dumps({name: _digest(folder / name) for name in names}, indent=1))


def _labels(folder: Path) -> tuple[str | None, ...]:
    path = folder / LABELS
    return tuple(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else ()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
