"""The page in a real browser: type, see, click, switch, and be told when something is wrong.

These tests need Chromium; where there is none they are reported as not run (`apt-get install chromium` gets it).
"""

from __future__ import annotations

import json
import re
import shlex

import httpx
import pytest

from conftest import NO_BROWSER, find_chromium, sample_rows
from serving import Told, serving, until_gone
from tagsmith.pipelines.embed import Embedder
from tagsmith.pipelines.index import PostIndex, build_index
from tagsmith.pipelines.load import load
from tagsmith.records import post_of
from tagsmith.service.pages import FILES, STATIC

needs_browser = pytest.mark.skipif(find_chromium() is None, reason=NO_BROWSER)
TEXT = "cannot stop thinking of the barista"


@pytest.fixture(scope="module")
def address(tiny_bundle, classify_bundle, answer_bundle, extract_bundle, reply_bundle, rank_bundle, tmp_path_factory):
    """A service of every task but keyphrases, with an index."""
    embedder = Embedder.load(rank_bundle)
    folder = tmp_path_factory.mktemp("page") / "index"
    build_index([post_of(row) for row in sample_rows()], embedder, folder)
    names = {
        "tags": tiny_bundle,
        "topic": classify_bundle,
        "answers": answer_bundle,
        "extracts": extract_bundle,
        "replies": reply_bundle,
    }
    pipelines = {name: load(folder) for name, folder in names.items()}
    with serving(pipelines, index=PostIndex.open(folder, embedder)) as (client, _):
        yield str(client.base_url)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=find_chromium())
        yield started
        started.close()


@pytest.fixture
def open_page(browser):
    """Opens a page; it may fetch nothing from elsewhere and complain about nothing."""
    contexts, wrong = [], []

    def go(url: str, *, quiet: bool = True, **options):
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("request", lambda request: request.url.startswith(url) or wrong.append(request.url))
        page.on("pageerror", lambda problem: wrong.append(str(problem)))
        if quiet:
            page.on("console", lambda line: line.type == "error" and wrong.append(line.text))
        page.goto(url)
        return page

    yield go
    for context in contexts:
        context.close()
    assert wrong == []


def tags_of(page) -> list[str]:
    page.wait_for_selector("#results .chip")
    return page.locator("#results .chip .name").all_inner_texts()


@needs_browser
def test_typing_shows_hashtags_and_a_click_adds_one(open_page, address):
    page = open_page(address)
    page.get_by_label("Your post").press_sequentially(TEXT)
    tags = tags_of(page)
    assert tags[0] == "#coffee"
    page.locator("#status", has_text="found").wait_for()
    assert page.locator("#shade .read, #shade .word").count() > 0
    assert page.locator("#shade").inner_text().strip("\u200b\n") == TEXT
    chip = page.locator("#results").get_by_role("button", name="#coffee")
    chip.click()
    assert page.get_by_label("Your post").input_value() == f"{TEXT} #coffee "
    assert chip.get_attribute("aria-pressed") == "true"
    assert "added" in page.locator("#status").inner_text()
    chip.click()
    assert page.get_by_label("Your post").input_value().count("#coffee") == 1


@needs_browser
def test_a_tag_that_stands_in_the_text_is_marked_there(open_page):
    with serving({"told": _Placed()}) as (client, _):
        page = open_page(str(client.base_url))
        page.get_by_label("Your post").fill("😀 ramen & <b>tea</b>")
        page.wait_for_selector("#shade .word")
        assert page.locator("#shade .word").all_inner_texts() == ["ramen"]  # a face is one letter for Python
        assert page.locator("#shade").inner_text().startswith("😀 ramen & <b>tea</b>")
        page.get_by_role("button", name="ramen").hover()
        assert page.locator("#shade .strong").all_inner_texts() == ["ramen"]


class _Placed(Told):
    """Finds every ramen."""

    def finish(self, posts, raws):
        from tagsmith.records import Tag, Tags

        places = [tuple((one.start(), one.end()) for one in re.finditer("ramen", post.text)) for post in posts]
        return [Tags((Tag("ramen", 0.5, "present", own),), id=post.id) for post, own in zip(posts, places, strict=True)]


