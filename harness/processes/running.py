"""Reading a run's folder: while it runs, after its end, and after its supervisor was killed.

The supervisor holds a lock on a file in the folder for as long as it lives. The kernel takes the lock away from a dead
one, whatever it died of, and everybody sees it who sees the folder: also from outside the container, where the
supervisor's pid means nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from harness.errors import NoSuchRun
from harness.places import write_whole
from harness.processes.ledger import FILE as LEDGER
from harness.processes.record import ProcessRecord, RunRecord, Supervisor
from harness.processes.stat import read_stat
from harness.processes.tree import descendants_of, is_running, read_stats

RUNNING, RESULT, LOCK = "running.json", "result.json", "supervisor.lock"

_NO_LOCKS_HERE = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


@dataclass(frozen=True)
class RunState:
    """How a run stands.

    Attributes:
        state: "died" when the supervisor is gone and left no result: killed, or the machine went down.
        record: the last that is known.
        survivors: pids of the command's processes that go on without their supervisor; None where their numbers mean
            nothing to us (another PID namespace); empty unless it died.
    """

    state: Literal["running", "ended", "died"]
    record: RunRecord
    survivors: list[int] | None


class Lock:
    """The supervisor's sign of life.

    Args:
        folder: the run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK
        # Not inherited by the command: a lock lives until the last copy of its descriptor is closed.
        self._descriptor: int | None = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
            self.release()  # readers then go by pid and start time

    def release(self) -> None:
        """Give it back; the file goes with it."""
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None


def identity() -> Supervisor:
    """This process, so that it can be told from any other, also after a reboot or from another PID namespace."""
    stat = read_stat(os.getpid())
    return Supervisor(
        pid=os.getpid(), start_ticks=stat.start_ticks if stat else 0, boot=_boot(), pid_namespace=_pid_namespace()
    )


def write(path: Path, record: RunRecord) -> None:
    """Write a record so that readers see the old one or the new one, never a half."""
    write_whole(path, record.model_dump_json(indent=2) + "\n")


def read_run(folder: Path) -> RunState:
    """How the run in this folder stands.

    Raises:
        NoSuchRun: there is no run of ours in it, or its record can't be read.
    """
    ended = _read(folder / RESULT)
    if ended is not None:
        return RunState("ended", ended, [])
    record = _read(folder / RUNNING)
    alive = record is not None and _supervisor_lives(folder, record.supervisor)
    # It may have ended between the two looks.
    ended = _read(folder / RESULT)
    if ended is not None:
        return RunState("ended", ended, [])
    if record is None:
        raise NoSuchRun(f"{folder} holds no run: neither {RESULT} nor {RUNNING} is in it.")
    if alive:
        return RunState("running", record, [])
    add_ended(folder, record)
    return RunState("died", record, _survivors(record))


def _read(path: Path) -> RunRecord | None:
    try:
        return RunRecord.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError, UnicodeDecodeError) as error:
        raise NoSuchRun(f"{path} can't be read: {str(error).splitlines()[0]}.") from None


def _supervisor_lives(folder: Path, supervisor: Supervisor) -> bool:
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        # No lock file: this file system has no locks. Then the pid decides, where it means something.
        return _same_namespace(supervisor) and is_running(supervisor.pid, supervisor.start_ticks)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)


def add_ended(folder: Path, record: RunRecord) -> None:
    """Take over from the list of ended processes what a running record doesn't know: it names the living only."""
    known = {(process.pid, process.start_ticks): index for index, process in enumerate(record.processes)}
    try:
        lines = (folder / LEDGER).read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    # Of millions only the last are of interest here; the file has them all.
    for line in lines[-len(known) - 1000 :]:
        try:
            process = ProcessRecord.model_validate_json(line)
        except ValidationError:
            continue  # the last line of a supervisor killed in the middle of it
        index = known.get((process.pid, process.start_ticks))
        if index is None:
            record.processes.append(process)
        else:
            record.processes[index] = process


def _survivors(record: RunRecord) -> list[int] | None:
    if not _same_namespace(record.supervisor):
        return None
    roots = [
        process.pid
        for process in record.processes
        if process.ended is None and is_running(process.pid, process.start_ticks)
    ]
    return sorted({*roots, *descendants_of(roots, read_stats())})


def _same_namespace(supervisor: Supervisor) -> bool:
    return supervisor.boot == _boot() and supervisor.pid_namespace == _pid_namespace()


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _pid_namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0
