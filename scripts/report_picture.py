"""Draws docs/check-report.png: the page of a check that is made up, as Chromium shows it.

usage: .venv/bin/python scripts/report_picture.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

CLONE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CLONE))

from harness.checks import page  # noqa: E402
from harness.runs import Redactor  # noqa: E402
from tests.support import check_report  # noqa: E402
from tests.support.chromium import chromium, open_file  # noqa: E402

PICTURE = CLONE / "docs" / "check-report.png"


def main() -> None:
    """Draw it."""
    with tempfile.TemporaryDirectory() as place, chromium() as browser:
        folder = Path(place)
        report = check_report.write(folder)
        html = page.build(report, folder, Redactor(), made="2026-11-30 10:00 UTC")
        (folder / page.NAME).write_text(html.replace(place, "agents"), encoding="utf-8")
        opened = open_file(browser, folder / page.NAME, viewport={"width": 1180, "height": 800})
        opened.page.screenshot(path=PICTURE, full_page=True)
    sys.stdout.write(f"{PICTURE.relative_to(CLONE)}: {PICTURE.stat().st_size // 1024} kB\n")


main()