@needs_browser
def test_near_posts_lend_their_tags(open_page, address):
    page = open_page(address)
    page.get_by_label("Your post").fill(TEXT)
    page.wait_for_selector("#near li")
    assert page.locator("#near li").first.inner_text().startswith(TEXT)
    page.locator("#near .lent button").first.click()
    assert "#Coffee" in page.get_by_label("Your post").input_value()


@needs_browser
def test_switching_tasks(open_page, address):
    page = open_page(address)
    page.get_by_role("tab", name="Topic").click()
    page.get_by_label("Title").fill("About the barista")
    page.get_by_label("Text", exact=True).fill(TEXT)
    page.wait_for_selector("#results tbody tr")
    assert page.locator("#results thead th").all_inner_texts() == ["topic", "with title", "without"]
    assert page.locator("#results tbody th").first.inner_text() == "Coffee"
    assert all("%" in cell or "–" in cell for cell in page.locator("#results tbody td").all_inner_texts())
    page.get_by_role("tab", name="Extract").click()
    page.wait_for_selector("#shade .word")
    assert page.locator("#results thead th").first.inner_text() == "keyphrase"
    page.get_by_role("tab", name="Answer").click()
    page.get_by_text("Give a passage and a question.").wait_for()
    page.get_by_label("Passage").fill("Ada loves a flat white. Ben hates the comet.")
    page.get_by_label("Question").fill("What does Ada love?")
    page.wait_for_selector("#results .chip, #results .empty:has-text('does not say')")
    page.get_by_role("tab", name="Reply").click()
    first = tags_of(page)
    page.get_by_role("button", name="Other replies").click()
    page.wait_for_function("first => document.querySelector('#results .chip .name').innerText !== first", arg=first[0])
    page.get_by_role("tab", name="Hashtags").click()
    assert tags_of(page)[0].startswith("#")


@needs_browser
def test_a_task_without_a_model_says_how_to_load_it(open_page, address):
    page = open_page(address)
    tab = page.get_by_role("tab", name="Keyphrases")
    assert tab.get_attribute("aria-disabled") == "true"
    tab.click(force=True)
    assert page.locator("#missing-command").inner_text().startswith("tagsmith serve --models tags,topic,")
    assert page.get_by_role("tab", name="Hashtags").get_attribute("aria-selected") == "true"
    page.get_by_label("Language").select_option("zh")
    page.get_by_label("Your post").fill(TEXT)
    page.get_by_role("alert").get_by_text("No hashtags model for this language").wait_for()


@needs_browser
def test_dark_and_light(open_page, address):
    ground = "getComputedStyle(document.body).backgroundColor"
    page = open_page(address, color_scheme="dark")
    dark = page.evaluate(ground)
    button = page.get_by_role("button", name="Dark")
    page.wait_for_selector("#tasks button")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    assert page.evaluate(ground) == light  # what was chosen stays
    assert open_page(address, color_scheme="light").evaluate(ground) == light


@needs_browser
def test_when_the_service_goes_away_the_page_says_so(open_page):
    with serving({"told": Told()}) as (client, server):
        page = open_page(str(client.base_url), quiet=False)
        page.get_by_label("Your post").fill("one two")
        assert tags_of(page) == ["#one", "#two"]
        server.should_exit = True
        until_gone(client)
    page.get_by_label("Your post").fill("three")
    page.get_by_role("alert").get_by_text("The service does not answer").wait_for()


@needs_browser
def test_errors_of_the_service_are_shown_in_its_words(open_page):
    from tagsmith.service import Limits

    with serving({"told": Told()}, limits=Limits(characters=20)) as (client, _):
        page = open_page(str(client.base_url), quiet=False)
        page.get_by_label("Your post").fill("far too long for this service")
        page.get_by_role("alert").get_by_text("the most is 20").wait_for()
        page.get_by_label("Your post").fill("short")
        assert tags_of(page) == ["#short"]
        assert page.get_by_role("alert").is_hidden()


@needs_browser
def test_a_token_is_asked_for(open_page):
    with serving({"told": Told()}, token="sesame") as (client, _):
        page = open_page(str(client.base_url), quiet=False)
        page.get_by_label("Token").fill("sesame")
        page.get_by_role("button", name="Use").click()
        page.get_by_label("Your post").fill("open")
        assert tags_of(page) == ["#open"]
        page.get_by_role("button", name="Copy as curl").click()
        page.locator("#status", has_text="curl").wait_for()
        assert "sesame" not in page.evaluate("navigator.clipboard.readText()")


