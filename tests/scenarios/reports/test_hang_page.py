"""A verdict's page, in a real browser: silent, usable by keyboard, harmless whatever a frame is called, light."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from harness.hang import page as pages
from harness.hang.decide import diagnose
from harness.hang.model import Dump, Frame, Process, Sample, Stack, Task, Thread
from harness.runs import Redactor
from tests.scenarios.reports.hostile import HOSTILE
from tests.support.chromium import Opened, chromium, open_file

C10D = "torch/distributed/distributed_c10d.py"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def dump_of(ranks: int, late: int = 1, names: tuple[str, ...] = ()) -> Dump:
    """Ranks that wait for one that loads; the names are of functions on the late one's stack."""
    joined = Stack((Frame("all_reduce", C10D, 2920), Frame("step", "train.py", 40), Frame("<module>", "train.py", 90)))
    own = tuple(Frame(name, name, 1) for name in names)
    away = Stack((*own, Frame("load", "data.py", 7), Frame("step", "train.py", 38), Frame("<module>", "train.py", 90)))
    threads = ((Thread("MainThread", joined),), (Thread("MainThread", away), *(Thread(name, joined) for name in names)))
    processes = [
        Process(
            id=f"rank{rank}", role="rank", rank=rank, world_size=ranks, pid=1000 + rank,
            samples=[Sample(threads[rank == late], at=at, cpu_seconds=1.0) for at in (0.0, 2.0)],
            error=names[0] if names and rank == late else "",
        )
        for rank in range(ranks)
    ]  # fmt: skip
    tasks = {"rank0": [Task(name, (Frame(name, name, 1),), name) for name in names]} if names else {}
    return Dump(processes=processes, world_size=ranks, gap_seconds=2.0, tasks=tasks, notes=list(names))


def write(folder: Path, dump: Dump) -> Path:
    path = folder / pages.NAME
    html = pages.build(diagnose(dump), dump, Redactor(), made="today", environment={"torch": "2.13"})
    path.write_text(html, encoding="utf-8", errors="replace")
    return path


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    opened = open_file(browser, write(tmp_path, dump_of(16, late=5)))
    yield opened
    assert opened.complaints == []
    assert opened.requests == []
    opened.page.close()


def test_every_part_is_there(opened: Opened) -> None:
    page = opened.page
    assert page.title().startswith("✗ Hung: ")
    assert page.locator("h2").all_inner_texts() == [
        *("Verdict", "Who is where", "Where they part", "Merged stacks", "Groups of equal stacks", "Two samples"),
        *("Processes", "Environment"),
    ]
    assert page.locator("svg.ranks path.named").count() == 1
    marked = page.locator(".pair .line.marked").all_inner_texts()
    assert [text.strip() for text in marked] == ["step (train.py:38)", "step (train.py:40)"]
    assert page.locator("svg.flame g.box").count() >= 5


def test_the_grid_is_used_by_keyboard_and_pointer(opened: Opened) -> None:
    page = opened.page
    page.focus("svg.ranks")
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    assert page.inner_text("#cell").startswith("rank5: ")
    page.keyboard.press("Enter")
    assert "rank 5" in page.evaluate("document.activeElement.textContent")
    page.hover("svg.ranks", position={"x": 3, "y": 3})
    assert page.inner_text("#cell").startswith("rank0: ")


def test_a_rank_is_found_by_its_number(opened: Opened) -> None:
    page = opened.page
    page.keyboard.press("/")
    page.keyboard.type("rank5")
    assert page.inner_text("#cell").startswith("rank5: ")
    shown = page.eval_on_selector_all("details.finding[id]", "all => all.filter(one => one.checkVisibility()).length")
    assert shown == 1
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.closest('details').id") == "group0"


def test_hostile_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    opened = open_file(browser, write(tmp_path, dump_of(4, names=tuple(HOSTILE))))
    page = opened.page
    assert page.title().startswith("✗ Hung: ")
    assert page.locator("iframe, link, img, main svg[onload]").count() == 0
    assert page.locator("script").count() == 1
    assert HOSTILE[0] in page.inner_text("main")
    assert "\x1b" not in page.inner_text("main")
    page.focus("svg.ranks")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "<script>" in page.inner_text("#cell")
    assert opened.complaints == []
    assert opened.requests == []
    page.close()


def test_ten_thousand_ranks(browser: Browser, tmp_path: Path) -> None:
    """The one that is late is seen, found and reached; the page stays small enough to be sent."""
    path = write(tmp_path, dump_of(10_000, late=7777))
    assert path.stat().st_size < 2_000_000
    opened = open_file(browser, path)
    page = opened.page
    assert page.evaluate("document.querySelectorAll('*').length") < 2000
    assert page.locator("svg.ranks path.named").count() == 1
    narrow = page.locator("svg.flame g.box", has_text="load (data.py:7)").locator("rect").first
    assert float(narrow.get_attribute("width") or 0) > 10
    page.fill("#search", "7777")
    assert page.inner_text("#cell").startswith("rank7777: load")
    assert opened.complaints == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_narrow_window_and_prints(browser: Browser, tmp_path: Path, scheme: str) -> None:
    opened = open_file(
        browser, write(tmp_path, dump_of(64)), viewport={"width": 380, "height": 700}, color_scheme=scheme
    )
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 380
    opened.page.emulate_media(media="print")
    opened.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert opened.page.locator("details:not([open])").count() == 0
    assert opened.page.pdf().startswith(b"%PDF")
    opened.page.close()
