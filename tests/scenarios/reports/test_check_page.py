"""A check's page, in a real browser: whole in itself, silent, usable by keyboard, harmless whatever it shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from harness.checks import page as pages
from harness.runs import Redactor
from tests.scenarios.reports.hostile import HOSTILE
from tests.support import check_report
from tests.support.chromium import Opened, chromium, open_file


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    opened = open_file(browser, write(tmp_path))
    yield opened
    assert opened.complaints == []
    assert opened.requests == []
    opened.page.close()


def write(folder: Path, text: str = "Paris", *hostile: str) -> Path:
    more = [
        check_report.finding(f"run.{number}", "warn", each, title=each, consequence=each, mend=each)
        for number, each in enumerate(hostile)
    ]
    report = check_report.write(folder, *more, text=text)
    path = folder / pages.NAME
    html = pages.build(report, folder, Redactor(), made="today")
    path.write_text(html, encoding="utf-8", errors="replace")
    return path


def visible(page: Page) -> list[str]:
    """Ids of the findings that are to be seen."""
    ids: list[str] = page.eval_on_selector_all(
        "details.finding[id]", "all => all.filter(one => one.checkVisibility()).map(one => one.id)"
    )
    return ids


def test_every_part_is_there(opened: Opened) -> None:
    page = opened.page
    assert page.title().startswith("✗ check my_agent.py:MyAgent")
    assert page.locator("h2").all_inner_texts() == [
        "Stage 2: one run of my_agent.py:MyAgent",
        "Stage 3: 512 runs at once",
        "Calls to the model",
        "Many at once",
        "Failures",
    ]
    assert page.locator(".line.marked").first.inner_text().strip().endswith("return int(reward)")
    assert page.locator("svg.chart").count() == 4
    assert page.locator("svg.flame").count() == 2
    assert page.locator("svg .line.asked").count() == 1
    assert "asyncio.Lock" in page.locator("#load").inner_text()
    assert "KeyError" in page.locator("#failures").inner_text()


def test_filters_and_search_show_what_they_say(opened: Opened) -> None:
    page = opened.page
    assert visible(page) == ["run.calls", "run.reward", "load.scales", "load.clients"]
    page.click("button.status.fail")
    assert visible(page) == ["run.calls", "load.clients"]
    page.click("button.status.fail")
    page.fill("#search", "INT float")
    assert visible(page) == ["run.reward"]
    assert "of" in page.inner_text("#shown")
    page.keyboard.press("Escape")
    assert len(visible(page)) == 4


def test_all_can_be_done_by_keyboard(opened: Opened) -> None:
    page = opened.page
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("jec")  # letters go into the field
    assert page.input_value("#search") == "jec"
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    focused = "document.activeElement.closest('details').id"
    assert page.evaluate(focused) == "run.reward"
    assert page.evaluate("document.activeElement.closest('details').open")
    page.keyboard.press("Enter")
    assert not page.evaluate("document.activeElement.closest('details').open")
    page.keyboard.press("k")
    assert page.evaluate(focused) == "run.calls"
    page.keyboard.press("e")
    assert page.locator("details:not([open])").count() == 0
    page.keyboard.press("c")
    assert page.locator("details[open]").count() == 0


def test_a_flame_graph_opens_a_box_and_comes_back(opened: Opened) -> None:
    page = opened.page
    flame = page.locator("svg.flame").first
    shown = "all => all.filter(box => box.style.display !== 'none').length"
    boxes = flame.locator("g.box")
    all_of_them = boxes.evaluate_all(shown)
    box = flame.locator("g.box", has_text="loads").first
    narrow = float(box.locator("rect").get_attribute("width") or 0)
    box.focus()
    page.keyboard.press("Enter")
    assert float(box.locator("rect").get_attribute("width") or 0) > 2 * narrow
    assert boxes.evaluate_all(shown) < all_of_them
    boxes.first.click()
    assert boxes.evaluate_all(shown) == all_of_them
    assert float(box.locator("rect").get_attribute("width") or 0) == pytest.approx(narrow, rel=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_schemes(browser: Browser, tmp_path: Path, scheme: str) -> None:
    opened = open_file(browser, write(tmp_path), color_scheme=scheme)
    contrast = """selector => {
      const rgb = (name, element) => getComputedStyle(element)[name].match(/[0-9.]+/g).map(Number);
      const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
        .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
      const element = document.querySelector(selector);
      let behind = element;
      while (rgb('backgroundColor', behind)[3] === 0) behind = behind.parentElement;
      const [one, other] = [light(rgb('color', element)), light(rgb('backgroundColor', behind))];
      return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    }"""
    for selector in ("h1", ".facts dt", ".finding .id", ".fail .sign", ".warn .sign", ".pass .sign", "nav a", "th"):
        assert opened.page.evaluate(contrast, selector) >= 4.5, selector
    opened.page.close()


def test_on_paper_everything_is_open_and_nothing_can_be_pressed(opened: Opened) -> None:
    page = opened.page
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert not page.locator("#search").is_visible()
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details:not([open])").count() > 0
    assert page.pdf().startswith(b"%PDF")


def test_it_fits_a_narrow_window(browser: Browser, tmp_path: Path) -> None:
    opened = open_file(browser, write(tmp_path), viewport={"width": 380, "height": 700})
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 380
    opened.page.close()


def test_hostile_text_stays_text(browser: Browser, tmp_path: Path) -> None:
    opened = open_file(browser, write(tmp_path, "\n".join(HOSTILE), *HOSTILE))
    page = opened.page
    assert page.title().startswith("✗ check")
    assert page.locator("iframe, link, img, main svg[onload]").count() == 0
    assert page.locator("script").count() == 1
    text = page.inner_text("main")
    assert HOSTILE[0] in text
    assert "\\u202eright to left" in text
    assert "\x1b" not in text
    assert opened.complaints == []
    assert opened.requests == []
    page.close()


def test_code_that_slips_in_would_not_run(browser: Browser, tmp_path: Path) -> None:
    """Should a text ever be left unescaped, the page's own policy stands behind it."""
    path = write(tmp_path)
    path.write_text(path.read_text().replace("</main>", f"{HOSTILE[0]}{HOSTILE[1]}{HOSTILE[4]}</main>"))
    opened = open_file(browser, path)
    assert opened.page.title().startswith("✗ check")
    assert opened.requests
    assert sorted(opened.refused) == sorted(opened.requests)
    assert any("Content Security Policy" in complaint for complaint in opened.complaints)
    opened.page.close()
