"""The page about scale tells the numbers of the committed run, by the script that made them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parent.parent


def script():
    spec = importlib.util.spec_from_file_location("batch_speed", ROOT / "benchmarks" / "batch_speed.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_tells_what_was_measured():
    speed = script()
    result = json.loads(speed.RESULTS.read_text(encoding="utf-8"))
    page = speed.PAGE.read_text(encoding="utf-8")
    assert f"{speed.BEGIN}\n{speed.told(result)}\n{speed.END}" in page
    assert result["a_day"] == speed.a_day(result["median"]["local 1"]["rows_per_cpu_second"])


def test_filling_the_page_again_changes_nothing_else(tmp_path):
    speed = script()
    page = tmp_path / "page.md"
    page.write_text(f"before\n{speed.BEGIN}\nold\n{speed.END}\nafter\n")
    speed.fill_page(page, "new")
    speed.fill_page(page, "new")
    assert page.read_text() == f"before\n{speed.BEGIN}\nnew\n{speed.END}\nafter\n"


def test_the_arithmetic_of_a_day():
    day = script().a_day(100.0)
    assert (day["posts_per_second"], day["cores_all_day"], day["core_hours"]) == (5787, 57.9, 1389)


def test_what_a_gpu_did_is_told_with_its_day():
    median = {f"gpu {workers}": {"rows_per_second": rate} for workers, rate in ((1, 1000.0), (2, 2500.0), (4, 2000.0))}
    text = "\n".join(script().told_of_gpu({"gpu": "H200", "part_rows": 64, "rounds": 2, "median": median}))
    assert "On a GPU (H200)" in text
    assert "--gpu 1 2 4 --part-rows 64 --rounds 2`): 1: 1,000, 2: 2,500, 4: 2,000." in text
    assert "500,000,000 / 2,500 / 3,600 = 55.6 hours of one such GPU a day, 2.31 of them all day" in text
