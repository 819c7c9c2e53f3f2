"""Memory of this process, as Linux counts it; nothing elsewhere."""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def forget_peak() -> None:
    """Let the peak begin anew: loading weights takes more for a moment than having them."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")


def resident(what: str = "VmRSS") -> int:
    """Bytes resident now (``VmRSS``), or at most so far (``VmHWM``); 0 where that isn't known."""
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith(what):
                return int(line.split()[1]) * 1024
    return 0


def give_back() -> None:
    """Return to the system what the allocator keeps after a load; glibc would hold a third of a tokenizer's process."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
