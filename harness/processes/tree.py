"""All processes of this PID namespace, and who descends from whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harness.processes.stat import Stat, all_pids, read_command, read_stat, started_at


@dataclass(frozen=True)
class Process:
    """A process as it was at one moment.

    Attributes:
        command: its arguments; None for zombies and kernel threads, which have none.
        started: seconds since the epoch.
    """

    stat: Stat
    command: list[str] | None
    started: float

    @property
    def pid(self) -> int:
        """Its number in this PID namespace."""
        return self.stat.pid


@dataclass
class Node:
    """A process with the processes it started."""

    process: Process
    children: list[Node] = field(default_factory=list)


def read_stats(pids: Iterable[int] | None = None) -> dict[int, Stat]:
    """The stat lines of these processes, or of all; those that are gone meanwhile are left out."""
    found: dict[int, Stat] = {}
    for pid in all_pids() if pids is None else pids:
        stat = read_stat(pid)
        if stat is not None:
            found[pid] = stat
    return found


def descendants_of(roots: Iterable[int], stats: Mapping[int, Stat]) -> list[int]:
    """Who descends from one of the roots, parents before their children; the roots themselves are not named."""
    children: dict[int, list[int]] = {}
    for stat in stats.values():
        children.setdefault(stat.ppid, []).append(stat.pid)
    taken = set(roots)
    found: list[int] = []
    queue = sorted(taken)
    # Breadth first. `taken` also guards against a circle, which a pid that was given anew between two reads can fake.
    while queue:
        following: list[int] = []
        for parent in queue:
            for pid in sorted(children.get(parent, ())):
                if pid not in taken:
                    taken.add(pid)
                    following.append(pid)
        found += following
        queue = following
    return found


def read_process(pid: int) -> Process | None:
    """What can be seen of one process now; None when it is gone."""
    stat = read_stat(pid)
    return None if stat is None else Process(stat, read_command(pid), started_at(stat.start_ticks))


def descendants(pid: int) -> list[Process]:
    """Every process below this one, parents first; one that ends while we look may be missing."""
    found = (read_process(child) for child in descendants_of([pid], read_stats()))
    return [process for process in found if process is not None]


def build_tree(processes: Iterable[Process]) -> list[Node]:
    """Put processes under their parents; those whose parent is not among them are roots."""
    nodes = {process.pid: Node(process) for process in processes}
    roots: list[Node] = []
    for pid in sorted(nodes):
        node = nodes[pid]
        parent = nodes.get(node.process.stat.ppid)
        # A process can't be older than its parent; where it is, the parent's pid was given anew.
        if parent is None or parent is node or parent.process.stat.start_ticks > node.process.stat.start_ticks:
            roots.append(node)
        else:
            parent.children.append(node)
    return roots


def is_running(pid: int, start_ticks: int) -> bool:
    """Whether this very process still runs: not another with its number, and not its zombie."""
    stat = read_stat(pid)
    return stat is not None and stat.start_ticks == start_ticks and not stat.is_zombie
