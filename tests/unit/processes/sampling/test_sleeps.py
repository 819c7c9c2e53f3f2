"""When a thread that sleeps goes on by itself, read from a process that does."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from harness.processes.sampling import sleeps, turns

PROGRAM = """
import threading, time
threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
time.sleep(100)
"""
needs_moments = pytest.mark.skipif(sys.version_info < (3, 11), reason="sleeps in select, whose end stays in the kernel")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def seen(pid: int) -> dict[int, float]:
    """Once all its threads are asleep."""
    until = time.monotonic() + 20
    while True:
        threads = turns.of_process(pid)
        found = sleeps.ends(pid, threads)
        if len(found) == 2 or time.monotonic() > until:
            return found


@needs_moments
def test_each_sleeping_thread_has_its_end_and_one_that_waits_has_none(sleeper: subprocess.Popen[bytes]) -> None:
    found = seen(sleeper.pid)
    assert len(found) == 2
    assert 0 < found.pop(sleeper.pid) <= 100
    [other] = found.values()
    assert 200 < other <= 300


@needs_moments
def test_the_end_is_the_same_at_every_look(sleeper: subprocess.Popen[bytes]) -> None:
    began, first = time.monotonic(), seen(sleeper.pid)[sleeper.pid]
    second = sleeps.ends(sleeper.pid, turns.of_process(sleeper.pid))[sleeper.pid]
    assert abs(first - second) <= time.monotonic() - began + 0.02


@pytest.mark.parametrize(
    "call",
    [
        "running",
        "",
        "230 0x1 0x1",
        "230 0x1 0x0 0x7ffd0 0x7ffd0 0x0 0x0 0x7ffd 0x7f",  # a length and no moment
        "230 0x0 0x1 0x7ffd0 0x7ffd0 0x0 0x0 0x7ffd 0x7f",  # the wall's clock
        "230 0x1 0x1 0x10 0x0 0x0 0x0 0x7ffd 0x7f",  # nothing is mapped there
        "202 0x1 0x1 0x7ffd0 0x7ffd0 0x0 0x0 0x7ffd 0x7f",
        "230 one two three four",
    ],
)
def test_what_is_no_sleep_until_a_moment_says_nothing(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(sleeps, "read_small", lambda _path: call.encode())
    assert sleeps.ends(1, {1: turns.Turns("S", 1, 1)}) == {}


def test_an_unknown_processor_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert sleeps.ends(1, {1: turns.Turns("S", 1, 1)}) == {}


def test_who_runs_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleeps, "read_small", lambda path: pytest.fail(path))
    assert sleeps.ends(1, {1: turns.Turns("R", 1, 1)}) == {}
