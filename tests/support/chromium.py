"""The Chromium of this machine, driven by playwright; pages that fetch or complain are found out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

# The same names as in scripts/ensure-chromium.sh.
NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window; the test is skipped where there is none."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium here: scripts/ensure-chromium.sh installs it")
    # Its sandbox needs what a container, or root, doesn't have; the pages are our own.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 or Path("/.dockerenv").exists() else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Opened:
    """A page, and what it did.

    Args:
        complaints: errors and warnings of the console, exceptions, dialogs.
        requests: addresses that it asked for, beside its own.
        refused: those of them that its own policy kept back.
    """

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def open_file(browser: Browser, path: Path, **options: object) -> Opened:
    """Open a page from a file."""
    page = browser.new_page(**options)  # type: ignore[arg-type]
    opened = Opened(page)
    page.on("console", lambda message: opened.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    page.on("request", lambda request: opened.requests.append(request.url))
    page.on("requestfailed", lambda request: opened.refused.append(request.url) if request.failure == "csp" else None)

    def close(dialog: object) -> None:
        opened.complaints.append("a dialog")
        dialog.dismiss()  # type: ignore[attr-defined]

    page.on("dialog", close)
    page.goto(path.as_uri())
    opened.requests.remove(path.as_uri())
    return opened
