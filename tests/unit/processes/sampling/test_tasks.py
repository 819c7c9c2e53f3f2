"""Which way to await chains is gone: memory always, gdb and another interpreter on request only."""

from __future__ import annotations

import pytest

from harness.processes.sampling import tasks
from harness.processes.sampling.tasks import Tasks, await_chains

LOOP = b"run_forever (asyncio/base_events.py:607)"


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ways that were gone, none of which gives anything."""
    ways: list[str] = []

    def way(name: str) -> object:
        def fails(*_: object) -> Tasks:
            ways.append(name)
            return Tasks(None, f"{name} fails")

        return fails

    for name in ("_from_memory", "_by_gdb", "_from_outside"):
        monkeypatch.setattr(tasks, name, way(name))
    return ways


@pytest.mark.parametrize(
    ("python", "dump", "by_all_means", "expected"),
    [
        ("3.11", LOOP, False, ["_from_memory"]),
        ("3.11", LOOP, True, ["_from_memory", "_by_gdb"]),
        ("3.14", LOOP, False, ["_from_memory"]),
        ("3.14", LOOP, True, ["_from_memory", "_from_outside"]),
        ("3.11", LOOP + b' "owns_gil": true', True, ["_from_memory"]),
        ("3.9", LOOP, True, []),
        ("", LOOP, False, []),
        ("", LOOP, True, ["_by_gdb"]),
        ("3.11", b"main (train.py:3)", True, []),
        ("3.11", None, True, []),
    ],
)
def test_ways(python: str, dump: bytes | None, by_all_means: bool, expected: list[str], gone: list[str]) -> None:
    found = await_chains(1, python, dump, by_all_means=by_all_means)
    assert (gone, found.content) == (expected, None)
    assert found.error


def test_what_memory_gives_is_taken(gone: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_from_memory", lambda *_: Tasks(b"{}"))
    assert await_chains(1, "3.11", LOOP, by_all_means=True) == Tasks(b"{}")
    assert not gone
