"""How a process ended, and from where that can be known without being its parent and without tracing it.

A tracer would know everything, but a process has room for one tracer only, and that place belongs to py-spy, gdb or
debugpy. Three sources are left:

* its parent's wait. Orphans become our own children (``PR_SET_CHILD_SUBREAPER``), so for them we are the parent;
* its zombie: from its end until its parent asks, ``/proc/PID/stat`` holds the status. A pidfd wakes us at the end,
  the parent is woken at the same moment, and who comes first is luck;
* a pidfd that we opened while the process lived: from Linux 6.15 on it tells the status even after the parent asked
  (``PIDFD_GET_INFO`` with ``PIDFD_INFO_EXIT``). This works inside a container with all capabilities dropped.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
from dataclasses import dataclass
from typing import Literal

from harness.processes.stat import Stat

Source = Literal["wait", "zombie", "pidfd"]

# _IOWR(0xFF, 11, struct pidfd_info) with the structure's first, 64 bytes long version (include/uapi/linux/pidfd.h):
# mask and cgroup (u64), eleven u32 of which the first two are pid and tgid, and the exit status (s32) at the end.
_PIDFD_GET_INFO = 0xC040FF0B
_PIDFD_INFO = struct.Struct("=QQ11Ii")
_PIDFD_INFO_EXIT = 1 << 3

UNKNOWN_REAPED = (
    "its parent asked for the exit status first, and this kernel ({release}) keeps it no longer than that "
    "(Linux 6.15 and later do)"
)
UNKNOWN_FORBIDDEN = "it ran as another user, whose processes' exit status can't be read"
UNKNOWN_NO_PIDFD = "no handle on it could be had ({why}), and its parent asked for the exit status first"


@dataclass(frozen=True)
class Exit:
    """How a process ended.

    Attributes:
        code: what it passed to exit(); None when a signal ended it.
        signal: the signal's number; None when it exited by itself.
        source: from where this is known.
    """

    code: int | None
    signal: int | None
    core_dumped: bool
    source: Source

    @property
    def status(self) -> int:
        """The code a shell would show: 128 and the signal's number when it was killed."""
        if self.signal is not None:
            return 128 + self.signal
        return self.code if self.code is not None else 0


def from_wait_status(status: int, source: Source) -> Exit:
    """Read a status as waitpid gives it."""
    if os.WIFSIGNALED(status):
        return Exit(None, os.WTERMSIG(status), os.WCOREDUMP(status), source)
    return Exit(os.WEXITSTATUS(status), None, False, source)


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; real-time signals have no name of their own here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def of_zombie(stat: Stat) -> Exit | None:
    """The status in a zombie's stat line; None when it is no zombie or not for us to read."""
    if not stat.is_zombie:
        return None
    # Where we may not look, the field reads 0; so anything else needs no asking (its parent may reap it meanwhile).
    if stat.wait_status == 0 and not may_read_status(stat.pid):
        return None
    return from_wait_status(stat.wait_status, "zombie")


def may_read_status(pid: int) -> bool:
    """Whether ``/proc/PID/stat`` shows us the exit status: where it doesn't, it shows 0, which looks like success.

    The kernel asks the same question (may we look into the process?) when this link is read, but there it refuses
    openly. Most other files that ask it can't be opened for a zombie at all, for a zombie's belong to root.
    """
    try:
        os.readlink(f"/proc/{pid}/ns/user")
        return True
    except OSError:
        return False


def of_pidfd(pidfd: int) -> Exit | None:
    """The status of a process that is gone, from a pidfd opened while it lived; None where the kernel doesn't tell."""
    buffer = bytearray(_PIDFD_INFO.size)
    _PIDFD_INFO.pack_into(buffer, 0, _PIDFD_INFO_EXIT, *[0] * 13)
    try:
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, buffer)
    except OSError:
        return None  # ENOTTY before 6.13, ESRCH on 6.13 and 6.14
    mask, *_, status = _PIDFD_INFO.unpack(buffer)
    return from_wait_status(status, "pidfd") if mask & _PIDFD_INFO_EXIT else None


def open_pidfd(pid: int) -> int | None:
    """A handle on a process; None when the number is a thread's.

    Raises:
        ProcessLookupError: nobody has this number (any more).
        PermissionError: a seccomp profile forbids it, or the kernel is older than 5.3.
        OSError: no descriptor is left.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            raise PermissionError(error.errno, "pidfd_open is not permitted here") from None
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        return None  # EINVAL or, from 6.16 on, ENOENT
