"""Agents that mean harm; run in `dev` by test_hostile_agent.py."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from typing import Any

# A terminal's title, a cleared screen, colours, a report that comes back as typed text, 8-bit control, turned writing.
NASTY = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m \x1bP+q544e\x1b\\ \x9b5n \u202egnp.exe <script>alert(1)</script>"


class Good:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        return 1.0


class Escapes:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        print(NASTY)
        print(NASTY, file=sys.stderr)
        raise RuntimeError(NASTY)


class KillsItsParent:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()
        return 1.0


class KillsEverything:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        os.kill(-1, signal.SIGKILL)
        return 1.0


class StopsItsParent:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        os.kill(os.getppid(), signal.SIGSTOP)
        signal.pause()
        return 1.0


class TracesItsNeighbours:
    """With the debugger's call every process of `dev` is stopped, its first one too."""

    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        attach, library = 16, ctypes.CDLL(None)
        for number in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
            if number != os.getpid():
                library.ptrace(attach, number, 0, 0)
        signal.pause()
        return 1.0


class Forks:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        while True:
            try:
                os.fork()
            except OSError:
                time.sleep(0.2)


class EatsMemory:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        kept = []
        while True:
            kept.append(bytearray(b"x") * (64 << 20))


class FillsShm:
    async def run(self, data: dict[str, Any], **kwargs: Any) -> float:
        with open("/dev/shm/filled", "wb") as file:
            while True:
                file.write(b"x" * (1 << 20))
