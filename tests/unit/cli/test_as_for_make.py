"""``harness VERB NAME=value`` is what people type who have typed ``make VERB NAME=value`` before."""

from __future__ import annotations

import os

import pytest

from harness.cli.main import _as_for_make, run
from harness.errors import UsageError


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SESSION", "IF", "TUI", "PID", "DRYDOCK_MAKE_VARS"):
        monkeypatch.setenv(name, "")


def test_settings_go_where_make_puts_them() -> None:
    assert _as_for_make(["attach", "SESSION=2", "--json", "IF=reward < -1", "tui=1"]) == ["attach", "--json"]
    assert (os.environ["SESSION"], os.environ["IF"], os.environ["TUI"]) == ("2", "reward < -1", "1")
    assert os.environ["DRYDOCK_MAKE_VARS"].split() == ["SESSION", "IF", "TUI"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["SESSION=1"],  # no verb
        ["supervise", "PID=1", "python"],  # somebody's command line
        ["run", "--cmd", "PID=1 python x.py"],
        ["run", "--", "PID=1"],
        ["open", "a=b"],
        ["check", "--agent-args", "SESSION=1"],
    ],
)
def test_what_is_meant_otherwise_stays(arguments: list[str]) -> None:
    assert _as_for_make(arguments) == arguments
    assert os.environ["PID"] == os.environ["SESSION"] == ""


def test_a_mistyped_one_is_named_with_the_one_it_may_be(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="Did you mean SESSION=1"):
        _as_for_make(["attach", "SESION=1"])
    assert run(["attach", "SESION=1"]) == 2
    assert "Did you mean SESSION=1?" in capsys.readouterr().err
