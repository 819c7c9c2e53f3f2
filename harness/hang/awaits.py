"""For what an event loop's tasks wait, and whether anything could wake them; its stack shows none of that."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from harness.hang.model import Dump, Frame, Stack
from harness.hang.waits import RUNNING, Wait, read_stack

# Nothing but what runs in the same loop ends these: other tasks, or a callback of a thread or of a socket.
_WITHIN = frozenset({"lock", "queue", "future", RUNNING})
# Waits for other tasks, which tell themselves for what they wait.
_FOR_TASKS = frozenset({"gather", "wait", "__aexit__", "_aexit"})
_TASKS = frozenset({"Task", "_GatheringFuture"})
# A loop with a timer that is due sooner may only have been met between two rounds.
_SOON_SECONDS = 30.0


@dataclass
class Awaited:
    """For what the tasks of a group's processes wait, those that wait for other tasks left out.

    Attributes:
        within: for something of the same loop.
        locks: those among them that wait for a lock or a semaphore, which somebody has and should give back.
        outside: for an answer, a connection, another process.
        threads: for a thread of the same process.
        sleeping: for a moment.
        timers, next_timer, watched: of their loops (``model.Loop``); None if they couldn't be read.
    """

    within: list[Wait] = field(default_factory=list)
    locks: list[Wait] = field(default_factory=list)
    outside: list[Wait] = field(default_factory=list)
    threads: list[Wait] = field(default_factory=list)
    sleeping: list[Wait] = field(default_factory=list)
    timers: int | None = None
    next_timer: float | None = None
    watched: int | None = None

    @property
    def wakes_soon(self) -> bool:
        """Whether a timer will go off before long, or a task says so."""
        if self.timers is None:
            return bool(self.sleeping)
        return self.next_timer is not None and self.next_timer < _SOON_SECONDS

    @property
    def stuck(self) -> bool:
        """Whether tasks wait for a lock or a slot, and nothing is on its way to free one."""
        return bool(self.locks) and self.closed

    @property
    def closed(self) -> bool:
        """Whether what its tasks wait for can come from nobody but them."""
        return bool(self.within) and not self.outside and not self.threads and not self.wakes_soon


def of(dump: Dump, ids: list[str]) -> Awaited | None:
    """What is known of the tasks of some processes; None if nothing is."""
    owners = [name for name in ids if dump.tasks.get(name)]
    if not owners:
        return None
    found = Awaited()
    counted = Counter((task.chain, task.waiting_on) for owner in owners for task in dump.tasks[owner])
    for (chain, waiting_on), number in counted.items():
        if chain and (kept := _kept_in(found, chain, waiting_on)) is not None:
            kept[0].extend([kept[1]] * number)
            if kept[1].operation.rpartition(".")[2] == "acquire":
                found.locks.extend([kept[1]] * number)
    loops = [loop for owner in owners for loop in dump.loops.get(owner, [])]
    if loops:
        due = [loop.next_timer for loop in loops if loop.next_timer is not None]
        found.timers, found.watched = sum(loop.timers for loop in loops), sum(loop.watched for loop in loops)
        found.next_timer = min(due, default=None)
    return found


def _kept_in(found: Awaited, chain: tuple[Frame, ...], waiting_on: str) -> tuple[list[Wait], Wait] | None:
    """The list that a task belongs to, and its wait; None for one that waits for other tasks, or that serves."""
    wait = read_stack(Stack(chain[::-1]))
    if wait.kind == "serve" or waiting_on in _TASKS or (wait.kind == "future" and wait.operation in _FOR_TASKS):
        return None
    if wait.kind == "sleep":
        return found.sleeping, wait
    if wait.kind == "join":
        return found.threads, wait
    return (found.within if wait.kind in _WITHIN else found.outside), wait
