"""What may be seen of a process by who may trace it, but may not open its files of /proc.

A probe is root with CAP_SYS_PTRACE alone. ``/proc/PID/environ``, ``fd`` and ``mem`` belong to the process's own user
and are closed to it, for opening them as another user takes a capability over files. The kernel's calls for debuggers
ask for the right to trace and nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from collections.abc import Iterator
from typing import TypeVar

_PIDFD_GETFD = 438  # the same on all architectures
_LARGEST_ENVIRONMENT = 1 << 20
_MOST_DESCRIPTORS = 65_536


class _Piece(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("length", ctypes.c_size_t)]  # so ctypes wants it


_Memory = TypeVar("_Memory", bound="Memory")  # typing.Self came with Python 3.11, and this runs on 3.10 as well


def memory(pid: int, address: int, length: int) -> bytes:
    """A piece of its memory; shorter where less is mapped, b"" where nothing is or it isn't for us."""
    if length <= 0 or address < 0:
        return b""
    here = ctypes.create_string_buffer(length)
    near, far = _Piece(ctypes.addressof(here), length), _Piece(address, length)
    count = _libc().process_vm_readv(pid, ctypes.byref(near), 1, ctypes.byref(far), 1, 0)
    return here.raw[: max(0, count)]


class Memory:
    """A process's memory, by whichever of the two ways is open: its file, or the call for debuggers."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        try:
            self._descriptor: int | None = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._descriptor = None

    def __enter__(self: _Memory) -> _Memory:
        return self

    def __exit__(self, *error: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def read(self, address: int, length: int) -> bytes:
        """A piece of it; shorter where less is mapped, b"" where nothing is or it isn't for us."""
        try:
            if self._descriptor is None:
                return memory(self._pid, address, length)
            return os.pread(self._descriptor, length, address)
        except (OSError, OverflowError):
            return b""


def environment(stat: bytes, pid: int) -> bytes:
    """What ``/proc/PID/environ`` would give, by the addresses in ``/proc/PID/stat``."""
    fields = stat[stat.rfind(b")") + 2 :].split()
    if len(fields) < 49:
        return b""
    start, end = int(fields[47]), int(fields[48])
    return memory(pid, start, min(end - start, _LARGEST_ENVIRONMENT))


def listens(pid: int, table_size: int) -> bool:
    """Whether one of its sockets waits for connections from a network.

    Args:
        table_size: how many descriptors it has room for (``FDSize`` of its status).
    """
    return any(_waits(descriptor) for descriptor in _borrowed(pid, table_size))


def _borrowed(pid: int, table_size: int) -> Iterator[int]:
    """Each of its descriptors as one of ours, until the next."""
    try:
        process = os.pidfd_open(pid)
    except OSError:
        return
    try:
        for number in range(min(table_size, _MOST_DESCRIPTORS)):
            ours = _libc().syscall(_PIDFD_GETFD, process, number, 0)
            if ours >= 0:
                try:
                    yield ours
                finally:
                    os.close(ours)
    finally:
        os.close(process)


def _waits(descriptor: int) -> bool:
    with contextlib.suppress(OSError):
        opened = socket.socket(fileno=descriptor)
        try:
            if opened.family in (socket.AF_INET, socket.AF_INET6):
                return bool(opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        finally:
            opened.detach()
    return False


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
