"""All processes of a dump as the rules see them: in groups that stand alike, and sorted by what they are for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from harness.hang import awaits
from harness.hang import standing as standings
from harness.hang.awaits import Awaited
from harness.hang.grouping import names
from harness.hang.model import Dump, Hint, Process
from harness.hang.recorded import Finding as RecordedFinding
from harness.hang.recorded import compare
from harness.hang.standing import Progress, Standing
from harness.hang.waits import COMMUNICATION, IDLE, JOINED, RUNNING, Wait

_HALTED = ("T", "t")
# What sets groups apart beside their stacks.
_TELLING = ("role", "progress", "busy", "moves_bytes", "state", "on_file_lock", "listens", "wakes", "slept")
# Where the kernel has a thread that waits for a lock on a file.
_FILE_LOCK_CHANNELS = re.compile(r"flock|locks_lock|posix_lock|fcntl_setlk")
# Names of functions whose program waits for something of its own; a service waits for others.
_WORKING = re.compile(
    r"train|fit|rollout|step|evaluat|generat|collect|agent|episode|sample|workflow|batch|solve|run_async", re.IGNORECASE
)
# Work of which one round after the other is what a healthy program looks like.
LONG_WORK = frozenset({"loading", "compile", "import", "checkpoint", "offload", "data"})
_FEW_CHILDREN = 4
_REWARDING = re.compile(r"reward|verif|grader|judge|sandbox|toolworker", re.IGNORECASE)


@dataclass(eq=False)
class Group:
    """Processes of one role that stand at the same lines and get on alike.

    Attributes:
        halted: the kernel has stopped it (T, t).
        blocked_in_kernel: it sleeps where no signal reaches it (D).
        busy: used a core between the samples; None where that wasn't measured.
        on_file_lock: the kernel says that they wait for a lock on a file.
        listens: they have listening sockets.
        wakes: an event loop or a child that sleeps, and was woken up again and again between the samples.
        moves_bytes: read or wrote a good deal between the samples.
        slept: none of their threads ran between the samples.
        awaited: for what the tasks of their event loops wait, if that is known.
    """

    role: str
    standing: Standing
    progress: Progress
    busy: bool | None
    moves_bytes: bool
    state: str
    on_file_lock: bool = False
    listens: bool = False
    wakes: bool = False
    slept: bool = False
    awaited: Awaited | None = None
    members: list[Process] = field(default_factory=list)

    @property
    def wait(self) -> Wait:
        """What its deciding threads wait for."""
        return self.standing.wait

    @property
    def kind(self) -> str:
        """The kind of that wait."""
        return self.wait.kind

    @cached_property
    def phases(self) -> frozenset[str]:
        """What they are about: by the deciding stack, and by what a Ray worker is called."""
        if self.kind == RUNNING and any(
            _REWARDING.search(process.command.partition(" ")[0]) for process in self.members[:1]
        ):
            return self.wait.phases | {"user-code"}
        return self.wait.phases

    @property
    def reducing(self) -> bool:
        """Whether they sleep in backward: then it is the reduction of gradients, or the device, that they wait for."""
        return (
            self.wait.operation in ("_engine_run_backward", "run_backward")
            and self.kind == RUNNING
            and self.standing.thread.active is False
        )

    @property
    def halted(self) -> bool:
        """Whether the kernel has stopped them."""
        return self.state in _HALTED

    @property
    def blocked_in_kernel(self) -> bool:
        """Whether they sleep where no signal reaches them."""
        return self.state == "D"

    @property
    def moved(self) -> bool:
        """Whether the second sample shows that they get on."""
        # An engine generates below Python, at one and the same line.
        return (
            self.progress == "moved"
            or self.moves_bytes
            or (self.role == "server" and bool(self.busy) and not self.idle)
        )

    @property
    def computes(self) -> bool:
        """Whether they use a core at one place: long work or a call without end, and nobody can see which."""
        return self.kind == RUNNING and bool(self.busy) and not self.halted

    @property
    def at_lock(self) -> bool:
        """Whether they sleep at a lock in code of their own, which no call on a stack shows."""
        asleep = self.kind == RUNNING and self.progress == "still" and not self.busy and bool(self.wait.own)
        return asleep and all(map(standings.waits_for_ever, self.members))

    @property
    def gets_on(self) -> bool:
        """Whether they work at something long: they have moved, or go round in what is known to have many rounds."""
        return self.moved or (self.progress == "looping" and bool(self.phases & LONG_WORK))

    @property
    def idle(self) -> bool:
        """Whether they have nothing to do; the sleeping event loop of a service is that, too."""
        return self.kind in IDLE or (self.kind == "loop" and (self.role == "server" or self._serves))

    @property
    def _serves(self) -> bool:
        """Whether they listen for others, and nothing tells of work of their own."""
        return self.listens and not self.works and not (self.awaited is not None and self.awaited.stuck)

    @property
    def works(self) -> bool:
        """Whether a name on the deciding stack tells of work of their own."""
        return any(_WORKING.search(frame.function) or _WORKING.search(frame.file) for frame in self.wait.own)

    @cached_property
    def ids(self) -> list[str]:
        """Who they are; members are complete by the time anybody asks."""
        return [process.id for process in self.members]

    @cached_property
    def who(self) -> str:
        """The same in few words."""
        return in_words(self.members)

    def __len__(self) -> int:
        return len(self.members)


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


def count(groups: Iterable[Group]) -> int:
    """Processes in these groups."""
    return sum(len(group) for group in groups)


def ids(groups: Iterable[Group]) -> list[str]:
    """Who is in these groups, each once."""
    return list(dict.fromkeys(name for group in groups for name in group.ids))


def members(groups: Iterable[Group]) -> list[Process]:
    """The processes of these groups."""
    return [process for group in groups for process in group.members]


def minority(groups: list[Group], key: Callable[[Group], object]) -> list[Group]:
    """The groups that stand apart from a clear majority; none where there is no majority."""
    sizes: dict[object, int] = {}
    for group in groups:
        sizes[key(group)] = sizes.get(key(group), 0) + len(group)
    total = sum(sizes.values())
    most = max(sizes.values(), default=0)
    if len(sizes) < 2 or most * 2 <= total:
        return []
    return [group for group in groups if sizes[key(group)] != most]


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
        state=process.state if process.state in (*_HALTED, "D") else "",
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


def in_words(processes: list[Process]) -> str:
    """Who they are, in few words; a rank's child isn't the rank."""
    if processes and all(process.role == "child" and process.id == process.owner for process in processes):
        owners = names(process.id for process in processes)
        numbers = [str(process.pid) for process in processes if process.pid]
        if len(set(process.id for process in processes)) > 1 or len(numbers) > _FEW_CHILDREN:
            return f"{len(processes)} children of {owners}"
        return f"{owners}'s {'child' if len(processes) == 1 else 'children'} {', '.join(numbers)}".strip()
    return names(process.id for process in processes)


def kind_of_command(process: Process) -> str:
    """Commands of processes that do the same work: the program without numbers and arguments, a Ray actor's class."""
    return _kind_of(process.command)


@lru_cache(maxsize=65536)
def _kind_of(command: str) -> str:
    head = command.split(" ")[0:3]
    if head[0].startswith("ray::"):
        head = [head[0].partition(".")[0]]
    return "".join(character for character in " ".join(head) if not character.isdigit())
