"""The stacks of one process by py-spy, with a hard time limit and a second way in where the first is barred."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

_BLOCKING, _NONBLOCKING = "py-spy", "py-spy --nonblocking"
# While it holds its target, py-spy shall not wait for a core.
_URGENT = -10
# What py-spy prints, and what that means; the first that is found counts.
GONE = "it ended before it could be sampled"
NOT_PYTHON = "not a Python process, or one that py-spy doesn't know"
DENIED = "reading it is denied to this user"
MISSING = "py-spy is not installed here"
_REASONS = (
    ("No such process", GONE),
    ("Failed to get process executable name", GONE),
    ("Failed to find python version", NOT_PYTHON),
    ("Failed to find a python interpreter", "no interpreter is ready in it: it is starting, ending, or not Python"),
    ("Permission denied", DENIED),
    ("Permission Denied", DENIED),
    ("Operation not permitted", DENIED),
    ("Failed to suspend process", "it can't be suspended: it is stopped, or a debugger holds it"),
)


@dataclass(frozen=True)
class Dumped:
    """What came of one attempt.

    Attributes:
        content: py-spy's JSON; None where there is none, and then ``error`` says why.
        unclean: py-spy didn't end by itself, so that the process may have been left stopped.
    """

    way: str
    content: bytes | None = None
    error: str = ""
    unclean: bool = False


class Dumper:
    """Runs py-spy; ``stop`` ends all that run, from another thread or a signal handler."""

    def __init__(self, *, seconds: float, locals_: bool = False, native: bool = False) -> None:
        self._seconds = seconds
        self._locals, self._native = locals_, native
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False
        # More of these than cores would take turns on them, and their targets would stand meanwhile.
        self._holding = threading.BoundedSemaphore(os.cpu_count() or 2)

    def dump(self, pid: int, state: str, undisturbed: Callable[[bytes], bool] | None = None) -> Dumped:
        """The stacks of one process.

        Args:
            state: the kernel's letter for it just before.
            undisturbed: given for a process that seems to sleep: whether what was read of it without stopping it is
                whole, because it slept all the while.
        """
        # What is stopped already, or sleeps where no signal reaches it, can't be suspended: that would wait for ever.
        if state in ("T", "t", "D"):
            return self._once(pid, _NONBLOCKING)
        ways = [_BLOCKING, _NONBLOCKING]
        if undisturbed is not None and not self._native:
            ways.reverse()
        first = self._once(pid, ways[0])
        if first.content is not None and (ways[0] == _BLOCKING or undisturbed is None or undisturbed(first.content)):
            return Dumped(_BLOCKING, first.content)
        if self._stopped or first.error in (GONE, NOT_PYTHON):
            return first
        second = self._once(pid, ways[1])
        unclean = first.unclean or second.unclean
        # What was read of a process that ran is better than nothing; else what stopping it failed of says more.
        stopping = first if ways[0] == _BLOCKING else second
        best = next((one for one in (second, first) if one.content is not None), stopping)
        return replace(best, unclean=unclean)

    def stop(self) -> None:
        """End everything that runs, and start nothing more."""
        self._stopped = True
        with self._lock:
            for process in self._running:
                process.kill()

    def _once(self, pid: int, way: str) -> Dumped:
        if way == _NONBLOCKING:
            return self._run(pid, way)
        with self._holding:
            return self._run(pid, way)

    def _run(self, pid: int, way: str) -> Dumped:
        program = find_py_spy()
        if program is None:
            return Dumped(way, None, MISSING)
        arguments = [program, "dump", "--json", "--pid", str(pid)]
        if self._locals:
            arguments.append("--locals")
        if way == _NONBLOCKING:
            arguments.append("--nonblocking")
        elif self._native:
            arguments.append("--native")
        with self._lock:
            if self._stopped:
                return Dumped(way, None, "the dump was broken off")
            try:
                process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)  # noqa: E501  # fmt: skip
            except OSError as error:
                return Dumped(way, None, f"py-spy can't be started: {error.strerror}")
            self._running.add(process)
        if way == _BLOCKING:
            with contextlib.suppress(OSError):  # only root may, and it may have ended
                os.setpriority(os.PRIO_PROCESS, process.pid, _URGENT)
        try:
            output, complaint = process.communicate(timeout=self._seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Dumped(way, None, f"py-spy took longer than {self._seconds:g} s", unclean=True)
        finally:
            with self._lock:
                self._running.discard(process)
        return _outcome(way, process.returncode, output, complaint)


def _outcome(way: str, code: int, output: bytes, complaint: bytes) -> Dumped:
    if code == 0 and output.lstrip()[:1] == b"[" and b'"frames"' in output:
        return Dumped(way, output)
    if code < 0:
        return Dumped(way, None, f"py-spy was ended by signal {-code}", unclean=True)
    text = complaint.decode("utf-8", "replace")
    reason = next((reason for word, reason in _REASONS if word in text), "")
    if not reason:
        said = [line.strip() for line in text.splitlines() if line.strip()]
        # Causes and a trace of its own may follow.
        said = [line.removeprefix("Error: ") for line in said if line.startswith("Error: ")] or said[-1:]
        reason = f"py-spy failed: {said[0][:200]}" if said else f"py-spy gave no stacks (exit code {code})"
    return Dumped(way, None, reason, unclean=code != 0)


@lru_cache(maxsize=1)
def find_py_spy() -> str | None:
    """py-spy beside this interpreter, where the wheel's requirement put it; else on PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return beside if os.access(beside, os.X_OK) else shutil.which("py-spy")
