"""SIGTERM and a hang-up unwind a verb as Ctrl-C does: what it half made is undone, and the exit code is a shell's."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import click
import pytest

from harness.cli import main
from harness.errors import Interrupted
from harness.processes.leaving import leaving_on_signals

undone: list[str] = []


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Nothing of what is tried here may stay, whatever fails."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    undone.clear()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def a_verb(*numbers: signal.Signals) -> click.Command:
    @click.command("down", context_settings={"ignore_unknown_options": True})
    @click.argument("rest", nargs=-1)
    def command(rest: tuple[str, ...]) -> None:
        try:
            signal.raise_signal(numbers[0])
        finally:
            for number in numbers[1:]:
                signal.raise_signal(number)
            undone.append("all")

    return command


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_is_half_made_is_undone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    monkeypatch.setattr(main, "cli", a_verb(number))
    assert main.run(["x", "--json"]) == 128 + number
    assert undone == ["all"]
    assert json.loads(capsys.readouterr().out)["what"] == f"Ended by {number.name}."
    assert signal.getsignal(number) == signal.SIG_DFL


def test_a_second_one_breaks_nothing_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "cli", a_verb(signal.SIGTERM, signal.SIGTERM, signal.SIGHUP))
    assert main.run(["x", "--json"]) == 143
    assert undone == ["all"]


def test_a_verbs_own_words_are_kept(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    @click.argument("rest", nargs=-1)
    def command(rest: tuple[str, ...]) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise Interrupted("Stopped by Ctrl-C.", consequence="What was found is kept.", mend="make check") from None

    monkeypatch.setattr(main, "cli", command)
    assert main.run(["check"]) == 143
    said = capsys.readouterr().err
    assert ("Ended by SIGTERM" in said, "What was found is kept" in said, "Ctrl-C" in said) == (True, True, False)


def test_under_nohup_a_hang_up_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with leaving_on_signals():
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    monkeypatch.setattr(main, "cli", a_verb(signal.SIGHUP))
    assert main.run(["down"]) == 0
