"""Bounds on what reading a file may take; a dump comes from anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def at_most_more(room: int) -> Iterator[None]:
    """While this lasts, the process's address space may grow by so many bytes; beyond that is a ``MemoryError``.

    Where the system has no such limit (macOS), or a lower one holds already, nothing is changed.
    """
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        before, hard = resource.getrlimit(resource.RLIMIT_AS)
        wanted = pages * resource.getpagesize() + room
        if before != resource.RLIM_INFINITY and before <= wanted:
            raise ValueError("a lower limit holds")
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    except (ImportError, OSError, ValueError, IndexError):
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
