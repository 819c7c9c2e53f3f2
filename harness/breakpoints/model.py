"""What is known of the processes that can be debugged, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Worker:
    """A process of the cluster: a worker or a driver.

    Attributes:
        role: ``worker``, ``driver``, ``areal`` or ``process``.
        paused_threads: threads that wait for a debugger, as Ray counts them.
        debugger_port: where debugpy listens; 0 before the first breakpoint.
        actor: class of the actor that lives in it, and its name where it has one.
        task: name of the task that runs in it, "" while idle.
        status: what the process itself says (breakpoints/inside/status.py); None where it can't be asked.
        problem: why it can't be asked.
        begins: it stands in debugpy until a client comes, and runs on at once then.
        place: file, line and function that wait there; None before the first line of all.
    """

    ip: str
    pid: int
    worker_id: str = ""
    node_id: str = ""
    role: str = "worker"
    debugger_port: int = 0
    paused_threads: int = 0
    actor: str = ""
    actor_name: str = ""
    task: str = ""
    status: Mapping[str, Any] | None = None
    problem: str = ""
    begins: bool = False
    place: tuple[str, int, str] | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        base = self.task or self.actor or self.role
        return f"{base} ({self.actor_name})" if self.actor_name else base

    @property
    def rank(self) -> int | None:
        """Its rank in torch.distributed."""
        found = (self.status or {}).get("rank")
        return int(found) if found is not None else None

    @property
    def attached(self) -> bool:
        """Whether a debugger is attached now."""
        return bool(((self.status or {}).get("debugger") or {}).get("attached"))


@dataclass(frozen=True)
class Paused:
    """One thread that waits for a debugger, or a process that one holds.

    Attributes:
        number: what ``SESSION=`` takes; stays the same for a worker as long as it is known.
        since: seconds since the epoch; None where the process can't be asked.
        exception: type and message, if it stands still after an uncaught exception.
        state: ``waits`` for a debugger, or ``attached``: one holds it.
        delays: what else stands still or runs into a time-out meanwhile.
    """

    number: int
    worker: Worker
    file: str = ""
    line: int = 0
    function: str = ""
    thread: str = ""
    since: float | None = None
    exception: str | None = None
    state: str = "waits"
    delays: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        worker = self.worker
        return {
            "session": self.number,
            "state": self.state,
            "name": worker.name,
            "role": worker.role,
            "rank": worker.rank,
            "node": worker.ip,
            "node_id": worker.node_id,
            "pid": worker.pid,
            "worker_id": worker.worker_id,
            "debugger": {"host": worker.ip, "port": worker.debugger_port},
            "file": self.file,
            "line": self.line,
            "function": self.function,
            "thread": self.thread,
            "since": self.since,
            "exception": self.exception,
            "delays": list(self.delays),
        }
