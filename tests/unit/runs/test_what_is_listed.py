"""What the list of runs says of a hang dump and of a command that still runs, and what reaches a page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import main, runs
from harness.processes.running import RunState
from harness.runs import Redactor, index
from harness.runs.html.page import render


def _kept(root: Path, name: str, **result: object) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "result.json").write_text(json.dumps(result))


def test_a_hang_that_was_found_is_no_failure(tmp_path: Path) -> None:
    says = "hung: a data worker is stuck (data-worker); rank1"
    _kept(tmp_path, "20260101-000000-hang", verb="hang-dump", exit_code=1, state="hung", verdict=says)
    _kept(tmp_path, "20260101-000001-hang", verb="hang-dump", exit_code=0, state="unknown", verdict="unknown: x")
    unknown, hung = index.rows(tmp_path)
    assert (hung.outcome, hung.about) == ("hung", says)
    assert unknown.outcome == "unknown"


def test_a_command_that_still_runs_is_listed_with_the_way_to_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "20260101-000000-run"
    folder.mkdir()
    (folder / "running.json").write_text("{}")

    class Record:
        command, pid = "python agents_wait.py", 437

    monkeypatch.setattr(runs, "read_run", lambda _: RunState("running", Record(), []))  # type: ignore[arg-type]
    monkeypatch.setenv("RUNS", str(tmp_path))
    assert main.run(["runs"]) == 0
    said = capsys.readouterr().out
    assert "running" in said
    assert "python agents_wait.py" in said
    assert "make run CMD='kill 437'" in said


def test_a_list_that_nobody_reads_to_its_end_is_no_failure(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / f"20260101-{number:06}-check").mkdir()
    command = [sys.executable, "-m", "harness", "runs"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "RUNS": str(tmp_path)}
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(100)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.parametrize("line", ['api_key=extra_kwargs.get("api_key"),', 'api_key=os.environ["OPENAI_API_KEY"],'])
def test_a_call_is_no_secret(line: str) -> None:
    assert Redactor().text(line) == line


def test_secrets_are_taken_out_before_a_text_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text("{{ text }}")
    secret = render("x.html", tmp_path, text='{"api_key": "abcdefgh12345"}')
    assert "abcdefgh12345" not in secret
    call = 'api_key=extra_kwargs.get("api_key"),'
    assert Redactor().text(render("x.html", tmp_path, text=call)) == call.replace('"', "&#34;")
