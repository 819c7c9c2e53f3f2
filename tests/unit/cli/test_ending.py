"""How `up` ends: the commands it names are about the stack that it brought up."""

from __future__ import annotations

import pytest

from harness import console
from harness.cli.already import NEXT, ending


@pytest.mark.parametrize(("typed", "there"), [("PORT PROJECT", True), ("PORT", False), ("", False)])
def test_the_next_commands_name_a_project_that_was_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, there: bool
) -> None:
    monkeypatch.setenv("PROJECT", "mine")  # exported, it counts for the next command by itself
    monkeypatch.setenv("DRYDOCK_MAKE_VARS", typed)
    ending((), (), 1.0, [])
    lines = [line for line in capsys.readouterr().out.splitlines() if "→" in line]
    assert len(lines) == len(NEXT)
    assert all(("PROJECT=mine" in line.partition("#")[0]) is there for line in lines)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("make up", "make up PROJECT=mine"),
        ("make up check STAGE=1   # once it runs", "make up check PROJECT=mine STAGE=1   # once it runs"),
        ("make down PROJECT=other", "make down PROJECT=other"),
        ("docker rm -f x", "docker rm -f x"),
    ],
)
def test_every_mend_does(monkeypatch: pytest.MonkeyPatch, command: str, shown: str) -> None:
    monkeypatch.setenv("PROJECT", "mine")
    monkeypatch.setenv("DRYDOCK_MAKE_VARS", "PROJECT")
    assert console.as_typed(command) == shown
