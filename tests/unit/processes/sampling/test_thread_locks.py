"""For which lock a thread waits, read from programs that really wait."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.processes.sampling import thread_locks
from harness.processes.sampling.dumper import Dumper
from harness.processes.sampling.thread_locks import Waiting

Ask = Callable[[str, int], list[Waiting]]


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Ask]:
    """Starts a program and says for which locks its threads wait, once that many do."""
    started: list[subprocess.Popen[bytes]] = []
    dumper = Dumper(seconds=20, locals_=False, native=False)

    def ask(program: str, number: int) -> list[Waiting]:
        file = tmp_path / "program.py"
        file.write_text("import threading, time\n" + textwrap.dedent(program))
        process = subprocess.Popen([sys.executable, str(file)])
        started.append(process)
        until = time.monotonic() + 60
        while True:
            dumped = dumper.dump(process.pid, "S", None)
            found = thread_locks.waiting(process.pid, dumped.content or b"")
            if len(found) == number or time.monotonic() > until:
                return found
            assert process.poll() is None

    yield ask
    dumper.stop()
    for process in started:
        process.kill()
        process.wait()


def shown(found: list[Waiting]) -> list[tuple[str, str, list[str]]]:
    return [(one.thread, one.wants, [lock for lock, _ in one.holds]) for one in found]


def test_a_lock_taken_twice_has_the_name_of_its_class(waiting: Ask) -> None:
    program = """
        class Metrics:
            def __init__(self):
                self.lock = threading.Lock()
            def log(self):
                with self.lock:
                    self.flush()
            def flush(self):
                with self.lock:
                    pass
        Metrics().log()
        """
    [one] = waiting(program, 1)
    lock = "self.lock of Metrics (program.py)"
    assert (one.thread, one.wants) == ("MainThread", lock)
    assert one.line.endswith("flush (program.py:10)")  # qualified since Python 3.11
    assert [(held, place.rpartition(":")[2]) for held, place in one.holds] == [(lock, "7)")]
    assert json.loads(json.dumps(one.as_dict()))["wants"] == lock


def test_two_locks_in_opposite_order(waiting: Ask) -> None:
    program = """
        one, other, both = threading.Lock(), threading.Lock(), threading.Barrier(2)
        def first():
            with one:
                both.wait()
                other.acquire()
        def second():
            with other:
                both.wait()
                with one:
                    pass
        threading.Thread(target=second, name="second", daemon=True).start()
        first()
        """
    assert sorted(shown(waiting(program, 2))) == [
        ("MainThread", "other (program.py)", ["one (program.py)"]),
        ("second", "one (program.py)", ["other (program.py)"]),
    ]


def test_slots_count_only_where_nobody_who_works_has_one(waiting: Ask) -> None:
    program = """
        slots, both = threading.Semaphore(2), threading.Barrier(2)
        def again():
            with slots:
                both.wait()
                with slots:
                    pass
        threading.Thread(target=again, daemon=True).start()
        again()
        """
    assert [one.wants for one in waiting(program, 2)] == ["slots (program.py)"] * 2


def test_a_slot_that_a_sleeper_has_comes_back(waiting: Ask) -> None:
    program = """
        slots, both = threading.Semaphore(1), threading.Event()
        def has_it():
            with slots:
                both.set()
                time.sleep(1000)
        threading.Thread(target=has_it, daemon=True).start()
        both.wait()
        has_it()
        """
    assert waiting(program, 0) == []


@pytest.mark.parametrize(
    "program",
    [
        "threading.Event().wait()",
        "threading.Condition().acquire() and time.sleep(1000)",
        "import queue\nqueue.Queue().get()",
        "time.sleep(1000)",
        "lock = threading.Lock()\nlock.acquire()\nlock.acquire(timeout=1000)",
    ],
)
def test_who_waits_for_something_else_waits_for_no_lock(program: str, waiting: Ask) -> None:
    assert waiting(program, 0) == []


@pytest.mark.parametrize("dump", [b"", b"{}", b"[1]", b'[{"frames": null}]', b'[{"frames": [{}], "os_thread_id": 1}]'])
def test_a_dump_that_is_none_says_nothing(dump: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_locks, "_for_ever", lambda _pid: {1})
    assert thread_locks.waiting(1, dump) == []


@pytest.mark.parametrize(
    ("source", "line", "held"),
    [
        ("def f(lock):\n    with lock:\n        g()\n", 3, []),  # whoever calls it decides which that is
        ("with lock:\n    def f():\n        g()\n", 3, []),  # the block is over when that runs
        ("with lock:\n    g()\n", 2, ["lock"]),
        ("def f():\n    with a.b, c:\n        g()\n", 3, ["c", "a.b"]),
        ("def f():\n    with locks[1]:\n        g()\n", 3, []),
        ("def f():\n    with open(x):\n        g()\n", 3, []),
        ("def f():\n    with lock:\n        pass\n    g()\n", 4, []),
        ("class A:\n    def f(self):\n        with self.lock:\n            g()\n", 4, ["self.lock of A"]),
        ("def f():\n    this is no python\n", 2, []),
    ],
)
def test_what_a_line_holds(source: str, line: int, held: list[str], tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(source)
    found = [lock for lock, _ in thread_locks._Files(os.getpid()).held_at(str(file), line)]
    assert found == [f"{lock} (code.py)" for lock in held]
