"""The pages beside those of a check, a hang and a comparison: two checks side by side, and the list of runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from harness.checks import against, show_against
from harness.runs import index
from tests.scenarios.reports.hostile import HOSTILE
from tests.support.chromium import chromium, open_file
from tests.unit.checks.test_against import finding, kept


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def two_checks(folder: Path, *hostile: str) -> Path:
    """The page of two checks that differ in every way a page tells of."""
    said = hostile or ("broken",)
    before = kept("one", finding("a", "pass", "was fine"), finding("b", "fail"), calls=2, packages={"openai": "2.0"})
    after = kept(
        "two", finding("a", "fail", said[0]), finding("b", "pass"),
        *[finding(f"c{number}", "warn", text) for number, text in enumerate(said)],
        calls=9, packages={"openai": said[-1]},
    )  # fmt: skip
    path = folder / "against.html"
    page = show_against.page(against.compare(before, after))
    path.write_text(page, encoding="utf-8", errors="replace")
    return path


def list_of_runs(folder: Path, *hostile: str) -> Path:
    """The list, of a run or more."""
    for number, text in enumerate(hostile or ("my agent",)):
        run = folder / f"20261130-10000{number}-check"
        run.mkdir()
        (run / "result.json").write_text(json.dumps({"outcome": "failed", "verb": "check", "agent": text}))
        (run / "report.html").write_text("<title>a page</title>")
    page = index.write_page(folder)
    assert page is not None
    return page


PAGES = {"two checks": two_checks, "runs": list_of_runs}
each_page = pytest.mark.parametrize("kind", PAGES)


@each_page
def test_it_is_whole_in_itself_and_fits_a_narrow_window(browser: Browser, tmp_path: Path, kind: str) -> None:
    opened = open_file(browser, PAGES[kind](tmp_path), viewport={"width": 390, "height": 800})
    assert (opened.complaints, opened.requests) == ([], [])
    assert opened.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    opened.page.close()


@each_page
def test_hostile_text_stays_text(browser: Browser, tmp_path: Path, kind: str) -> None:
    opened = open_file(browser, PAGES[kind](tmp_path, *HOSTILE))
    assert (opened.complaints, opened.requests) == ([], [])
    assert opened.page.locator("body img, body iframe, body script[src], body svg[onload]").count() == 0
    opened.page.close()


@each_page
def test_it_can_be_used_by_keyboard(browser: Browser, tmp_path: Path, kind: str) -> None:
    page = open_file(browser, PAGES[kind](tmp_path)).page
    reachable = page.locator("a[href], button, input, select, summary").count()
    for _ in range(reachable):
        page.keyboard.press("Tab")
        # What has the focus can be seen, and shows that it has it.
        assert page.evaluate("document.activeElement !== document.body && document.activeElement.checkVisibility()")
        shown = "(style => style.outlineStyle !== 'none' || style.boxShadow !== 'none')"
        assert page.evaluate(f"{shown}(getComputedStyle(document.activeElement))")
    page.close()
