"""Which ranks should be there, by what those that are there were told; pure."""

from __future__ import annotations

from collections.abc import Sequence

from harness.processes.sampling.model import ProcessEntry

_LOOPBACK = ("127.", "localhost", "::1", "[::1]")


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
                host=like.host, container=like.container,
            )
            for rank, like in sorted(expected.items())
            if rank not in known
        ]  # fmt: skip
    return absent
