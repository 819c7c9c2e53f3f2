"""Causes in an event loop that sleeps, by what its tasks wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from harness.hang.awaits import Awaited
from harness.hang.causes.finding import Finding, named, say
from harness.hang.groups import Group
from harness.hang.scene import Scene
from harness.hang.waits import RUNNING, Wait, phases_of


def by_tasks(scene: Scene, group: Group, known: Awaited) -> Iterable[Finding]:
    """Causes of an event loop that sleeps, by what its tasks wait for."""
    who = named([group])
    chains = said(scene, group)
    working = [wait for wait in group.standing.others if wait.own]
    nobody_else = not working and not scene.children_of([group])
    others = [f"The others wait: {say(scene.joined)}."] if scene.joined and group in scene.off else []
    if short := waits_for_capacity(scene, group):
        yield Finding("staleness", 0.9, [], [*chains, short])
        yield Finding("async-lost", 0.7, who, chains)
    elif known.closed and _has_ray(group) and any(wait.kind == RUNNING for wait in known.within):
        # A result of Ray's comes by a thread that no stack shows.
        yield Finding(
            "ray-wait", 0.62, [], [*chains, f"{group.who}: tasks wait for results of Ray, or for each other."]
        )
        yield Finding("async-lost", 0.5, who, chains)
    elif known.closed and known.timers == 0 and known.watched == 0 and nobody_else:
        proof = f"{group.who}: no timer is set, no socket is watched, no thread works: nothing can wake up its tasks."
        yield Finding("async-lost", 0.92, who, [*chains, proof, *others])
    elif known.stuck:
        held = f"{group.who}: {_many(known.locks)} for a lock or a slot, and no task is on its way to free one."
        yield Finding("async-lost", 0.89 if nobody_else else 0.7, who, [*chains, held, *others])
    elif known.closed:
        yield Finding("async-lost", 0.89 if nobody_else or others else 0.6, who, [*chains, *others])
    elif known.outside:
        asked = [*chains, f"{group.who}: {_many(known.outside)} for an answer from elsewhere."]
        yield Finding("server-blocked", 0.75 if others else 0.58, who, [*asked, *others])
        yield Finding("async-lost", 0.52, who, chains)
    elif known.threads:
        yield Finding(
            "async-lost", 0.45, who, [*chains, f"{group.who}: {_many(known.threads)} for a thread of its own."]
        )
    else:
        due = "" if known.next_timer is None else f" The next timer is due in {known.next_timer:.0f} s."
        yield Finding("async-lost", 0.41, who, [*chains, f"Tasks look again and again whether they may go on.{due}"])


def beside_a_heartbeat(scene: Scene, group: Group) -> list[str]:
    """Sentences on tasks that only tasks of the same loop could wake up, which do nothing but sleep and wake up.

    No socket, thread or child could bring what is awaited. A task that looks for it now and then looks the same.
    """
    known = group.awaited
    if known is None or not known.within or not known.sleeping or not known.wakes_soon:
        return []
    if known.outside or known.threads or known.watched != 0:
        return []
    if any(wait.own for wait in group.standing.others) or scene.children_of([group]):
        return []
    waits = {str(wait.place) for wait in known.within if wait.own}
    if not waits:
        return []
    beats = ", ".join(sorted({str(wait.place) for wait in known.sleeping if wait.own})[:3])
    only = f"Only tasks of the same loop can give what is awaited in {', '.join(sorted(waits)[:3])}"
    return [*said(scene, group), f"{only}, and they sleep and wake up: {beats}. Is one of them to bring it?"]


def said(scene: Scene, group: Group) -> list[str]:
    """Await chains in words, most frequent first."""
    counted: Counter[str] = Counter()
    for name in group.ids[:8]:
        for task in scene.dump.tasks.get(name, []):
            if task.chain:
                counted[" > ".join(f"{frame.name}:{frame.line}" for frame in task.chain)] += 1
    most = counted.most_common(4)
    return [f"Await chain of {number} task{'' if number == 1 else 's'}: {text}" for text, number in most]


def waits_for_capacity(scene: Scene, group: Group) -> str:
    """The sentence about a task that waits for leave to submit more; "" where none does."""
    for name in group.ids:
        for task in scene.dump.tasks.get(name, []):
            for frame in task.chain:
                if "capacity" in phases_of(frame):
                    place = f"{frame.name} ({frame.file}:{frame.line})"
                    return f"A task of {name} waits in {place} for leave to submit more."
    return ""


def _has_ray(group: Group) -> bool:
    threads = [thread for process in group.members for thread in process.threads]
    return any(
        thread.name.startswith("ray_") or any(frame.file.startswith("ray/") for frame in thread.stack.frames)
        for thread in threads
    )


def _many(waits: list[Wait]) -> str:
    return "one task waits" if len(waits) == 1 else f"{len(waits)} tasks wait"
