"""A check that its agent ends or stops is told on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from harness.errors import CheckEnded
from harness.stack import watched


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LOOK_SECONDS", 0.001)


def run(states: Iterator[str]) -> tuple[watched.Watch, bool]:
    """A watch over a command that is in these states, one a look, and ends after them; and whether it was ended."""
    over, ended = threading.Event(), threading.Event()

    def state() -> str:
        found = next(states, None)
        if found is None:
            over.set()
        return found or ""

    def end() -> None:
        ended.set()
        over.set()

    watch = watched.Watch(state, end)
    with watch.while_it_runs():
        assert over.wait(10)
    return watch, ended.is_set()


def test_one_that_stays_stopped_is_ended_and_told() -> None:
    watch, ended = run(iter(["S", "T", "Tl", "S"]))
    assert ended
    with pytest.raises(CheckEnded, match="stopped from outside"):
        watched.explain(137, watch)


def test_one_that_is_stopped_for_a_moment_is_left_alone() -> None:
    watch, ended = run(iter(["S", "t", "R", "T", "S", "", "T"]))
    assert not ended
    watched.explain(1, watch)


def test_one_that_was_killed_is_told() -> None:
    watch, _ = run(iter([]))
    with pytest.raises(CheckEnded, match="SIGKILL"):
        watched.explain(137, watch)
    for code in (0, 1, 2, 3, 130):
        watched.explain(code, watch)


def test_the_state_is_that_of_the_check_and_of_nothing_like_it() -> None:
    class Api:
        def top(self, container: str, ps_args: str) -> dict[str, list[list[str]]]:
            rows = [["1", "Ss", "docker-init -- x"], ["7", "T", "vi harness check.py"]]
            return {"Processes": [*rows, ["9", "Tl", "/opt/venv/bin/python /opt/venv/bin/harness check"]]}

    client, container = type("Client", (), {"api": Api()}), type("Container", (), {"id": "x"})
    assert watched.state_of(client, container, "harness check") == "Tl"  # type: ignore[arg-type]
    assert watched.state_of(client, container, "harness lint") == ""  # type: ignore[arg-type]
    assert watched.state_of(None, container, "harness check") == ""  # type: ignore[arg-type]
