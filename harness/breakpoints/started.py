"""Processes of this machine that were started under debugpy, to wait for a client before their first line.

So starts AReaL's worker in stage 4 with ``BREAK=1``. Ray knows nothing of them, and they can't be asked: none of their
own code has run yet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import psutil

from harness.breakpoints.model import Worker

# Words end with NUL; between the two options and the program others may stand, each with its value.
_BEGUN = re.compile(
    r"\0-m\0debugpy\0--listen\0(?:([^\0]+):)?(\d+)\0--wait-for-client\0(?:--[^\0]+\0[^\0]+\0)*(?:-[mc]\0)?([^\0-][^\0]*)"
)


def processes() -> list[Worker]:
    """All that let a debugger in and have none now; one that was attached to and left goes on, and is among them."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline"]):
        if (begun := begun_under_debugpy(process.info["cmdline"] or ())) is None:
            continue
        host, port, name = begun
        states = _states(port)
        if psutil.CONN_LISTEN in states and psutil.CONN_ESTABLISHED not in states:
            found.append(Worker(host, process.info["pid"], role="process", debugger_port=port, task=name, begins=True))
    return found


def begun_under_debugpy(command: Sequence[str]) -> tuple[str, int, str] | None:
    """Host, port and program of ``python -m debugpy --listen … --wait-for-client …``; None for any other command."""
    found = _BEGUN.search("\0".join(command))
    return (found[1] or "127.0.0.1", int(found[2]), found[3]) if found else None


def _states(port: int) -> set[str]:
    """What the connections at a port of this machine are; empty before debugpy is there."""
    try:
        return {one.status for one in psutil.net_connections("tcp") if one.laddr and one.laddr.port == port}
    except psutil.Error:
        return set()
