"""Programs to debug: real processes with the hook, and what they did."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.harness import CLONE, wait_for

PROGRAM = Path(__file__).with_name("program.py")


@dataclass
class Program:
    """A running program."""

    process: subprocess.Popen[str]
    steps_file: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def steps(self) -> int:
        """How many steps it has made."""
        try:
            return int(self.steps_file.read_text() or 0)
        except (OSError, ValueError):
            return 0

    def goes_on(self) -> None:
        """Fails where it doesn't."""
        before = self.steps
        wait_for("the program's next steps", lambda: self.steps > before + 2)

    def stands(self) -> None:
        """Fails where it makes steps."""
        wait_for("the program to stand", self._unchanged)

    def _unchanged(self) -> bool:
        before = self.steps
        time.sleep(0.5)
        return self.steps == before


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Starts the program; with ``hook=False`` as one that nobody prepared, with ``asked=False`` as any of the image."""
    running: list[subprocess.Popen[str]] = []

    def start(*, hook: bool = True, asked: bool = True, environment: dict[str, str] | None = None) -> Program:
        steps = tmp_path / f"steps{len(running)}"
        code = "import harness.breakpoints.inside as i; i.install()\n" if hook else ""
        code += f"import sys, runpy; sys.argv = [{str(PROGRAM)!r}, {str(steps)!r}]\n"
        code += f"runpy.run_path({str(PROGRAM)!r}, run_name='__main__')\n"
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=CLONE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "DRYDOCK_DEBUGGABLE": ("1" if asked else "") if hook else "0", **(environment or {})},
        )
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return Program(process, steps)

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
def program(started: Callable[..., Program]) -> Program:
    """One that has the hook."""
    return started()
