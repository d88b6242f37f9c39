"""The public names: what is promised is there, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tagsmith


def test_every_public_name_resolves():
    for name in tagsmith.__all__:
        assert getattr(tagsmith, name) is not None
    assert tagsmith.load.__module__ == "tagsmith.pipelines.load"
    assert issubclass(tagsmith.TagsmithError, Exception)


def test_dir_is_the_list_of_public_names():
    assert dir(tagsmith) == sorted(tagsmith.__all__)
    assert len(set(tagsmith.__all__)) == len(tagsmith.__all__)
    assert set(tagsmith._WHERE) | {"__version__"} == set(tagsmith.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'tagsmith' has no attribute 'Taggger'"):
        tagsmith.Taggger  # noqa: B018 - looking is what is tested


def test_a_name_is_what_its_module_calls_by_it():
    from tagsmith.pipelines.tag import Tagger
    from tagsmith.records import Post

    assert tagsmith.Tagger is Tagger
    assert tagsmith.Post is Post


def test_importing_brings_nothing_heavy():
    code = "import sys, tagsmith; tagsmith.Post; assert not {'torch', 'numpy', 'rich'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_all_errors_are_of_one_family():
    from tagsmith import errors

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert len(kinds) > 3
    assert all(issubclass(kind, tagsmith.TagsmithError) for kind in kinds)
