"""Settings: frozen dataclasses to and from plain dictionaries and TOML, strictly.

An unknown key is an error that names the nearest known one; so is a value of the wrong type.
"""

from __future__ import annotations

import copy
import dataclasses
import difflib
import tomllib
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from tagsmith.errors import ConfigError

Settings = TypeVar("Settings")


def from_dict(kind: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Build a settings dataclass; nested dataclasses take nested mappings."""
    hints = get_type_hints(kind)
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for key in values:
        if key not in names:
            raise ConfigError(f"{kind.__name__} has no setting {key!r}; {nearest(key, sorted(names))}")
    made = {key: _fit(hints[key], value, f"{kind.__name__}.{key}") for key, value in values.items()}
    missing = [
        field.name
        for field in dataclasses.fields(kind)  # type: ignore[arg-type]
        if field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
        and field.name not in made
    ]
    if missing:
        raise ConfigError(f"{kind.__name__} needs the setting {missing[0]!r}; it was not given")
    return kind(**made)


def to_dict(settings: Any) -> dict[str, Any]:
    """The settings as plain values, ready for JSON."""
    return dataclasses.asdict(settings)


def check_positive(settings: Any, *names: str) -> None:
    """Settings that count something are at least 1."""
    for name in names:
        if getattr(settings, name) < 1:
            raise ConfigError(f"{type(settings).__name__}.{name} must be at least 1, not {getattr(settings, name)}")


def nearest(word: str, known: Sequence[str]) -> str:
    """The tail of an error: the nearest known word, or all of them."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a dictionary."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no recipe {path}; `ls recipes` shows those that come with Tagsmith") from None
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {problem.strerror}; name a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path} is not TOML: {problem}") from None


def set_values(values: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """A copy of nested `values` with `section.key=value` changes; values are read as TOML, else as text."""
    made = copy.deepcopy(values)
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not path.strip():
            raise ConfigError(f"--set takes section.key=value, not {change!r}")
        *sections, key = path.strip().split(".")
        place = made
        for section in sections:
            place = place.setdefault(section, {})
            if not isinstance(place, dict):
                raise ConfigError(f"--set {change!r}: {section!r} is a value, not a section")
        place[key] = _read_value(text)
    return made


def _read_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _fit(hint: Any, value: Any, name: str) -> Any:
    """The value as the hinted type, or an error that says what the setting takes."""
    origin, options = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_dict(hint, _section(value, name))
    if origin is Literal and value not in options:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, options))}, not {value!r}")
    if origin in (Union, types.UnionType):
        return None if value is None else _fit(next(o for o in options if o is not type(None)), value, name)
    if origin in (tuple, list):
        return origin(_items(options, value, name))
    if origin is dict:
        return {key: _fit(options[1], item, f"{name}.{key}") for key, item in _section(value, name).items()}
    return value if origin is Literal or hint is Any else _plain(hint, value, name)


def _section(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is a section of settings, not {value!r}")
    return value


def _items(options: Sequence[Any], value: Any, name: str) -> list[Any]:
    """The items of a list, or of a tuple, whose length is fixed unless it is `tuple[X, ...]`."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"{name} must be a list, not {value!r}")
    if len(options) > 1 and Ellipsis not in options and len(value) != len(options):
        raise ConfigError(f"{name} must have {len(options)} values, not {len(value)}")
    return [_fit(options[0], item, name) for item in value]


def _plain(hint: type, value: Any, name: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(f"{name} must be of type {hint.__name__}, not {value!r}")
    return value
