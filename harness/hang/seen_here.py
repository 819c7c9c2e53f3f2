"""Under which number whoever types sees a process that somebody else sampled: in a container it has another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.hang.model import Process
from harness.processes.sampling import facts
from harness.processes.sampling.model import ProcessEntry
from harness.processes.stat import all_pids, read_stat

# PID namespace, number in there, clock ticks from boot to start.
Identity = tuple[int, int, int]


def mark(entries: Sequence[ProcessEntry], processes: Sequence[Process]) -> None:
    """Tell each process of a dump its number here; 0 where it can't be seen from here."""
    inside = {_identity(entry) for entry in entries if entry.container and not entry.missing}
    if inside:
        tell(entries, processes, _numbers({identity[0] for identity in inside}))


def tell(entries: Sequence[ProcessEntry], processes: Sequence[Process], numbers: Mapping[Identity, int]) -> None:
    """The same with the numbers at hand; pure."""
    for entry, process in zip(entries, processes, strict=True):
        if entry.container:
            process.here = numbers.get(_identity(entry), 0)


def _identity(entry: ProcessEntry) -> Identity:
    return entry.pid_namespace, entry.own_pid, entry.start_ticks


def _numbers(namespaces: set[int]) -> dict[Identity, int]:
    found: dict[Identity, int] = {}
    for pid in all_pids():
        namespace = facts.pid_namespace(pid)
        if namespace not in namespaces or (stat := read_stat(pid)) is None:
            continue
        found[namespace, facts.own_pid(facts.status_fields(pid)), stat.start_ticks] = pid
    return found
