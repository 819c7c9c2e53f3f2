"""Await chains of a process's asyncio tasks; its stacks show the event loop's sleep only.

Python 3.10 to 3.13: they are read from its memory (``coroutines``), which it doesn't notice. Two ways that it does
notice, or that run its interpreter, are gone on request only, where that doesn't do: gdb has the process run
``await_chains.py`` once, which stops it for 0.3 s, with torch for 3 s; and Python 3.14's own interpreter reads them
from outside (what ``python -m asyncio pstree`` does), without a stop.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from harness.processes.gdb import why_not
from harness.processes.sampling.model import DUMP_LIMIT

_SECONDS = 30.0
# Where the process may write its answer; the second for containers without a writable /tmp.
_FOLDERS = ("/tmp", "/dev/shm")
_OUTSIDE = """
import json, sys
from asyncio import tools
found = []
for info in tools.get_all_awaited_by(int(sys.argv[1])):
    for task in info.awaited_by:
        stack = [frame for coroutine in task.coroutine_stack for frame in coroutine.call_stack]
        found.append({"task": task.task_name, "waiting_on": "", "stack": [
            {"name": frame.funcname, "file": frame.filename, "line": frame.lineno} for frame in reversed(stack)]})
print(json.dumps({"pid": int(sys.argv[1]), "tasks": found}))
"""


@dataclass(frozen=True)
class Tasks:
    """What came of it.

    Attributes:
        content: JSON as ``await_chains.py`` writes it; None where there is none, and then ``error`` says why.
        seconds: how long the process was held up at most.
    """

    content: bytes | None
    error: str = ""
    seconds: float = 0.0


def await_chains(pid: int, python: str, dump: bytes | None, *, by_all_means: bool) -> Tasks:
    """The await chains of one process.

    Args:
        python: its version (``3.11``); "" where that isn't known.
        dump: its stacks as py-spy has just seen them.
        by_all_means: also in ways that hold it up, or that run its interpreter.
    """
    version = tuple(int(part) for part in python.split(".")) if re.fullmatch(r"3\.\d+", python) else ()
    if dump is None or b"asyncio" not in dump:
        return Tasks(None, "no event loop is seen in it")
    if version and version < (3, 10):
        return Tasks(None, f"await chains aren't read from Python {python}")
    read = _from_memory(pid, (version[0], version[1])) if version else Tasks(None, "its version isn't known")
    if read.content is not None or not by_all_means:
        return read
    if version >= (3, 14):
        return _from_outside(pid)
    if b'"owns_gil": true' in dump:
        # Whoever runs code in there would wait for the lock, and the process would stay stopped meanwhile.
        return Tasks(None, "a thread of it holds the interpreter's lock: nothing can be run in it")
    return _by_gdb(pid)


def _from_memory(pid: int, version: tuple[int, int]) -> Tasks:
    # Most processes have no event loop.
    from harness.processes.sampling.coroutines.chains import chains
    from harness.processes.sampling.coroutines.peek import Unreadable

    try:
        return Tasks(json.dumps(chains(pid, version)).encode())
    except Unreadable as error:
        return Tasks(None, str(error))


def _by_gdb(pid: int) -> Tasks:
    gdb = shutil.which("gdb")
    if gdb is None:
        return Tasks(None, "gdb is not installed here: apt-get install gdb")
    if reason := why_not(gdb):
        return Tasks(None, reason)
    source = resources.files("harness.processes.sampling").joinpath("await_chains.py").read_bytes()
    name = f".drydock-tasks-{secrets.token_hex(8)}"
    error = "it gave no answer"
    started = time.monotonic()
    for folder in _FOLDERS:
        path = f"{folder}/{name}"
        error = _run(_command(gdb, pid, source, path), _SECONDS)
        content = _taken(f"/proc/{pid}/root{path}") or _taken(path)
        if content is not None:
            return Tasks(content, seconds=time.monotonic() - started)
        if error:
            break
    return Tasks(None, error or "it could not write its answer: neither /tmp nor /dev/shm is writable for it")


def _command(gdb: str, pid: int, source: bytes, path: str) -> list[str]:
    """Take the interpreter's lock, run the text, give the lock back; no symbol of any other library is read."""
    text = base64.b64encode(source).decode()
    # In a namespace of its own, so that nothing of the program is touched; and no error may print into its output.
    code = (
        f"try:\\n import base64\\n n={{}}\\n exec(base64.b64decode('{text}'),n)\\n n['write']('{path}')\\n"
        "except BaseException: pass"
    )
    steps = [
        "set confirm off", "set pagination off", "set unwindonsignal on", "set auto-solib-add off",
        f"attach {pid}", "sharedlibrary libpython",
        "set $state = (int)PyGILState_Ensure()", f'call (int)PyRun_SimpleString("{code}")',
        "call (void)PyGILState_Release($state)", "detach",
    ]  # fmt: skip
    arguments = [gdb, "-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off"]
    for step in steps:
        arguments += ["-ex", step]
    return arguments


def _run(arguments: Sequence[str], seconds: float) -> str:
    """Run it; returns why it failed, "" where it didn't."""
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            # SIGINT has gdb take the call back and let go; killed, it would leave it half-made in the process.
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
            return f"gdb took longer than {seconds:g} s"
    text = output.decode("utf-8", "replace")
    if "Operation not permitted" in text or "ptrace: " in text:
        return "gdb may not attach to it"
    if "No symbol" in text:
        return "gdb finds no interpreter in it"
    return ""


def _from_outside(pid: int) -> Tasks:
    """By the process's own interpreter: both sides must be of one version."""
    program = f"/proc/{pid}/exe"
    if not _trusted(pid, program):
        return Tasks(None, "its interpreter is another user's or a container's, and is not run here: run this in there")
    try:
        done = subprocess.run(
            [program, "-I", "-c", _OUTSIDE, str(pid)], capture_output=True, timeout=_SECONDS, check=False
        )
        if done.returncode == 0:
            content: Any = json.loads(done.stdout)
            return Tasks(json.dumps(content).encode())
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return Tasks(None, lines[-1][:200] if lines else f"its interpreter ended with {done.returncode}")
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Tasks(None, f"its interpreter can't be run here: {error}")


def _trusted(pid: int, program: str) -> bool:
    """Whether running its program gives nobody our rights: it is ours or root's, and of our own file system."""
    try:
        here = os.stat(f"/proc/{pid}/ns/mnt").st_ino == os.stat("/proc/self/ns/mnt").st_ino
        return here and os.stat(program).st_uid in (0, os.geteuid())
    except OSError:
        return False


def _taken(path: str) -> bytes | None:
    """The answer, which is taken away as well; None where there is none."""
    content = None
    for name in (path, f"{path}.part"):
        with contextlib.suppress(OSError):
            if name == path:
                with open(name, "rb") as file:
                    content = file.read(DUMP_LIMIT)
            os.unlink(name)
    return content
