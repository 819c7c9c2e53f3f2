"""Brings the hook's thread into a process of this machine that has none yet.

A process with the hook, which is every one of the image's Python, is sent the hook's signal. One that nobody prepared
is entered by ``sys.remote_exec`` or by gdb, where the kernel lets this user trace it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness
from harness.breakpoints.ask import NoAgent, ask
from harness.breakpoints.inside import ATTACH_SIGNAL
from harness.breakpoints.model import Worker
from harness.errors import DebuggerGone
from harness.places import in_container
from harness.processes.gdb import why_not

SECONDS = 30.0


def agent(worker: Worker, why: str) -> None:
    """Make a process answer questions.

    Args:
        why: why it can't be asked now, for the message.

    Raises:
        DebuggerGone: there is no way in.
    """
    pid = worker.pid
    if not _is_here(worker.ip):
        raise DebuggerGone(
            f"No debugger can be let into PID {pid} on {worker.ip}: {why}.",
            consequence="It runs elsewhere and was started without the hook.",
            mend="put `breakpoint()` into its code; or start it in the stack: make run CMD='…'",
        )
    python = _python_of(pid)
    if _catches(pid, ATTACH_SIGNAL):
        _send(pid)
        _wait_for(worker)
        return
    with tempfile.TemporaryDirectory(prefix="drydock-") as folder:
        os.chmod(folder, 0o755)
        script = Path(folder) / "begin.py"
        script.write_text(_script(worker.ip or "127.0.0.1"))
        if python >= (3, 14) and hasattr(sys, "remote_exec"):
            _by_python(pid, script)
        elif gdb := shutil.which("gdb"):
            if reason := why_not(gdb):
                raise DebuggerGone(
                    f"No debugger can be let into PID {pid}: {why}, and {reason}.",
                    consequence="The process goes on as it was.",
                    mend="put `breakpoint()` into its code; or start it in the stack: make run CMD='…'",
                )
            _by_gdb(pid, script)
        else:
            raise _no_way_in(pid, why)
        _wait_for(worker)


def _catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal; without one the signal would end it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    mask = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), 0)
    return bool(mask >> (number - 1) & 1)


def _send(pid: int) -> None:
    try:
        os.kill(pid, ATTACH_SIGNAL)
    except OSError as error:
        raise _not_allowed(pid, error) from None


def _by_python(pid: int, script: Path) -> None:
    try:
        sys.remote_exec(pid, str(script))  # type: ignore[attr-defined,unused-ignore]  # from 3.14 on
    except OSError as error:
        raise _not_allowed(pid, error) from None
    except RuntimeError as error:
        raise DebuggerGone(f"Python lets no debugger into PID {pid}: {error}.") from None


def _not_allowed(pid: int, error: OSError) -> DebuggerGone:
    if in_container():
        return DebuggerGone(
            f"PID {pid} may not be reached by this user: {error.strerror}.",
            consequence="It runs as another user of this container.",
        )
    return DebuggerGone(
        f"PID {pid} may not be reached by this user: {error.strerror}.", mend=f"sudo -E make attach PID={pid}"
    )


def _no_way_in(pid: int, why: str) -> DebuggerGone:
    what = f"No debugger can be let into PID {pid}: {why}"
    if in_container():
        # The image has no gdb: a container may not trace its processes on most machines, and nobody could add it there.
        return DebuggerGone(
            f"{what}.",
            consequence="It has DRYDOCK_DEBUGGABLE=0, another Python than the image's, or a Python without its site.",
            mend="start it with the container's own `python`; or put `breakpoint()` into its code",
        )
    return DebuggerGone(
        f"{what}, and there is no gdb here.",
        consequence="Before Python 3.14, gdb is what brings a debugger into a process that wasn't prepared.",
        mend=f"apt-get install gdb && make attach PID={pid}",
    )


def _script(host: str) -> str:
    """What the process runs: our package stands beside its own ones, last on its path."""
    ours = str(Path(harness.__file__).parents[1])
    found = importlib.util.find_spec("debugpy")
    debugpy = str(Path(found.origin).parents[1]) if found is not None and found.origin else ours
    return (
        f"import sys\nsys.path.append({ours!r})\n"
        "import harness.breakpoints.inside as inside\nfrom harness.breakpoints.inside import listening\n"
        f"listening.last_resort = {debugpy!r}\ninside.install()\ninside.start_agent('process', {host!r})\n"
        f"sys.path.remove({ours!r})\n"
    )


def _by_gdb(pid: int, script: Path) -> None:
    run = f"exec(open({str(script)!r}).read(), {{}})"
    calls = [
        "call (int)PyGILState_Ensure()",
        f'call (int)PyRun_SimpleString("{run}")',
        "call (void)PyGILState_Release($1)",
    ]
    command = ["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "set auto-load off"]
    command += [part for call in calls for part in ("-ex", call)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise DebuggerGone(
            f"gdb could not bring a debugger into PID {pid} within {SECONDS:g} s.",
            consequence="Something in it holds Python's lock in C code. gdb was ended; the process goes on.",
            mend="make hang-dump   # says where it stands",
        ) from None
    if "$2 = 0" not in done.stdout:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise DebuggerGone(
            f"gdb could not bring a debugger into PID {pid}: {''.join(last)[:300]}",
            mend=f"sudo -E make attach PID={pid}   # if it may not be traced by this user",
        )


def _wait_for(worker: Worker) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            ask(worker.ip or "127.0.0.1", worker.pid, {"ask": "status"})
            return
        except NoAgent as error:
            if time.monotonic() > deadline:
                raise DebuggerGone(
                    f"PID {worker.pid} was given the debugger and has not begun it: {error}.",
                    consequence="Its main thread begins it at its next step of Python: it is stopped, or in C code.",
                    mend="make hang-dump   # says where it stands",
                ) from None
        time.sleep(0.1)


def _is_here(ip: str) -> bool:
    if ip.startswith("127.") or not ip:
        return True
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((ip, 0))
            return True
        except OSError:
            return False


def _python_of(pid: int) -> tuple[int, int]:
    """The version of a process's Python, by its program or its library.

    Raises:
        DebuggerGone: there is no such process, it may not be looked at, or it isn't Python.
    """
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
        program = os.readlink(f"/proc/{pid}/exe")
    except FileNotFoundError:
        raise DebuggerGone(f"There is no process {pid} here.", mend="ps aux | grep python") from None
    except OSError as error:
        raise _not_allowed(pid, error) from None
    for text in (program, *maps.splitlines()):
        name = text.rsplit("/", 1)[-1].removeprefix("lib")
        if name.startswith("python3."):
            digits = "".join(c for c in name[8:10] if c.isdigit())
            if digits:
                return 3, int(digits)
    raise DebuggerGone(f"PID {pid} is no Python process.", mend="ps aux | grep python")
