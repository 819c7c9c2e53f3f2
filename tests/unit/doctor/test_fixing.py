"""What FIX=1 offers and runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.doctor.findings import bad, mended, ok, warn
from harness.doctor.fixing import Fix, plan, run

UP = ("harness", "up")


def test_each_command_is_offered_once_and_up_comes_last() -> None:
    findings = [
        mended(bad("the server hangs", "x", "make up"), *UP),
        mended(warn("no sampler", "x", "make up"), *UP),
        mended(warn("a helper is left", "x", "docker rm"), "docker", "rm", "-f", "abc"),
        mended(bad("the daemon isn't running", "x", "make docker"), "scripts/ensure-docker.sh"),
        bad("the disk is full", "x", "make clean"),
        ok("fine"),
    ]
    offered = plan(findings)
    assert [fix.shown() for fix in offered] == ["make docker", "docker rm -f abc", "make up"]
    assert offered[-1].mends == ("the server hangs", "no sampler")


def test_nothing_but_what_is_listed_is_ever_run() -> None:
    assert plan([mended(bad("x", "y", "z"), "sh", "-c", "rm -rf /")]) == []


def test_what_is_only_noted_is_not_mended() -> None:
    assert plan([mended(ok("x"), *UP)]) == []


def test_a_command_is_run_without_a_shell(tmp_path: Path) -> None:
    target = tmp_path / "a $(touch pwned) ; key"
    target.write_text("")
    target.chmod(0o644)
    fixed = run(Fix(("chmod", "600", "--", str(target)), ("x",)), tmp_path, {})
    assert (fixed.state, fixed.code) == ("done", 0)
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_one_that_fails_is_told() -> None:
    fixed = run(Fix(("rm", "--", "/nonexistent/x"), ("x",)), Path("/"), {})
    assert fixed.state == "failed"
    assert fixed.as_dict()["exit_code"] == fixed.code == 1
    assert run(Fix(("scripts/ensure-docker.sh",), ("x",)), Path("/nonexistent"), {}).state == "failed"


def test_a_verb_gets_what_the_last_up_was_given_and_this_shell_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "harness"
    program.write_text(f'#!/bin/sh\necho "$MODEL $PORT $DRYDOCK_YES ${{JSON:-none}} $*" > {tmp_path}/said\n')
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PORT", "9999")
    monkeypatch.setenv("JSON", "1")
    assert run(Fix(UP, ("x",)), tmp_path, {"MODEL": "qwen3-0.6b", "PORT": "8080"}).state == "done"
    assert (tmp_path / "said").read_text() == "qwen3-0.6b 9999 1 none up\n"
    assert os.environ["JSON"] == "1"
