"""Who may import whom: the list in the design, read from the sources themselves."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tagsmith

PACKAGE = Path(tagsmith.__file__).parent
LAYERS = [
    ["errors"],
    ["records", "config", "terminal"],
    ["text", "nn"],
    ["data", "decode", "metrics"],
    ["models"],
    ["train", "bundle"],
    ["pipelines"],
    ["recipe", "service", "cluster"],
    ["cli"],
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
DOORS = ("__init__", "__main__")  # ways in, above everything
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "bundles" not in path.parts)


def part_of(path: Path) -> str:
    """The part of the package that a module belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> list[str]:
    """Every module that is imported anywhere in a file, by its full name."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written out in full"
            found.append(node.module or "")
            found += [f"{node.module}.{name.name}" for name in node.names if node.module == "tagsmith"]
    return found


def own_parts(path: Path) -> set[str]:
    """The parts of Tagsmith that a file imports."""
    return {name.split(".")[1] for name in imports_of(path) if name.startswith("tagsmith.")}


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def test_every_part_has_a_layer():
    assert {part_of(path) for path in MODULES} - set(DOORS) <= set(HEIGHT)
    assert len(MODULES) > 20


@pytest.mark.parametrize("path", [path for path in MODULES if part_of(path) not in DOORS], ids=name_of)
def test_imports_point_only_to_lower_layers(path):
    part = part_of(path)
    for other in own_parts(path) - {part}:
        assert HEIGHT[other] < HEIGHT[part], f"{name_of(path)} imports tagsmith.{other}"


@pytest.mark.parametrize("part", ["errors", "records", "config", "terminal", "text", "metrics"])
def test_text_work_does_without_torch(part):
    for path in MODULES:
        if part_of(path) == part:
            roots = {name.split(".")[0] for name in imports_of(path)}
            assert not roots & {"torch", "safetensors", "accelerate"}, name_of(path)
            assert part == "metrics" or "numpy" not in roots, name_of(path)


def test_models_parts_know_nothing_of_text():
    for path in MODULES:
        if part_of(path) == "nn":
            assert own_parts(path) <= {"nn", "errors"}, name_of(path)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_is_printed_and_nothing_happens_on_import(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert "print" not in names
    if path.name != "__main__.py":
        done = [node for node in tree.body if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)]
        assert not done, f"{name_of(path)}: line {done[0].lineno} does something when it is imported"


def test_no_module_is_too_long():
    for path in MODULES:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, name_of(path)
