"""Processes that stand at the same lines and get on alike: what the rules look at instead of each process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from harness.hang import standing as standings
from harness.hang.awaits import Awaited
from harness.hang.grouping import names
from harness.hang.model import Process
from harness.hang.standing import Progress, Standing
from harness.hang.waits import IDLE, RUNNING, Wait

HALTED = ("T", "t")
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
        return self.state in HALTED

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
