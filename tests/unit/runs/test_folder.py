from __future__ import annotations

import datetime
import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DockerMissing, NoSpace, RunsNotWritable
from harness.runs import Redactor, RunFolder, listed

NOW = datetime.datetime(2026, 11, 30, 6, 30, 15)
SECRET = "sk-abcdefghijklmnop1234"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_a_folder_is_named_by_time_and_verb(root: Path) -> None:
    assert RunFolder.create(root, "check", now=NOW).path == root / "20261130-063015-check"


def test_two_within_a_second_get_different_folders(root: Path) -> None:
    paths = [RunFolder.create(root, "check", now=NOW).path.name for _ in range(3)]
    assert paths == ["20261130-063015-check", "20261130-063015-check-2", "20261130-063015-check-3"]


def test_secrets_are_taken_out_of_every_kind_of_file(root: Path) -> None:
    folder = RunFolder.create(root, "check", Redactor(["my-own-secret"]))
    folder.write_json("a.json", {"x": [f"key {SECRET}", "my-own-secret"]})
    folder.write_text("sub/b.txt", f"Bearer {SECRET} my-own-secret")
    folder.write_lines("c.jsonl", [{"x": SECRET}, {"y": "my-own-secret"}])
    folder.finish({"exit_code": 0, "note": SECRET}, fingerprint=lambda: {"z": "my-own-secret"})
    written = "".join(path.read_text() for path in folder.path.rglob("*") if path.is_file())
    assert SECRET not in written
    assert "my-own-secret" not in written
    assert written.count("[redacted]") == 8


def test_latest_leads_to_the_newest_finished_run_only(root: Path) -> None:
    first = RunFolder.create(root, "check", now=NOW)
    first.finish({"exit_code": 0})
    second = RunFolder.create(root, "run", now=NOW)
    assert (root / "latest").resolve() == first.path
    second.finish({"exit_code": 1})
    assert (root / "latest").resolve() == second.path
    assert os.readlink(root / "latest") == second.path.name


def test_a_folder_without_result_is_listed_as_unfinished(root: Path) -> None:
    RunFolder.create(root, "check", now=NOW).finish({"verb": "check", "exit_code": 1})
    RunFolder.create(root, "restart-ray", now=NOW.replace(hour=7)).finish({"exit_code": 0})
    RunFolder.create(root, "run", now=NOW.replace(hour=8))
    broken = RunFolder.create(root, "run", now=NOW.replace(hour=9))
    (broken.path / "result.json").write_text('{"exit_')
    assert [(run.verb, run.outcome) for run in listed(root)] == [
        ("run", "unfinished"),
        ("run", "unfinished"),
        ("restart-ray", "ok"),
        ("check", "failed"),
    ]


def test_no_runs_are_an_empty_list(root: Path) -> None:
    assert listed(root) == []


def test_a_block_that_ends_well_is_finished(root: Path) -> None:
    with RunFolder.create(root, "heal") as folder:
        folder.write_text("x.log", "x")
    assert json.loads((folder.path / "result.json").read_text()) == {"verb": "heal", "exit_code": 0}


def test_a_block_that_raises_is_finished_as_failed(root: Path) -> None:
    def fail() -> None:
        with RunFolder.create(root, "heal"):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    (run,) = listed(root)
    assert run.outcome == "failed"
    assert run.result["error"] == "ValueError: no"


def test_a_result_that_was_written_is_left_alone(root: Path) -> None:
    with RunFolder.create(root, "check") as folder:
        folder.finish({"exit_code": 1})
    assert json.loads((folder.path / "result.json").read_text()) == {"exit_code": 1}


def gather_nothing() -> Mapping[str, Any]:
    raise DockerMissing("no Docker")


def test_a_fingerprint_that_fails_is_no_reason_to_lose_a_report(root: Path) -> None:
    folder = RunFolder.create(root, "check")
    folder.finish({"exit_code": 0}, fingerprint=gather_nothing)
    assert json.loads((folder.path / "environment.json").read_text()) == {"not gathered": "no Docker"}


def failing_with(code: int, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    def fail(*_args: Any, **_kwargs: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(owner, name, fail)


def test_a_full_disk_is_told_and_leaves_nothing_half_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder.create(root, "check")
    folder.write_json("a.json", {"old": 1})
    failing_with(errno.ENOSPC, monkeypatch, os, "fsync")
    with pytest.raises(NoSpace) as caught:
        folder.write_json("a.json", {"new": 2})
    assert caught.value.exit_code == 3
    assert [path.name for path in folder.path.iterdir()] == ["a.json"]
    assert json.loads((folder.path / "a.json").read_text()) == {"old": 1}


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_folder_that_may_not_be_written_is_told(root: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    failing_with(code, monkeypatch, Path, "mkdir")
    with pytest.raises(RunsNotWritable) as caught:
        RunFolder.create(root, "check")
    assert os.strerror(code) in caught.value.what
    assert caught.value.exit_code == 3


def test_a_file_where_the_folder_should_be_is_told(root: Path) -> None:
    root.write_text("")
    with pytest.raises(RunsNotWritable):
        RunFolder.create(root, "check")


def test_files_are_readable_as_the_umask_allows(root: Path) -> None:
    before = os.umask(0o027)
    try:
        path = RunFolder.create(root, "check").write_text("a.txt", "x")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_text_that_is_no_unicode_is_written_all_the_same(root: Path) -> None:
    text = b"\xff\xfe path".decode("utf-8", "surrogateescape")
    assert RunFolder.create(root, "check").write_text("a.txt", text).read_bytes() == b"\xff\xfe path"


def test_many_files_are_written_whole_and_without_secrets(root: Path) -> None:
    folder = RunFolder.create(root, "hang", Redactor(["a-known-secret"]))
    before = os.umask(0o027)
    try:
        folder.write_all({"a.json": "x a-known-secret", "logs/b.log": "text", "trace_0": b"\x80\xff"})
    finally:
        os.umask(before)
    assert (folder.path / "a.json").read_text() == "x [redacted]"
    assert (folder.path / "trace_0").read_bytes() == b"\x80\xff"
    assert sorted(path.name for path in folder.path.iterdir()) == ["a.json", "logs", "trace_0"]
    assert (folder.path / "logs/b.log").stat().st_mode & 0o777 == 0o640


def test_one_of_many_that_cannot_be_written_is_an_error(root: Path) -> None:
    folder = RunFolder.create(root, "hang")
    (folder.path / "logs").write_text("a file where the folder should be")
    with pytest.raises(RunsNotWritable):
        folder.write_all({"a.json": "x", "logs/b.log": "text"})
