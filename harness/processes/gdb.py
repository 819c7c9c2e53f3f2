"""What gdb can do here: have a process run a function, or look at it only.

Processors with tile registers (Intel's AMX) have more state than gdb 13 has room for. It reads such a process, fails to
write its registers back ("Couldn't write extended state status"), and the process may end by that: seen with gdb 13.1
and Python 3.12. Since 14 it asks the kernel how much there is.
"""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache
from pathlib import Path

_KNOWS_TILES = 14


@lru_cache(maxsize=4)
def why_not(gdb: str) -> str:
    """Why nothing may be run in a process by this gdb; "" where it may."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
        said = subprocess.run([gdb, "--version"], capture_output=True, text=True, check=False, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return judge(flags, said)


def judge(flags: str, version: str) -> str:
    """The same by the processor's flags and what ``gdb --version`` prints."""
    # GNU gdb (Debian 13.1-3) 13.1
    found = re.search(r"(\d+)\.\d+\S*$", version.partition("\n")[0])
    if found is None or int(found[1]) >= _KNOWS_TILES or "amx_tile" not in flags.split():
        return ""
    return f"gdb {found[0]} can't run anything in a process on this processor, and might end it: gdb 14 can"