@needs_browser
def test_copies_are_what_was_asked_and_answered(open_page, address):
    page = open_page(address)
    page.get_by_label("Your post").fill("it's a flat white")
    tags_of(page)
    page.get_by_role("button", name="Copy as JSON").click()
    page.locator("#status", has_text="JSON").wait_for()
    answer = json.loads(page.evaluate("navigator.clipboard.readText()"))
    page.get_by_role("button", name="Copy as curl").click()
    page.locator("#status", has_text="curl").wait_for()
    words = shlex.split(page.evaluate("navigator.clipboard.readText()"))
    body = words[words.index("-d") + 1]
    assert json.loads(body)["inputs"] == "it's a flat white"
    again = httpx.post(words[2], content=body, trust_env=False).json()
    assert [tag["text"] for tag in again["tags"]] == [tag["text"] for tag in answer["tags"]]


@needs_browser
def test_the_keyboard_reaches_everything_in_order(open_page, address):
    page = open_page(address)
    page.wait_for_selector("#task-hashtags[aria-selected=true]")
    seen = []
    for _ in range(7):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert seen == ["skip", "language", "theme", "task-hashtags", "text", "sample", "clear"]
    page.locator("#task-hashtags").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "task-topic"
    assert page.locator("#task-topic").get_attribute("aria-selected") == "true"
    page.locator("#task-hashtags").click()
    page.get_by_label("Your post").fill(TEXT)
    tags_of(page)
    page.locator("#results .chip").first.focus()
    page.keyboard.press("Enter")
    assert page.get_by_label("Your post").input_value().endswith("#coffee ")
    assert page.evaluate("document.activeElement.className") == "chip"  # the focus stays


@needs_browser
def test_every_control_has_a_name(open_page, address):
    page = open_page(address)
    page.wait_for_selector("#tasks button")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, textarea, a")].filter((one) =>
            !one.textContent.trim() && !(one.labels && one.labels.length)).map((one) => one.outerHTML)"""
    )
    assert nameless == []
    assert page.locator("[aria-live=polite]").count() == 1
    assert page.locator("html").get_attribute("lang") == "en"


@needs_browser
@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_phone_need_not_scroll_sideways(open_page, address, path):
    page = open_page(address, viewport={"width": 360, "height": 740})
    page.goto(address + path)
    page.wait_for_selector("#tasks button, #routes h2")
    if path == "/":
        page.get_by_label("Your post").fill("a " * 200 + "verylongword" * 30)
        tags_of(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@needs_browser
def test_the_list_of_routes(open_page, address):
    page = open_page(address)
    page.goto(f"{address}/docs")
    page.wait_for_selector("#routes h2")
    heads = page.locator("#routes h2").all_inner_texts()
    assert "POST /tag" in heads
    assert "POST /v1/embeddings" in heads


def test_the_files_of_the_page_are_those_that_are_served():
    assert {path.name for path in STATIC.iterdir()} == {*FILES, "index.html", "docs.html"}
    for path in STATIC.iterdir():
        text = path.read_text(encoding="utf-8")
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), path
        assert "https://" not in text, path
        assert " style=" not in text, path
        assert not re.search(r"<script(?![^>]*src=)|\son[a-z]+=", text), path


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_colours_can_be_told_apart(theme):
    """Contrast as WCAG 2 asks: 4.5 for text, 3 for the edges of controls."""
    css = (STATIC / "style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root(\[data-theme=\"dark\"\])? \{(.*?)\}", css, flags=re.DOTALL)
    colours: dict[str, str] = {}
    for dark, body in blocks:
        if not dark or theme == "dark":
            colours.update(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", body))
    for front in ("ink", "soft", "accent"):
        for back in ("paper", "card", "wash"):
            assert contrast(colours[front], colours[back]) >= 4.5, (front, back)
    assert contrast(colours["bad"], colours["bad-wash"]) >= 4.5
    assert contrast(colours["accent-ink"], colours["accent"]) >= 4.5
    assert contrast(colours["edge"], colours["paper"]) >= 3


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
