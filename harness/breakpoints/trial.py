"""Stops a small program at a breakpoint and reads its variables: whether a debugger works in this Python at all."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass

from harness.dap.session import Session
from harness.errors import DebuggerError

SECONDS = 10.0
PROGRAM = """
import debugpy
print(debugpy.listen(("127.0.0.1", 0))[1], flush=True)
def stop():
    reward, prompt = -1.5, "a prompt"
    debugpy.wait_for_client()
    debugpy.breakpoint()
    return reward, prompt
stop()
"""
EXPECTED = {"reward": "-1.5", "prompt": "'a prompt'"}


@dataclass(frozen=True)
class Trial:
    """How it went.

    Attributes:
        problem: what went wrong; "" where the variables were read.
        seconds: from the program's start to its variables.
    """

    problem: str
    seconds: float


def run() -> Trial:
    """Try it with this Python; the program has ended when this returns."""
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            problem = _debugged(program)
        except DebuggerError as error:
            problem = error.what
        finally:
            program.kill()
    return Trial(problem, time.monotonic() - began)


def _debugged(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    assert program.stderr is not None
    port = program.stdout.readline().strip()
    if not port.isdigit():
        last = program.stderr.read().strip().splitlines()[-1:]
        return f"debugpy can't be started: {''.join(last) or 'it said nothing'}"
    with Session.connect("127.0.0.1", int(port)) as session:
        session.attach(timeout=SECONDS)
        stop = session.wait_for_stop(timeout=SECONDS)
        frame = session.stack(stop.thread)[0]
        read = {variable.name: variable.value for variable in session.variables(frame.id)}
    missing = [name for name, value in EXPECTED.items() if read.get(name) != value]
    return f"it stopped, and {' and '.join(missing)} can't be read" if missing else ""
