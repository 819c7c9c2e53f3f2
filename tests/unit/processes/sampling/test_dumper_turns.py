"""How many dumpers may hold a target at a time."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.processes.sampling import dumper
from harness.processes.sampling.dumper import Dumper

# One that holds its target notes its beginning and its end; the others are of no interest.
FAKE = """#!/bin/sh
case "$*" in *--nonblocking*) exit 1;; esac
echo + >> {log}
sleep 0.1
echo - >> {log}
echo '[{{"frames": []}}]'
"""


def test_no_more_hold_their_target_than_there_are_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, program = tmp_path / "log", tmp_path / "py-spy"
    program.write_text(FAKE.format(log=log))
    program.chmod(0o755)
    monkeypatch.setattr(dumper, "find_py_spy", lambda: str(program))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    one = Dumper(seconds=60)
    with ThreadPoolExecutor(6) as pool:
        dumps = list(pool.map(lambda _: one.dump(os.getpid(), "R"), range(6)))
    assert all(dumped.content for dumped in dumps)
    marks, here, most = log.read_text().split(), 0, 0
    for mark in marks:
        here += 1 if mark == "+" else -1
        most = max(most, here)
    assert (len(marks), here, most) == (12, 0, 2)


def test_breaking_off_frees_those_that_wait_for_their_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "py-spy"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/runs\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setattr(dumper, "find_py_spy", lambda: str(program))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    one = Dumper(seconds=60)
    threads = [threading.Thread(target=one.dump, args=(os.getpid(), "R")) for _ in range(3)]
    for thread in threads:
        thread.start()
    while not (tmp_path / "runs").exists():
        pass
    one.stop()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
