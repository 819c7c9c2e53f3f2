"""The kernel's table of locks, and who has one that somebody waits for."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from harness.processes.sampling.file_locks import holder_of, waited_for

TABLE = """\
1: POSIX  ADVISORY  READ  900 08:01:100 128 128
2: FLOCK  ADVISORY  WRITE 77 08:01:393449 0 EOF
2: -> FLOCK  ADVISORY  WRITE 21096 08:01:393449 0 EOF
3: OFDLCK ADVISORY  WRITE -1 00:2d:5 0 EOF
"""


def test_who_waits_and_who_has_it() -> None:
    assert waited_for(TABLE, 21096) == (77, 393449)
    assert waited_for(TABLE, 77) is None
    assert waited_for("2: -> FLOCK ADVISORY WRITE 5 08:01:9 0 EOF\n", 5) == (0, 9)
    assert waited_for("nonsense\n: ->\n", 5) is None


def test_a_holder_elsewhere_is_nobody_that_could_be_named() -> None:
    assert holder_of(5, "2: -> FLOCK ADVISORY WRITE 5 08:01:9 0 EOF\n") == ""


def test_command_and_file_are_told(tmp_path: Path) -> None:
    path = tmp_path / "model.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        inode = os.fstat(file.fileno()).st_ino
        table = f"1: FLOCK ADVISORY WRITE {os.getpid()} 08:01:{inode} 0 EOF\n"
        table += f"1: -> FLOCK ADVISORY WRITE {os.getpid()} 08:01:{inode} 0 EOF\n"
        said = holder_of(os.getpid(), table)
    assert said.startswith(f"process {os.getpid()} (")
    assert said.endswith(f"has {path}")


def test_the_kernel_s_own_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    program = f"import fcntl; f = open({str(path)!r}, 'w'); print('r', flush=True); fcntl.flock(f, fcntl.LOCK_EX)"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as waiter:
            assert waiter.stdout is not None
            waiter.stdout.readline()
            try:
                for _ in range(2000):
                    if (said := holder_of(waiter.pid)) or waiter.poll() is not None:
                        break
                assert f"process {os.getpid()} (" in said
                assert said.endswith(str(path))
            finally:
                waiter.kill()
