"""A supervisor with real commands, for each test."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import NoSuchRun
from harness.processes.running import read_run
from tests.support.supervised import Gate, Start, Supervised


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Start]:
    """Starts commands; what is left of them is killed after the test."""
    started: list[Supervised] = []

    def start(command: str, *options: str, runs: Path = tmp_path / "runs", **more: Any) -> Supervised:
        one = Supervised(command, runs, *options, **more)
        started.append(one)
        return one

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()
        for folder in one.runs.glob("*-run"):
            with contextlib.suppress(NoSuchRun):
                for pid in read_run(folder).survivors or ():
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """A gate for the command's processes to wait at."""
    one = Gate(tmp_path / "gate")
    yield one
    one.close()
