"""Lets a process go on that a dumper has left stopped."""

from __future__ import annotations

import fcntl
import os
import signal
import socket

_F_SETSIG = 10  # of Linux; Python's fcntl has no name for it


def wake(pid: int) -> None:
    """Send SIGCONT, also as root without CAP_KILL.

    A probe is root with CAP_SYS_PTRACE alone, so it may hold another user's process but not signal it. The kernel sends
    signals for descriptors that are ready, too, on behalf of whoever asked for that, and there it lets root.

    Raises:
        OSError: neither way is open to this user.
    """
    try:
        os.kill(pid, signal.SIGCONT)
    except PermissionError:
        if os.geteuid() != 0:
            raise
        near, far = socket.socketpair()
        with near, far:
            fcntl.fcntl(near, _F_SETSIG, int(signal.SIGCONT))
            fcntl.fcntl(near, fcntl.F_SETOWN, pid)
            fcntl.fcntl(near, fcntl.F_SETFL, fcntl.fcntl(near, fcntl.F_GETFL) | os.O_ASYNC)
            far.send(b".")
