"""Pictures of the page for the docs, made with the shipped models: light, dark, with an answer, on a phone.

python benchmarks/page_screenshots.py [--out docs/images]       (needs Chromium, as the tests of the page do)
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

TEXT = (
    "Just landed in Tokyo! First stop: a tiny ramen shop near the station, then cherry blossom all along the river. "
    "Where should we eat tomorrow?"
)
PICTURES = {
    "page-light": {"color_scheme": "light", "viewport": {"width": 1200, "height": 720}},
    "page-dark": {"color_scheme": "dark", "viewport": {"width": 1200, "height": 720}},
    "page-answer": {"color_scheme": "light", "viewport": {"width": 1200, "height": 720}},
    "page-phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}, "device_scale_factor": 2},
}
ASKED = "What predicted lower exam results?"
PASSAGE = (
    "In a cohort of 640 first-year students we recorded sleep by wrist actigraphy for eight weeks. Irregular bedtimes, "
    "rather than short sleep, predicted lower exam results after adjusting for chronotype, prior grades and work."
)
MOST = 200_000  # bytes


def tagged(page: Page) -> None:
    """A post, its tags, one of them added."""
    page.get_by_label("Your post").fill(TEXT)
    page.locator("#results .chip").first.click()


def answered(page: Page) -> None:
    """A passage, a question, its answer marked in the passage."""
    page.get_by_role("tab", name="Answer").click()
    page.get_by_label("Question").fill(ASKED)
    page.get_by_label("Passage").fill(PASSAGE)
    page.locator("#results li").first.wait_for()


def picture(browser: Browser, url: str, file: Path, options: dict[str, object]) -> None:
    """One picture of the page in use."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.goto(url)
    (answered if file.stem == "page-answer" else tagged)(page)
    page.mouse.move(5, 5)
    page.evaluate("document.activeElement.blur()")
    page.screenshot(path=file)
    context.close()
    if file.stat().st_size > MOST:
        raise SystemExit(f"{file} has {file.stat().st_size:,} bytes, the most is {MOST:,}")
    print(f"{file}: {file.stat().st_size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    args = parser.parse_args()
    chromium = os.environ.get("TAGSMITH_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    args.out.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "tagsmith", "serve", "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as service:
        try:
            url = json.loads(service.stdout.readline())["serving"]
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=chromium)
                for name, options in PICTURES.items():
                    picture(browser, url, args.out / f"{name}.png", options)
                browser.close()
        finally:
            service.terminate()


if __name__ == "__main__":
    main()
