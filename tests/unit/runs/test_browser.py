"""Which program opens a page, and where none would be seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import places
from harness.cli.main import run
from harness.runs import browser


def there(*programs: str) -> dict[str, str]:
    return {name: f"/usr/bin/{name}" for name in programs}


@pytest.mark.parametrize(
    ("environment", "programs", "taken"),
    [
        ({}, ["xdg-open"], None),
        ({"DISPLAY": ":0"}, ["xdg-open"], "/usr/bin/xdg-open"),
        ({"WAYLAND_DISPLAY": "wayland-0"}, ["xdg-open"], "/usr/bin/xdg-open"),
        ({"DISPLAY": ":0"}, [], None),
        ({"BROWSER": "gone:firefox", "DISPLAY": ":0"}, ["firefox", "xdg-open"], "/usr/bin/firefox"),
        ({"BROWSER": "gone"}, ["xdg-open"], None),
    ],
)
def test_what_opens_a_page(environment: dict[str, str], programs: list[str], taken: str | None) -> None:
    assert browser.opener(environment, there(*programs).get) == taken


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RUNS", str(tmp_path))
    for stamp, page in (("20261130-100000", True), ("20261130-110000", True), ("20261130-120000", False)):
        folder = tmp_path / f"{stamp}-check"
        folder.mkdir()
        places.write_whole(folder / "result.json", json.dumps({"outcome": "ok", "verb": "check"}))
        if page:
            (folder / "report.html").write_text("a page")
    return tmp_path


def opened(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["open", *arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["opened"] is False
    return str(told["page"])


def test_the_newest_that_has_a_page_is_opened(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert opened(capsys) == str(runs / "20261130-110000-check" / "report.html")
    assert opened(capsys, "20261130-100000-check") == str(runs / "20261130-100000-check" / "report.html")
    assert opened(capsys, "all") == str(runs / "index.html")


def test_where_there_is_none_it_is_said(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["open", "20261130-120000-check"]) == 1
    assert "has no page" in capsys.readouterr().err
    for page in runs.rglob("report.html"):
        page.unlink()
    assert run(["open"]) == 1
    assert "no run in" in capsys.readouterr().err
