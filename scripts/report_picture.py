"""Draws the pictures of pages in docs/, as Chromium shows them.

usage: .venv/bin/python scripts/report_picture.py [check | hang | compare PAGE]

check    docs/check-report.png, of a check that is made up (tests/support/check_report.py)
hang     docs/hang-report.png, of a clean-up that hung (tests/hang_cases/live/cleanup)
compare  docs/compare-report.png, of the page of a real comparison: PAGE is its report.html
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

CLONE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CLONE))

from harness.checks import page as check_page  # noqa: E402
from harness.hang import page as hang_page  # noqa: E402
from harness.hang.decide import diagnose  # noqa: E402
from harness.hang.readers import read  # noqa: E402
from harness.runs import Redactor  # noqa: E402
from tests.support import check_report  # noqa: E402
from tests.support.chromium import chromium, open_file  # noqa: E402

MADE = "2026-11-30 10:00 UTC"


def check(folder: Path) -> Path:
    """The page of a check that is made up."""
    report = check_report.write(folder)
    html = check_page.build(report, folder, Redactor(), made=MADE)
    return written(folder, html.replace(str(folder), "agents"))


def hang(folder: Path) -> Path:
    """The page of a hang that was recorded."""
    dump = read(str(CLONE / "tests" / "hang_cases" / "live" / "cleanup"))
    return written(folder, hang_page.build(diagnose(dump), dump, Redactor(), made=MADE))


def written(folder: Path, html: str) -> Path:
    path = folder / "report.html"
    path.write_text(html, encoding="utf-8")
    return path


def main() -> int:
    """Draw one of them; returns the exit code."""
    kind, page = [*sys.argv[1:], "", ""][:2]
    kind = kind or "check"
    if kind not in ("check", "hang", "compare") or (kind == "compare") != bool(page):
        sys.stderr.write(__doc__ or "")
        return 2
    picture = CLONE / "docs" / f"{kind}-report.png"
    with tempfile.TemporaryDirectory() as place, chromium() as browser:
        path = Path(page).resolve() if page else {"check": check, "hang": hang}[kind](Path(place))
        opened = open_file(browser, path, viewport={"width": 1180, "height": 800})
        opened.page.screenshot(path=picture, full_page=True)
    sys.stdout.write(f"{picture.relative_to(CLONE)}: {picture.stat().st_size // 1024} kB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
