"""Tags that say the same thing twice."""

from __future__ import annotations

import pytest

from tagsmith.text.alike import alike


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("vaccine", "vaccines"),
        ("climate action", "climate actions"),
        ("地铁回应乘客开具延误证明", "地铁公司回应乘客开具延误证明"),
    ],
)
def test_the_same_again(one, other):
    assert alike(one, other)
    assert alike(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("climate action", "climate action now"),
        ("ramen", "tokyo"),
        ("大熊猫", "大熊猫双胞胎满月了"),
        ("大熊猫双胞胎满月了", "地铁一号线因故障停运"),
        ("élysée", "élysées palace"),
    ],
)
def test_something_else(one, other):
    assert not alike(one, other)
    assert not alike(other, one)
