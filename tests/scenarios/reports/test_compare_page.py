"""A comparison's page, in a real browser: whole in itself, silent, readable without a mouse, harmless."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from harness.compare import page as pages
from harness.compare.evidence import Trial, Tried
from harness.compare.job import Outcome
from harness.compare.reasons import decide
from harness.compare.tokens import TokenDifference, TokenReport
from harness.runs import Redactor
from tests.scenarios.reports.hostile import HOSTILE
from tests.support.chromium import Opened, chromium, open_file
from tests.unit.compare.recorded import Recorded, agreeing, changed, evidence


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


def write(folder: Path, *hostile: str, differs: bool = True) -> Path:
    recorded = agreeing()
    if differs:
        recorded.decode = recorded.prefill = changed(recorded.decode, 0.8)
    path = folder / pages.NAME
    outcome = of(recorded, *hostile)
    worst = [(n, n + 1, recorded.decode[n], recorded.reference[n]) for n in outcome.profile.worst]
    html = pages.build(outcome, worst, Redactor(), name=hostile[0] if hostile else "20261130-compare", made="today")
    path.write_text(html, encoding="utf-8", errors="replace")
    return path


def of(recorded: Recorded, *hostile: str) -> Outcome:
    """What a comparison would have come to."""
    said = hostile or ("Paris",)
    tokens = TokenReport(
        rendered=3, retokenised=1, outputs=9,
        differences=[TokenDifference(1, "template", 4, text, text, 9, 8) for text in hostile],
    )  # fmt: skip
    found = evidence(recorded, tokens=tokens, tried=[Tried(Trial("top_p", said[0], {"top_p": 0.9}), 0.6, 0.5)])
    numbers = found.profile.worst
    return Outcome(
        verdict=decide(found), evidence=found, parts=(f"vllm at {said[0]}", "transformers 5, bfloat16"),
        server={"engine": "vllm", "model": said[0]}, reference={"path": said[0]}, figures={}, profile=found.profile,
        samples=32, problems={said[0]: 2}, notes=list(said),
        pieces={number: [f" {said[place % len(said)]}" for place in range(64)] for number in numbers},
        prompts={number: "\n".join(said) for number in numbers},
    )  # fmt: skip


def test_every_part_is_there(opened: Opened) -> None:
    page = opened.page
    assert page.title().startswith("✗ compare")
    assert page.locator("h2").all_inner_texts() == ["Figures", "Pictures", "Tokens", "Worst samples", "What was tried"]
    assert page.locator("svg.chart").count() == 4
    assert page.locator("svg .dot").count() == 2000
    assert "the weights differ" in page.inner_text("#reason-weights")
    assert page.locator("#samples details.finding").count() == 5
    # What a colour says stands in numbers beside it.
    first = page.locator("#samples details.finding").first
    assert first.locator(".t.s4").count() + first.locator(".t.s3").count() > 0
    assert len(first.locator("table tbody tr").all()) == 10


def test_agreement_is_green_and_says_so(browser: Browser, tmp_path: Path) -> None:
    opened = open_file(browser, write(tmp_path, differs=False))
    assert opened.page.title().startswith("✓ compare")
    assert "They agree" in opened.page.inner_text("h1")
    assert opened.complaints == []
    opened.page.close()


def test_all_can_be_done_by_keyboard(opened: Opened) -> None:
    page = opened.page
    page.keyboard.press("e")
    assert page.locator("details:not([open])").count() == 0
    page.keyboard.press("c")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.closest('details').id").startswith("sample-")
    page.keyboard.press("Enter")
    assert page.locator("#samples details.finding[open]").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_coloured_tokens_can_be_read_in_both_schemes(browser: Browser, tmp_path: Path, scheme: str) -> None:
    opened = open_file(browser, write(tmp_path), color_scheme=scheme)
    # A canvas turns any notation of a colour into numbers, and lays what is half transparent over the paper.
    contrast = """selector => {
      const draw = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
      const pixel = (...colours) => {
        for (const colour of colours) { draw.fillStyle = colour; draw.fillRect(0, 0, 1, 1); }
        return [...draw.getImageData(0, 0, 1, 1).data];
      };
      const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
        .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
      const element = document.querySelector(selector);
      const paper = getComputedStyle(document.body).backgroundColor;
      const behind = light(pixel(paper, getComputedStyle(element).backgroundColor));
      const ink = light(pixel(getComputedStyle(element).color));
      return (Math.max(ink, behind) + 0.05) / (Math.min(ink, behind) + 0.05);
    }"""
    for side in ("engine", "trainer"):
        for step in (1, 2, 3, 4):
            assert opened.page.evaluate(contrast, f".steps .t.{side}.s{step}") >= 4.5, (side, step)
    opened.page.close()


def test_it_fits_a_narrow_window(browser: Browser, tmp_path: Path) -> None:
    opened = open_file(browser, write(tmp_path), viewport={"width": 380, "height": 700})
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 380
    opened.page.close()


def test_hostile_text_stays_text(browser: Browser, tmp_path: Path) -> None:
    opened = open_file(browser, write(tmp_path, *HOSTILE))
    page = opened.page
    assert page.title().startswith("✗ compare")
    assert page.locator("iframe, link, img, main svg[onload]").count() == 0
    assert page.locator("script").count() == 1
    page.keyboard.press("e")
    text = page.inner_text("main")
    assert HOSTILE[0] in text
    assert "\x1b" not in text
    assert opened.complaints == []
    assert opened.requests == []
    page.close()
