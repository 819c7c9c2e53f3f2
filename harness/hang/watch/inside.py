"""The watch from inside the program that is watched: a context manager that starts ``harness hang-watch`` beside it.

A process of its own, because a thread of ours would hang with the program: when the interpreter's lock is held, when
the process is stopped.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import IO

from harness.hang.watch.quiet import seconds_of

_PR_SET_PTRACER, _ANY = 0x59616D61, ctypes.c_ulong(-1).value
_ENDING_SECONDS = 10.0


@contextlib.contextmanager
def watch(
    after: str = "10m",
    *,
    step: str = "",
    logs: str = "",
    notify: str = "",
    webhook: str = "",
    runs: str = "",
    any_standstill: bool = False,
    output: IO[str] | None = None,
) -> Iterator[None]:
    """Watch this process and what it starts for as long as the block runs; nothing is ever ended.

    Args:
        after: without progress for so long it is dumped: ``90s``, ``10m``, ``1h``.
        step, logs, notify, webhook: as the settings of ``hang-watch`` (STEP, LOGS, NOTIFY, WEBHOOK).
        any_standstill: tell also of one whose cause the stacks don't show; a service that nobody asks is left alone.
        runs: folder for results; by default where the harness keeps them.
        output: where the verdict is printed; standard error by default.

    Raises:
        BadSetting: ``after`` is no time.
    """
    seconds_of(after)
    given = {"step": step, "logs": logs, "notify": notify, "webhook": webhook}
    options = [part for name, value in given.items() if value for part in (f"--{name}", value)]
    options += ["--any-standstill"] if any_standstill else []
    environment = {**os.environ, **({"RUNS": runs} if runs else {})}
    # The watch itself is no rank, and not to be hooked into.
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        environment.pop(name, None)
    beside = subprocess.Popen(
        [sys.executable, "-m", "harness", "hang-watch", "--after", after, "--pids", str(os.getpid()), *options],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output or sys.__stderr__,
        stderr=output or sys.__stderr__,
        start_new_session=True,
    )
    _let_read_us()
    try:
        yield
    finally:
        beside.send_signal(signal.SIGTERM)
        try:
            beside.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            beside.kill()
            beside.wait()


def _let_read_us() -> None:
    """Where Yama lets a process be read by its ancestors only (``ptrace_scope`` 1), allow it for this one.

    Any process, since py-spy is one that the watch starts; of this user, as without Yama.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANY, 0, 0, 0)
