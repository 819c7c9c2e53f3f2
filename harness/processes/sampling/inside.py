"""What a process gives from inside when ``DEBUG=`` asked for it (``harness/hooks.py``): stacks, its Flight Recorder.

Sending a signal to a process that doesn't catch it ends it. So the signal is sent only where the hook's open file is
there, and the kernel says that the signal is caught.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping

from harness.hooks import RECORDER, STACKS, STACKS_SIGNAL
from harness.processes.sampling.model import DUMP_LIMIT

_SECONDS = 3.0


def stacks(pid: int, status: Mapping[str, str], seconds: float = _SECONDS) -> bytes | None:
    """faulthandler's text on request; None where the process has no such hook, or doesn't answer."""
    path = _open_file(pid, STACKS)
    if path is None or not _catches(status, STACKS_SIGNAL):
        return None

    def ask() -> None:
        os.kill(pid, STACKS_SIGNAL)

    return _grown(path, ask, seconds)


def recorder(pid: int, seconds: float = _SECONDS) -> dict[str, bytes]:
    """Its Flight Recorders as JSON, by back end (``gloo``, ``nccl``); {} where it has no such hook or no entries."""
    path = _open_file(pid, RECORDER)
    if path is None:
        return {}
    try:
        with open(path, "rb") as file:
            request = int(json.loads(file.readline())["request"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}

    def ask() -> None:
        with open(f"/proc/{pid}/fd/{request}", "wb", buffering=0) as pipe:
            pipe.write(b"?")

    answer = _grown(path, ask, seconds)
    try:
        content = json.loads(answer or b"{}")
    except ValueError:
        return {}
    if not isinstance(content, dict):
        return {}
    return {
        name: json.dumps(content[name]).encode() for name in ("gloo", "nccl") if isinstance(content.get(name), dict)
    }


def _open_file(pid: int, name: str) -> str | None:
    """The hook's file in memory, as a path through which we can open it."""
    folder = f"/proc/{pid}/fd"
    try:
        for number in os.listdir(folder):
            if os.readlink(f"{folder}/{number}").startswith(f"/memfd:{name}"):
                return f"{folder}/{number}"
    except OSError:
        pass
    return None


def _catches(status: Mapping[str, str], number: int) -> bool:
    try:
        return bool(int(status.get("SigCgt", "0"), 16) >> (number - 1) & 1)
    except ValueError:
        return False


def _grown(path: str, ask: Callable[[], None], seconds: float) -> bytes | None:
    """What was appended to the file after it was asked for; None when nothing came."""
    try:
        with open(path, "rb", buffering=0) as file:
            before = file.seek(0, os.SEEK_END)
            ask()
            deadline = time.monotonic() + seconds
            seen = before
            while time.monotonic() < deadline:
                time.sleep(0.02)
                # It comes in pieces; the end is there when nothing more follows.
                now = file.seek(0, os.SEEK_END)
                if now == seen > before:
                    break
                seen = now
            file.seek(before)
            return file.read(DUMP_LIMIT) or None
    except OSError:
        return None
