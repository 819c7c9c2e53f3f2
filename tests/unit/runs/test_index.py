from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from harness.errors import NoSuchRun
from harness.runs import RunFolder, index

NOON = datetime.datetime(2026, 3, 1, 12, 0, 0)


def run(root: Path, verb: str, result: dict[str, object] | None, page: str = "") -> Path:
    folder = RunFolder.create(root, verb, now=NOON)
    if page:
        folder.write_text(page, "<html>")
    if result is not None:
        folder.finish(result)
    return folder.path


def test_every_run_has_a_row(tmp_path: Path) -> None:
    result = {"verb": "check", "exit_code": 1, "asked": {"agent": "a.py:A"}, "counts": {"pass": 3, "fail": 2}}
    run(tmp_path, "check", result, "report.html")
    run(tmp_path, "up", {"verb": "up", "exit_code": 0})
    run(tmp_path, "hang-dump", None)
    (tmp_path / "tape").mkdir()
    rows = {row.verb: row for row in index.rows(tmp_path)}
    assert (rows["check"].outcome, rows["check"].about) == ("failed", "a.py:A, 2 fail")
    assert (rows["check"].when, rows["check"].page) == ("2026-03-01 12:00:00", "report.html")
    assert (rows["up"].outcome, rows["up"].page) == ("ok", "")
    assert rows["hang-dump"].outcome == "unfinished"
    assert len(rows) == 3


def test_the_page_leads_to_the_runs_and_shows_foreign_text_as_text(tmp_path: Path) -> None:
    run(tmp_path, "check", {"verb": "<b>x", "exit_code": 0, "error": "<script>alert(1)</script>\u202e"}, "report.html")
    page = index.write_page(tmp_path)
    assert page is not None
    text = page.read_text()
    assert 'href="20260301-120000-check/report.html"' in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["20260301-120000-check", "index.html", "latest"]


def test_no_runs_are_no_reason_to_fail(tmp_path: Path) -> None:
    assert index.rows(tmp_path / "nowhere") == []
    assert index.write_page(tmp_path / "nowhere") is None
    page = index.write_page(tmp_path)
    assert page is not None
    assert "There are no runs yet" in page.read_text()


def test_a_run_is_found_by_folder_name_or_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run(tmp_path / "runs", "check", {"verb": "check"})
    monkeypatch.chdir(tmp_path)
    for name in (str(path), path.name, f"runs/{path.name}", "latest", f"elsewhere/{path.name}"):
        assert index.find(tmp_path / "runs", name) == path
    with pytest.raises(NoSuchRun, match="other is no finished run") as error:
        index.find(tmp_path / "runs", "other")
    assert path.name in error.value.consequence


def test_the_run_before_is_the_newest_finished_one_of_the_same_verb(tmp_path: Path) -> None:
    def at(minute: int, verb: str, result: dict[str, object] | None) -> Path:
        folder = RunFolder.create(tmp_path, verb, now=NOON + datetime.timedelta(minutes=minute))
        if result is not None:
            folder.finish(result)
        return folder.path

    first = at(0, "check", {"verb": "check", "exit_code": 0})
    at(1, "up", {"verb": "up", "exit_code": 0})
    at(2, "check", None)
    last = at(3, "check", {"verb": "check", "exit_code": 1})
    assert index.before(tmp_path, last) == first.resolve()
    with pytest.raises(NoSuchRun, match="before it"):
        index.before(tmp_path, first)
    with pytest.raises(NoSuchRun):
        index.before(tmp_path, tmp_path / "elsewhere")
