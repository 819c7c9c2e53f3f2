"""What /proc tells about one process, without a library's detour: the watcher reads thousands of these a second."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

TICKS_PER_SECOND: int = os.sysconf("SC_CLK_TCK")

# task_struct.flags: forked, and still running its parent's program (include/linux/sched.h, PF_FORKNOEXEC).
_FORKED_NO_EXEC = 0x40


@dataclass(frozen=True)
class Stat:
    """One line of ``/proc/PID/stat``, as far as it is of use.

    Attributes:
        name: the kernel's name for it, at most 15 bytes (``comm``); may hold spaces, brackets and line breaks.
        state: one letter: R S D Z T t X I.
        start_ticks: clock ticks from the machine's boot to the process's start; with the pid it identifies a process.
        cpu_seconds: user and system time of all its threads, without its children.
        has_exec_ed: False while it still runs a copy of its parent's program.
        wait_status: how it ended, in waitpid's format. Means something in state Z only, and reads 0 where
            the reader may not look into the process (see ``exits.may_read_status``).
    """

    pid: int
    name: str
    state: str
    ppid: int
    group: int
    session: int
    threads: int
    start_ticks: int
    cpu_seconds: float
    has_exec_ed: bool
    wait_status: int

    @property
    def is_zombie(self) -> bool:
        """It has ended, and its parent has not asked for its exit status yet."""
        return self.state in "ZX"


def parse_stat(content: bytes) -> Stat:
    """Read the content of ``/proc/PID/stat``.

    The name stands in brackets and may hold anything, brackets and spaces included; so the last bracket counts.

    Raises:
        ValueError: this is no such line.
    """
    opening, closing = content.find(b"("), content.rfind(b")")
    if opening < 0 or closing < opening:
        raise ValueError(f"not a line of /proc/PID/stat: {content[:60]!r}")
    rest = content[closing + 1 :].split()
    if len(rest) < 50:
        raise ValueError(f"/proc/PID/stat has {len(rest) + 2} fields, 52 were expected: {content[:60]!r}")
    return Stat(
        pid=int(content[:opening]),
        name=content[opening + 1 : closing].decode("utf-8", "backslashreplace"),
        state=rest[0].decode("ascii"),
        ppid=int(rest[1]),
        group=int(rest[2]),
        session=int(rest[3]),
        threads=int(rest[17]),
        start_ticks=int(rest[19]),
        cpu_seconds=(int(rest[11]) + int(rest[12])) / TICKS_PER_SECOND,
        has_exec_ed=not int(rest[6]) & _FORKED_NO_EXEC,
        wait_status=int(rest[49]),
    )


def read_stat(pid: int) -> Stat | None:
    """The process's line of /proc, or None when it is gone or hidden from this user."""
    content = read_small(f"/proc/{pid}/stat")
    return None if content is None else parse_stat(content)


def parse_command(content: bytes) -> list[str] | None:
    """The arguments in ``/proc/PID/cmdline``; None for a zombie or a kernel thread, which have none.

    A process may overwrite its own (setproctitle): then it is one string with padding behind it.
    """
    text = content.rstrip(b"\0")
    if not text:
        return None
    return [part.decode("utf-8", "backslashreplace") for part in text.split(b"\0")]


def read_command(pid: int) -> list[str] | None:
    """The process's arguments; None when it is gone, hidden, a zombie or a kernel thread."""
    content = read_small(f"/proc/{pid}/cmdline")
    return None if content is None else parse_command(content)


def parse_peak_memory(content: bytes) -> int | None:
    """Bytes of ``VmHWM`` in ``/proc/PID/status``: the most it ever held in memory; None for a zombie."""
    for text in content.splitlines():
        if text.startswith(b"VmHWM:"):
            return int(text.split()[1]) * 1024
    return None


def read_peak_memory(pid: int) -> int | None:
    """The most memory that the process's present program ever held; None when that can't be read any more."""
    content = read_small(f"/proc/{pid}/status")
    return None if content is None else parse_peak_memory(content)


def started_at(start_ticks: int) -> float:
    """Seconds since the epoch at which a process with these ticks started.

    Not by /proc's ``btime``, which is whole seconds only.
    """
    since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.time() - since_boot + start_ticks / TICKS_PER_SECOND


def all_pids() -> list[int]:
    """The processes that this user can see in this PID namespace, without their threads."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def read_small(path: str) -> bytes | None:
    """A file of /proc, or None when its process is gone (ENOENT, ESRCH) or not for us (EACCES)."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        parts = []
        # /proc/PID/cmdline can be megabytes; a read of /proc stops at a page at the latest.
        while part := os.read(descriptor, 65536):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(descriptor)
