"""Who holds the lock on a file that a process waits for: the kernel's table of locks tells, and no stack does."""

from __future__ import annotations

import os

from harness.processes.stat import read_small

_LONGEST = 120


def holder_of(pid: int, table: str | None = None) -> str:
    """Who has the lock that a process waits for, as a clause: ``process 17 (python fetch.py) has /cache/model.lock``.

    Args:
        pid: number in our PID namespace; the table numbers processes like that too.
        table: content of ``/proc/locks``; None to read it.

    Returns:
        "" where it waits for none, or the holder is in another PID namespace.
    """
    if table is None:
        table = (read_small("/proc/locks") or b"").decode("ascii", "replace")
    waited = waited_for(table, pid)
    if waited is None or not waited[0]:
        return ""
    holder, inode = waited
    command = (read_small(f"/proc/{holder}/cmdline") or b"").replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return f"process {holder} ({command[:_LONGEST] or '?'}) has {_path(pid, inode) or f'the file of inode {inode}'}"


def waited_for(table: str, pid: int) -> tuple[int, int] | None:
    """``(holder, inode)`` of the lock for which a process is listed as waiting; None where it isn't.

    A line is ``NUMBER: [->] KIND ADVISORY WRITE PID MAJOR:MINOR:INODE START END``; who waits has the holder's number.
    """
    held: dict[str, int] = {}
    for line in table.splitlines():
        number, *fields = line.split()
        waits = bool(fields) and fields[0] == "->"
        fields = fields[1:] if waits else fields
        if len(fields) < 5 or not fields[3].lstrip("-").isdigit():
            continue
        if not waits:
            held[number] = int(fields[3])
        elif int(fields[3]) == pid:
            inode = fields[4].rpartition(":")[2]
            return held.get(number, 0), int(inode) if inode.isdigit() else 0
    return None


def _path(pid: int, inode: int) -> str:
    """The file of this inode among those that the process has open."""
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            if os.stat(path).st_ino == inode:
                return os.readlink(path)
    except OSError:
        pass
    return ""
