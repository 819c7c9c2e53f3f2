"""All processes of a dump as the rules see them: in groups that stand alike, and sorted by what they are for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from harness.hang import awaits
from harness.hang import standing as standings
from harness.hang.groups import HALTED, Group, kind_of_command
from harness.hang.model import Dump, Hint, Process
from harness.hang.recorded import Finding as RecordedFinding
from harness.hang.recorded import compare
from harness.hang.standing import Standing
from harness.hang.waits import COMMUNICATION, JOINED

# What sets groups apart beside their stacks.
_TELLING = ("role", "progress", "busy", "moves_bytes", "state", "on_file_lock", "listens", "wakes", "slept")
# Where the kernel has a thread that waits for a lock on a file.
_FILE_LOCK_CHANNELS = re.compile(r"flock|locks_lock|posix_lock|fcntl_setlk")


@dataclass
class Scene:
    """What the rules look at.

    Attributes:
        gone: expected or known processes that can't take part any more.
        inferred: ids in ``gone`` that were concluded from a gap in the ranks, not looked for.
        unread: processes that are there but could not be sampled.
        unasked: ranks on machines or in containers that nobody looked into; they may well live.
    """

    dump: Dump
    groups: list[Group]
    gone: list[Process]
    inferred: set[str]
    unread: list[Process]
    unasked: list[int] = field(default_factory=list)

    @cached_property
    def peers(self) -> list[Group]:
        """The parties of collectives: ranks; without ranks whatever communicates, its like, and members of groups."""
        ranks = self.of_role("rank")
        if ranks:
            return ranks
        speaking = [group for group in self.groups if group.role != "child" and group.kind in COMMUNICATION]
        commands = {kind_of_command(process) for group in speaking for process in group.members} - {""}
        alike = [
            group
            for group in self.groups
            if group.role not in ("child", "launcher") and commands & {kind_of_command(p) for p in group.members}
        ]
        grouped = [group for group in self.groups if _in_group(group)]
        if any(_in_group(group) for group in speaking):
            alike += [group for group in grouped if group.role not in ("child", "launcher")]
        return [group for group in self.groups if group in speaking or group in alike]

    @cached_property
    def waiting(self) -> list[Group]:
        """Peers in communication."""
        return [group for group in self.peers if group.kind in COMMUNICATION and not group.halted]

    @cached_property
    def off(self) -> list[Group]:
        """Peers that are somewhere else."""
        return [group for group in self.peers if group.kind not in COMMUNICATION and not group.halted]

    @cached_property
    def joined(self) -> list[Group]:
        """Peers in a collective or a point-to-point call."""
        return [group for group in self.waiting if group.kind in JOINED]

    @cached_property
    def others(self) -> list[Group]:
        """Groups that are no peers."""
        return [group for group in self.groups if group not in self.peers]

    @cached_property
    def children(self) -> list[Group]:
        """Data workers and other children of ranks or of the driver."""
        return self.of_role("child")

    @cached_property
    def recorded(self) -> RecordedFinding | None:
        """What the Flight Recorders say together."""
        return compare(self.dump.recordings) if self.dump.recordings else None

    @property
    def sampled_twice(self) -> bool:
        """Whether two samples can tell stuck from slow."""
        return any(group.progress for group in self.groups)

    def of_role(self, *roles: str) -> list[Group]:
        """Groups of these roles."""
        return [group for group in self.groups if group.role in roles]

    def having(self, *kinds: str) -> list[Group]:
        """Groups that wait for one of these."""
        return [group for group in self.groups if group.kind in kinds]

    def hints(self, *kinds: str) -> list[Hint]:
        """What the logs say of these kinds; of all of them where none is named."""
        return [hint for hint in self.dump.hints if not kinds or hint.kind in kinds]

    def children_of(self, groups: Iterable[Group]) -> list[Group]:
        """Groups of children with an owner in these groups."""
        owners = {process.id for group in groups for process in group.members}
        return [group for group in self.children if any(child.owner in owners for child in group.members)]


def _in_group(group: Group) -> bool:
    return any(process.backends for process in group.members)


def build(dump: Dump) -> Scene:
    """Sort a dump's processes into groups."""
    groups: dict[object, Group] = {}
    gone: list[Process] = []
    unread: list[Process] = []
    for process in dump.processes:
        if process.gone:
            gone.append(process)
            continue
        standing = standings.of_threads(process.threads)
        if standing is None:
            unread.append(process)
            continue
        group = _group(process, standing)
        key = (process.threads, kind_of_command(process), *(getattr(group, name) for name in _TELLING))
        group = groups.setdefault(key, group)
        group.members.append(process)
    for group in groups.values():
        group.awaited = awaits.of(dump, group.ids)
    _doubt_services(list(groups.values()))
    absent = _absent_ranks(dump)
    unasked = _unasked(dump, absent)
    inferred = [rank for rank in absent if rank not in unasked]
    gone += [Process(id=f"rank{rank}", role="rank", rank=rank, missing=True) for rank in inferred]
    return Scene(dump, list(groups.values()), gone, {f"rank{rank}" for rank in inferred}, unread, sorted(unasked))


def _doubt_services(groups: list[Group]) -> None:
    """A rank listens for its group's sake; while others wait in a collective, that makes it no service."""
    ranks = [group for group in groups if group.role == "rank"]
    if any(group.kind in COMMUNICATION for group in ranks):
        for group in ranks:
            group.listens = False


def _group(process: Process, standing: Standing) -> Group:
    """The group of one process; it joins another that is alike."""
    # A dumper that doesn't stop a process may take a thread that sleeps for one that runs.
    slept = standing.active and standings.slept(process)
    return Group(
        role=process.role,
        standing=standings.at_rest(standing) if slept else standing,
        progress=standings.progress(process),
        busy=standings.is_busy(process),
        moves_bytes=standings.moves_bytes(process),
        state=process.state if process.state in (*HALTED, "D") else "",
        on_file_lock=bool(process.wchan and _FILE_LOCK_CHANNELS.search(process.wchan)),
        listens=process.listens,
        wakes=(standing.wait.kind == "loop" or process.role == "child") and standings.wakes(process),
        slept=slept,
    )


def _absent_ranks(dump: Dump) -> list[int]:
    """Ranks that the world size, the logs or a gap in the numbers call for, and that nobody dumped."""
    known = {process.rank for process in dump.processes if process.rank is not None and process.role == "rank"}
    if not known:
        return []
    said = [hint.numbers["world"] for hint in dump.hints if "world" in hint.numbers]
    listed = [len(ranks) for recording in dump.recordings for ranks in recording.members.values()]
    size = dump.world_size or max([*said, *listed, 0])
    # A dump of a few ranks of many is a choice of whoever made it; one or two holes in a row of ranks are not.
    if not size:
        size = max(known) + 1
        if len(known) < 2 or size - len(known) > max(1, len(known) // 4):
            return []
    if size > 1_000_000 or (len(known) * 2 < size and not dump.world_size):
        return []
    return [rank for rank in range(size) if rank not in known]


def _unasked(dump: Dump, absent: list[int]) -> set[int]:
    """Those ranks that are on nodes which nobody looked into, by what the others' launchers told them."""
    ranks = [process for process in dump.processes if process.role == "rank" and process.rank is not None]
    looked_into: set[int] = set()
    for process in ranks:
        if process.local_world_size and process.rank is not None:
            first = process.rank - (process.local_rank or 0)
            looked_into |= set(range(first, first + process.local_world_size))
    if looked_into:
        return set(absent) - looked_into
    return set(absent) if dump.unreachable else set()
