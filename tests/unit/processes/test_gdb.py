"""Whether gdb may run something in a process."""

from __future__ import annotations

import pytest

from harness.processes.gdb import judge

TILES, PLAIN = "flags\t\t: fpu sse avx512f amx_bf16 amx_tile amx_int8\n", "flags\t\t: fpu sse avx512f\n"


@pytest.mark.parametrize(
    ("version", "flags", "fit"),
    [
        ("GNU gdb (Debian 13.1-3) 13.1", TILES, False),
        ("GNU gdb (Ubuntu 12.1-0ubuntu1~22.04.2) 12.1\nCopyright", TILES, False),
        ("GNU gdb (GDB) Red Hat Enterprise Linux 10.2-13.0.1.el9", TILES, False),
        ("GNU gdb (GDB) 14.2", TILES, True),
        ("GNU gdb (Debian 16.3-1) 16.3", TILES, True),
        ("GNU gdb (Debian 13.1-3) 13.1", PLAIN, True),
        ("", TILES, True),
    ],
)
def test_an_old_gdb_may_not_on_a_processor_with_tiles(version: str, flags: str, fit: bool) -> None:
    assert (judge(flags, version) == "") is fit
