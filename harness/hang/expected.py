"""Which ranks should be there, by what those that are there were told, and what became of the others; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.processes.sampling.model import ProcessEntry

if TYPE_CHECKING:
    from harness.processes.record import ProcessRecord

_LOOPBACK = ("127.", "localhost", "::1", "[::1]")
_SIGNALS = {"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8,
            "SIGKILL": 9, "SIGSEGV": 11, "SIGPIPE": 13, "SIGTERM": 15}  # fmt: skip


def world_size(entries: Sequence[ProcessEntry]) -> int | None:
    """Ranks that the job should have; None where nobody was told."""
    return max((entry.world_size or 0 for entry in entries), default=0) or None


def missing_ranks(entries: Sequence[ProcessEntry]) -> list[ProcessEntry]:
    """Ranks that should be on the nodes that were asked, and are not.

    A rank on a node that nobody asked isn't missing. So only those count that a node's own ranks call for: their
    number on the node, or a store on the loopback, which no other node could reach.
    """
    absent: list[ProcessEntry] = []
    for job in dict.fromkeys(entry.job for entry in entries if entry.role == "rank"):
        ranks = [entry for entry in entries if entry.role == "rank" and entry.job == job]
        size = world_size(ranks) or 0
        known = {entry.rank for entry in ranks}
        expected: dict[int, ProcessEntry] = {}
        for entry in ranks:
            if entry.rank is not None and job.startswith(_LOOPBACK):
                expected |= dict.fromkeys(range(size), entry)
            elif entry.rank is not None and entry.local_rank is not None and entry.local_world_size:
                first = entry.rank - entry.local_rank
                expected |= dict.fromkeys(range(first, min(first + entry.local_world_size, size)), entry)
        absent += [
            ProcessEntry(
                id=f"rank{rank}", role="rank", rank=rank, world_size=size, job=job, missing=True,
                ppid=like.ppid, host=like.host, container=like.container, command=like.command,
            )
            for rank, like in sorted(expected.items())
            if rank not in known
        ]  # fmt: skip
    return absent


def recognise_zombies(entries: list[ProcessEntry], absent: list[ProcessEntry]) -> None:
    """A zombie has no environment left that names its rank; where as many are missing as ended beside it, it is one.

    Both lists are changed: the zombie takes the missing one's place.
    """
    for parent in dict.fromkeys((entry.host, entry.container, entry.ppid) for entry in absent):
        wanted = [entry for entry in absent if (entry.host, entry.container, entry.ppid) == parent]
        zombies = [e for e in entries if e.state == "Z" and (e.host, e.container, e.ppid) == parent and e.rank is None]
        # A launcher starts them in the order of their ranks.
        zombies.sort(key=lambda entry: entry.start_ticks)
        if len(zombies) != len(wanted):
            continue
        for zombie, rank in zip(zombies, wanted, strict=True):
            zombie.id, zombie.role, zombie.rank = rank.id, "rank", rank.rank
            zombie.world_size, zombie.job = rank.world_size, rank.job
            absent.remove(rank)


def add_ended(
    entries: list[ProcessEntry], absent: list[ProcessEntry], records: Sequence[ProcessRecord], shown: str
) -> list[ProcessEntry]:
    """What `make run` kept about processes that have ended: the missing ranks' exit codes, and others that failed.

    Args:
        records: of a run to which some of the entries belong.
        shown: the run's folder, as it is named to people.

    Returns:
        Entries for ended processes that are no missing rank.
    """
    ended = [record for record in records if record.ended is not None]
    left = list(ended)
    for command in dict.fromkeys(entry.command for entry in absent):
        wanted = [entry for entry in absent if entry.command == command]
        alike = [record for record in ended if record.command == command]
        alike.sort(key=lambda record: record.start_ticks)
        if len(alike) != len(wanted):
            continue
        for entry, record in zip(wanted, alike, strict=True):
            entry.pid, entry.exit_code = record.pid, _exit_code(record)
            entry.missing = entry.exit_code is None
            left.remove(record)
    living = {entry.command for entry in entries}
    return [
        ProcessEntry(
            pid=record.pid, ppid=record.parent, command=record.command or record.name, exit_code=_exit_code(record),
            error=f"ended; {shown} has its record",
        )
        for record in left
        # A failed helper of some library is no party; who runs the same program as those that hang may be one.
        if record.failed and record.command in living
    ]  # fmt: skip


def _exit_code(record: ProcessRecord) -> int | None:
    """As Python's subprocess has it: minus the signal's number."""
    if record.signal is not None:
        return -_SIGNALS.get(record.signal, 9)
    return record.exit_code
