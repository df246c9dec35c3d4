"""The HTML report: whole, self-contained, safe, and in the browser what it says it is."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from report_builders import BRANCH, COUNT, fail, node, rack, unit, unknown

from rackproof.verdict.evaluate import Result, combine
from rackproof.verdict.report import html
from rackproof.verdict.report.html.page import LETTER

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = [
    "</script><script>window.pwned=1</script>", "<img src=x onerror=window.pwned=1>", "<!--", "]]>", "\x1b[31mred\x07",
    '" onclick="window.pwned=1', "{{ 7 * 7 }}", "javascript:window.pwned=1", "\u202egnp.exe", "a" * 300_000, "\x00\ufffe",
]  # fmt: skip


def nothing(name: str) -> None:
    return None


class Page(HTMLParser):
    """Tags with their attributes, and the JSON of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def hostile() -> Result:
    nodes = [
        node(f"n{index:02d}{text[:60]}", fail(COUNT, text, text), unknown(BRANCH, text), unit=text[:80])
        for index, text in enumerate(HOSTILE)
    ]
    return combine(nodes, [])


def test_a_rack_is_all_there() -> None:
    text = html.render(rack(), nothing)
    page = Page(text)
    trays = [found for found in page.all("button") if (found.get("class") or "").startswith("tray")]
    alone = ["tray03", "tray07", "tray11", "tray12", "tray13"]  # in no unit: they stand behind the others
    named = [f"tray{number:02d}" for number in range(1, 19)]
    assert [tray["data-node"] for tray in trays] == [*(name for name in named if name not in alone), *alone]
    rows = [found["data-node"] for found in page.all("tr") if "data-node" in found]
    assert rows == [f"tray{number:02d}" for number in range(1, 19)]
    kinds = [found["data-kind"] for found in page.all("details") if "data-kind" in found]
    assert kinds == sorted(kinds, key=["fail", "unknown", "warn", "note"].index) and "fail" in kinds
    assert "REJECT" in page.text and "575.57.08" in page.text and "Mend gpu_driver.branch." in page.text


def test_every_verdict_has_a_letter_of_its_own() -> None:
    assert len(set(LETTER.values())) == len(LETTER) == 4


def test_it_asks_nobody_for_anything() -> None:
    text = html.render(rack(), nothing)
    page = Page(text)
    assert not [tag for tag, _ in page.tags if tag in ("link", "img", "iframe", "object", "embed", "base")]
    assert not [found for _, found in page.tags if {"src", "srcset", "style"} & set(found)]
    assert all((found.get("href") or "#").startswith("#") for found in page.all("a"))
    assert "default-src 'none'" in text and "url(" not in text and "@import" not in text


def test_the_data_is_the_result() -> None:
    text = html.render(rack(), nothing)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    about, letters, said, _ = data["nodes"]["tray03"]
    place = [need[0] for need in data["needs"]].index("gpu_driver.branch")
    assert about[0] == "reject" and letters[place] == "f" and data["texts"][said[place]] == "575.57.08"


def test_hostile_text_stays_text() -> None:
    page = Page(html.render(hostile(), nothing))
    assert len(page.all("script")) == 2 and not page.all("img")
    assert not [found for _, found in page.tags if any(name.startswith("on") for name in found)]
    assert "\x1b" not in page.text and "\u202e" not in page.text and "49" not in re.findall(r"n06.{0,20}", page.text)[0]


def test_a_long_text_is_cut_and_says_so() -> None:
    assert "more characters cut" in html.render(hostile(), nothing)


# --- in the browser ---

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian package chromium)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """A function that opens a result; the page must not have raised an error nor asked the network for anything."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    errors: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.on("request", lambda request: asked.append(request.url))

    def show(result: Result) -> Any:
        file = tmp_path / "report.html"
        file.write_text(html.render(result, nothing), encoding="utf-8")
        page.goto(file.as_uri())
        return page

    yield show
    assert errors == []
    assert [url for url in asked if not url.startswith("file:")] == []
    page.close()


@needs_browser
def test_filters(opened: Any) -> None:
    page = opened(rack())
    count, whole = page.locator(".finding:visible").count(), page.locator(".finding").count()
    assert page.locator("#f-count").inner_text() == f"{count} of {whole} findings, 18 of 18 nodes"
    page.fill("#f-node", "tray07")
    assert page.locator("#matrix tbody tr:visible").count() == 1
    assert page.locator(".finding:visible code").first.inner_text() == "gpu_driver.branch"
    page.fill("#f-node", "")
    page.select_option("#f-layer", "host")
    assert {found.get_attribute("data-layer") for found in page.locator(".finding:visible").all()} == {"host"}
    page.click("#filter button[type=reset]")
    page.wait_for_function("document.getElementById('f-layer').value === ''")
    page.uncheck("#filter input[value=fail]")
    assert page.locator(".finding.k-fail:visible").count() == 0 and page.locator(".finding:visible").count() > 0


@needs_browser
def test_by_keyboard_alone(opened: Any) -> None:
    page = opened(rack())
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "f-node"
    page.locator("button.tray[data-node=tray03]").focus()
    page.keyboard.press("Enter")
    assert page.locator("#sheet[open] h2").inner_text() == "tray03"
    assert "575.57.08" in page.locator("#s-rows").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#sheet[open]").count() == 0


@needs_browser
def test_a_sheet_shows_what_passed_only_when_asked(opened: Any) -> None:
    page = opened(rack())
    page.click("#matrix button[data-node=tray01]")
    assert "everything that was asked passes" in page.locator("#s-rows").inner_text()
    page.check("#s-all")
    assert page.locator("#s-rows tr").count() > 5


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_states_can_be_told_without_colour_and_text_can_be_read(opened: Any, scheme: str) -> None:
    page = opened(rack())
    page.emulate_media(color_scheme=scheme)
    ratios = page.evaluate(CONTRAST)
    assert ratios and min(ratios.values()) >= 4.5, ratios


CONTRAST = """() => {
  const light = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(c) && c !== "transparent") return c; } return "rgb(255, 255, 255)"; };
  const found = {};
  for (const e of document.querySelectorAll("h1, .identity, .tray b, .badge, .observed, .expected, .reason, td, th, dt, dd, small, .legend")) {
    if (!e.checkVisibility()) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    found[e.tagName + "." + e.className] = (a + 0.05) / (b + 0.05);
  }
  return found; }"""


@needs_browser
def test_paper_shows_what_is_folded(opened: Any) -> None:
    page = opened(rack())
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("details.finding:not([open])").count() == 0
    assert not page.locator("#filter").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")


@needs_browser
def test_hostile_text_in_the_browser(opened: Any) -> None:
    page = opened(hostile())
    for button in page.locator("#matrix button[data-node]").all():
        button.click()
        page.check("#s-all")
        page.keyboard.press("Escape")
    assert page.evaluate("window.pwned") is None
    assert page.locator("script").count() == 2 and page.locator("img").count() == 0


@needs_browser
def test_units_are_shown(opened: Any) -> None:
    result = combine([node("a", unit="u01"), node("b", unit="u01")], [unit("u01", ("a", "b"))])
    assert "u01" in opened(result).locator(".rack h3").first.inner_text()
