"""Every page is for everybody: told by Chromium itself, in the light and in the dark, for each kind of page."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, Page

from tests.scenarios.reports import test_check_page, test_compare_page, test_hang_page, test_other_pages
from tests.support.chromium import chromium, open_file
from tests.support.npm import installed

# What people act on or look at; a screen reader has to call it by a name.
NAMED = {"button", "link", "checkbox", "combobox", "searchbox", "textbox", "image", "img", "DisclosureTriangle"}
# Contrast as WCAG 2 defines it: 4.5, and 3 for large text. A background that is seen through counts as what is below.
FAINT = """() => {
  const channels = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = one => {
    for (; one; one = one.parentElement) {
      const colour = channels(getComputedStyle(one).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const one of document.querySelectorAll("body *:not(svg, svg *)")) {
    const text = [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!text || !one.checkVisibility()) continue;
    const style = getComputedStyle(one), size = parseFloat(style.fontSize);
    const pair = [light(channels(style.color)), light(behind(one))].sort((a, b) => b - a);
    const large = size >= 24 || size >= 18.66 && Number(style.fontWeight) >= 700;
    if ((pair[0] + 0.05) / (pair[1] + 0.05) < (large ? 3 : 4.5)) found.push(one.outerHTML.slice(0, 120));
  }
  return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


PAGES: dict[str, Callable[[Path], Path]] = {
    "check": test_check_page.write,
    "hang": lambda folder: test_hang_page.write(folder, test_hang_page.dump_of(16, late=5)),
    "compare": test_compare_page.write,
    "two checks": test_other_pages.two_checks,
    "runs": test_other_pages.list_of_runs,
}


def faint(page: Page) -> list[str]:
    """Text that hardly stands out from what is behind it, by WCAG's AA; pictures are left out."""
    found: list[str] = page.evaluate(FAINT)
    return found


def nodes(cdp: CDPSession) -> list[dict[str, Any]]:
    """The tree that a screen reader is told of."""
    tree: list[dict[str, Any]] = cdp.send("Accessibility.getFullAXTree")["nodes"]
    return [node for node in tree if not node["ignored"]]


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, the rules that most tools for accessibility share."""
    modules = installed(Path(__file__).parent / "axe", tmp_path_factory.mktemp("axe"))
    return (modules / "axe-core" / "axe.min.js").read_text()


def objections(page: Page, axe: str) -> list[str]:
    """What axe has against a page: each rule with the first element that it is about."""
    # By the debugger's door, for a page's own policy lets no foreign script in.
    page.evaluate(f"() => {{ {axe} }}")
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(result => result.violations)")
    return [f"{rule['id']}: {rule['nodes'][0]['html'][:160]}" for rule in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", PAGES)
def test_axe_has_nothing_against_it(browser: Browser, tmp_path: Path, axe: str, kind: str, scheme: str) -> None:
    page = open_file(browser, PAGES[kind](tmp_path), color_scheme=scheme).page
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert objections(page, axe) == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", PAGES)
def test_it_can_be_read_heard_and_reached(browser: Browser, tmp_path: Path, kind: str, scheme: str) -> None:
    opened = open_file(browser, PAGES[kind](tmp_path), color_scheme=scheme)
    page = opened.page
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    cdp = page.context.new_cdp_session(page)
    assert faint(page) == []
    told = nodes(cdp)
    unnamed = [
        node["role"]["value"]
        for node in told
        if node["role"]["value"] in NAMED and not node.get("name", {}).get("value", "").strip()
    ]
    assert unnamed == []
    # What has focus is told of, and nothing is hidden in a picture that is one for a screen reader.
    assert page.eval_on_selector_all("[role=img] [tabindex], [role=img] a, [role=img] button", "all => all.length") == 0
    assert page.get_attribute("html", "lang") == "en"
    assert page.locator("main").count() == 1
    assert page.locator("th:empty").count() == 0
    levels = page.eval_on_selector_all("h1, h2, h3, h4", "all => all.map(one => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), levels
    page.close()


def test_a_page_that_is_not_is_found_out(browser: Browser, tmp_path: Path, axe: str) -> None:
    path = tmp_path / "bad.html"
    path.write_text('<p style="color:#bbb;background:#fff">faint</p><button></button>')
    page = open_file(browser, path).page
    cdp = page.context.new_cdp_session(page)
    assert len(faint(page)) == 1
    assert {"button-name", "html-has-lang", "color-contrast"} <= {
        one.partition(":")[0] for one in objections(page, axe)
    }
    assert [node for node in nodes(cdp) if node["role"]["value"] == "button" and not node["name"]["value"]]
    page.close()
