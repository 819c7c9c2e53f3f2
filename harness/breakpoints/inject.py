"""Lets debugpy into a process of this machine that nobody prepared: by ``sys.remote_exec`` or by gdb."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.breakpoints.inside import DEBUGGER_PORTS
from harness.breakpoints.model import Worker
from harness.errors import DebuggerGone

SECONDS = 30.0


def listen(worker: Worker, why: str) -> tuple[str, int]:
    """Make debugpy listen in a process; returns where.

    Args:
        why: why the process itself can't be asked, for the message.

    Raises:
        DebuggerGone: there is no way in.
    """
    pid = worker.pid
    if not _is_here(worker):
        raise DebuggerGone(
            f"No debugger can be let into PID {pid} on {worker.ip}: {why}.",
            consequence="It runs elsewhere and was started without the hook.",
            mend="put `breakpoint()` into its code; or start it in the stack: make run CMD='…'",
        )
    if not Path(f"/proc/{pid}").exists():
        raise DebuggerGone(f"There is no process {pid} here.")
    port = _free_port()
    python = _python_of(pid)
    if python is not None and python >= (3, 14) and hasattr(sys, "remote_exec"):
        _by_remote_exec(pid, port)
    elif shutil.which("gdb"):
        _by_gdb(pid, port)
    else:
        raise DebuggerGone(
            f"No debugger can be let into PID {pid}: {why}, and this machine has no gdb.",
            consequence="Before Python 3.14, gdb is what brings debugpy into a process that wasn't prepared.",
            mend=f"apt-get install gdb && harness attach --pid {pid}",
        )
    _wait_for(port, pid)
    return "127.0.0.1", port


def _by_remote_exec(pid: int, port: int) -> None:
    import debugpy

    folder = str(Path(debugpy.__file__).parents[1])
    text = f"import sys\nsys.path.append({folder!r})\nimport debugpy\ndebugpy.listen(('127.0.0.1', {port}))\n"
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    try:
        sys.remote_exec(pid, file.name)  # type: ignore[attr-defined,unused-ignore]
        _wait_for(port, pid)
    finally:
        os.unlink(file.name)


def _by_gdb(pid: int, port: int) -> None:
    command = [sys.executable, "-m", "debugpy", "--listen", f"127.0.0.1:{port}", "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise DebuggerGone(
            f"gdb could not bring a debugger into PID {pid} within {SECONDS:g} s.",
            consequence="It holds Python's lock in C code, or waits without ever running Python.",
            mend="make hang-dump   # says where it stands",
        ) from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise DebuggerGone(f"gdb could not bring a debugger into PID {pid}: {''.join(last)[:300]}")


def _wait_for(port: int, pid: int) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return
        except OSError:
            time.sleep(0.1)
    raise DebuggerGone(f"PID {pid} took the debugger in and has not run it: it is idle, or stopped.")


def _free_port() -> int:
    for port in DEBUGGER_PORTS:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise DebuggerGone("No port for a debugger is free.")


def _is_here(worker: Worker) -> bool:
    if worker.ip.startswith("127.") or not worker.ip:
        return True
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((worker.ip, 0))
            return True
        except OSError:
            return False


def _python_of(pid: int) -> tuple[int, int] | None:
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
        program = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None
    for text in (program, *maps.splitlines()):
        name = text.rsplit("/", 1)[-1].removeprefix("lib")
        if name.startswith("python3."):
            digits = "".join(c for c in name[8:11] if c.isdigit())
            return (3, int(digits)) if digits else None
    return None
