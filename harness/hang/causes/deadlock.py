"""Threads of one process that wait for locks which they themselves, or each other, have taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.hang.causes.finding import Cause, Finding
from harness.hang.causes.late import others_wait
from harness.hang.groups import Group
from harness.hang.model import LockWait, Process
from harness.hang.scene import Scene

CAUSES = (
    Cause(
        "thread-deadlock",
        title="threads of one process wait for each other's locks",
        means="A lock is taken twice by one thread, or two threads take two locks in opposite order.",
        elsewhere="In the other function that takes the lock: one has to let go first, or both take them in one order.",
        next=(
            "make hang-dump PIDS={pid} NATIVE=1   # shows that it sleeps in a lock, below Python",
            "threading.RLock where one thread may take it twice; one order for all where there are two",
        ),
    ),
)


def deadlock(scene: Scene) -> Iterable[Finding]:
    """Locks in a circle, by what the source says of the calls on each stack."""
    for group in scene.groups:
        if group.moved or group.halted or group.role == "launcher":
            continue
        for process in group.members:
            if found := _of(process, group):
                score, sentences = found
                more = [others_wait(scene)] if scene.joined and group not in scene.joined else []
                yield Finding("thread-deadlock", score, [process.id], [*sentences, *more])


def _of(process: Process, group: Group) -> tuple[float, list[str]] | None:
    waits = process.locks
    if not waits or not _in_the_way(process, group):
        return None
    if circle := _circle(waits):
        twice = len(circle) == 1
        said = [_say(process, wait) for wait in circle]
        why = (
            "Its own call has that lock already, and it isn't one that may be taken twice."
            if twice
            else "Each has what the next one wants."
        )
        return (0.8 if twice else 0.84), [*said, why]
    if len(process.threads) == 1:
        return 0.72, [_say(process, waits[0]), "It is the only thread: nobody is left who could let that lock go."]
    return None


def _in_the_way(process: Process, group: Group) -> bool:
    """Whether its first thread waits for one, or nothing else is known of what it waits for."""
    first = any(wait.thread == "MainThread" for wait in process.locks)
    return first or group.kind in ("lock", "future", "queue", "join", "http", "loop", "ray-idle")


def _circle(waits: list[LockWait]) -> list[LockWait]:
    """Threads of which each holds what the one before wants; one alone that wants what it holds."""
    for wait in waits:
        way = [wait]
        while True:
            following = next((one for one in _holders(way[-1], waits)), None)
            if following is None:
                break
            if following in way:
                return way[way.index(following) :]
            way.append(following)
    return []


def _holders(wait: LockWait, waits: list[LockWait]) -> Iterator[LockWait]:
    """Who holds what a thread wants, itself first."""
    for one in sorted(waits, key=lambda one: one is not wait):
        if any(lock == wait.wants for lock, _ in one.holds):
            yield one


def _say(process: Process, wait: LockWait) -> str:
    held = "; ".join(f"{lock}, taken in {line}" for lock, line in wait.holds[:3])
    has = f" and has {held}" if held else ""
    return f"{process.id}'s {wait.thread} waits for {wait.wants} in {wait.line}{has}."


RULES = (deadlock,)
