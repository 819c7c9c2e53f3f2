"""How `up` ends: the commands it names are about the stack that it brought up."""

from __future__ import annotations

import pytest

from harness.cli.already import NEXT, ending


@pytest.mark.parametrize(("typed", "there"), [("PORT PROJECT", True), ("PORT", False), ("", False)])
def test_the_next_commands_name_a_project_that_was_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, there: bool
) -> None:
    monkeypatch.setenv("PROJECT", "mine")  # exported, it counts for the next command by itself
    monkeypatch.setenv("DRYDOCK_MAKE_VARS", typed)
    ending((), 1.0, [])
    lines = [line for line in capsys.readouterr().out.splitlines() if "→" in line]
    assert len(lines) == len(NEXT)
    assert all(("PROJECT=mine" in line.partition("#")[0]) is there for line in lines)
