"""Starts real commands under the real supervisor and lets a test talk to both."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from harness.errors import NoSuchRun
from harness.processes.record import ProcessRecord, RunRecord
from harness.processes.running import RunState, read_run
from harness.processes.tree import is_running
from tests.support.harness import CLONE, wait_for

# The interpreter itself: what is first on PATH may be a script that starts it.
PYTHON = shlex.quote(sys.executable)

Start = Callable[..., "Supervised"]


class Supervised:
    """A supervisor with its command.

    Args:
        command: for the shell.
        runs: where results go.
        options: further arguments of ``harness supervise``.
        environment: further variables.
        stdin: for the command.
    """

    def __init__(
        self,
        command: str,
        runs: Path,
        *options: str,
        environment: dict[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        prefix: tuple[str, ...] = (),
    ) -> None:
        self.runs = runs
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "harness.cli.entry", "supervise", "--cmd", command, *options],
            env={**os.environ, "RUNS": str(runs), "NO_COLOR": "1", "PYTHONPATH": str(CLONE), **(environment or {})},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def out(self) -> IO[bytes]:
        """What the supervisor shows."""
        assert self.process.stdout is not None
        return self.process.stdout

    def line(self) -> str:
        """The next line that it shows; waits for it."""
        return self.out.readline().decode().strip()

    def send(self, number: signal.Signals) -> None:
        """Send the supervisor, and nobody else, a signal."""
        self.process.send_signal(number)

    def end(self) -> tuple[int, bytes, str]:
        """Wait for its end: exit code, standard output, standard error."""
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err.decode(errors="replace")

    @property
    def folder(self) -> Path:
        """The run's folder; waits until it is there."""
        found: list[Path] = wait_for("the run's folder", lambda: [*self.runs.glob("*-run")])
        assert len(found) == 1
        return found[0]

    def state(self) -> RunState | None:
        """How the run stands by its folder; None before there is anything to read."""
        with contextlib.suppress(NoSuchRun):
            return read_run(self.folder)
        return None

    def result(self) -> RunRecord:
        """The record after the end."""
        state = read_run(self.folder)
        assert state.state == "ended"
        return state.record

    def known(self, name: str, number: int = 1, *, containing: str = "") -> list[ProcessRecord]:
        """Processes of this name, and with this in their command, in the record; waits until there are that many."""

        def find() -> list[ProcessRecord] | None:
            state = self.state()
            processes = state.record.processes if state else []
            found = [one for one in processes if one.name == name and containing in (one.command or "")]
            return found if len(found) >= number else None

        found: list[ProcessRecord] = wait_for(f"{number} × {name} in the record", find)
        return found


class Gate:
    """A named pipe. Who reads three bytes from it waits until the test opens it; then all who come go through.

    Args:
        path: where it is to be; that is also what its text is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        # Read and write, so that it neither waits for a reader nor ends for those who come late.
        self._descriptor = os.open(path, os.O_RDWR)

    def __str__(self) -> str:
        return str(self.path)

    def open(self) -> None:
        """Let them through; more lines than any test has readers, who may share one out among them."""
        os.write(self._descriptor, b"go\n" * 1000)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)


def gone(process: ProcessRecord) -> bool:
    """Whether this very process runs no more."""
    return not is_running(process.pid, process.start_ticks)


def kernel_keeps_exits() -> bool:
    """Linux 6.15 and later tell the exit status of a process that somebody else has reaped."""
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(minor.split("-")[0])) >= (6, 15)


def check_exit(process: ProcessRecord, code: int | None, signal_name: str | None = None) -> None:
    """It ended like this; on an older kernel, which may have lost it, nothing else is claimed instead."""
    if not kernel_keeps_exits() and process.exit_source is None:
        assert process.exit_note
        assert (process.exit_code, process.signal) == (None, None)
        return
    assert (process.exit_code, process.signal) == (code, signal_name)
