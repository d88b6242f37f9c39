"""Pictures of the page for the docs, made with the shipped models: light, dark and as a phone shows it.

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

from playwright.sync_api import Browser, sync_playwright

TEXT = (
    "Just landed in Tokyo! First stop: a tiny ramen shop near the station, then cherry blossom all along the river. "
    "Where should we eat tomorrow?"
)
PICTURES = {
    "page-light": {"color_scheme": "light", "viewport": {"width": 1200, "height": 720}},
    "page-dark": {"color_scheme": "dark", "viewport": {"width": 1200, "height": 720}},
    "page-phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}, "device_scale_factor": 2},
}
MOST = 200_000  # bytes


def picture(browser: Browser, url: str, file: Path, options: dict[str, object]) -> None:
    """One picture: a post, its tags, one of them added."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.goto(url)
    page.get_by_label("Your post").fill(TEXT)
    page.locator("#results .chip").first.click()
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
