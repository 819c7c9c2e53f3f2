"""Causes in Ray: results that nobody makes, and places that nobody has."""

from __future__ import annotations

from collections.abc import Iterable

from harness.hang.causes.finding import Cause, Finding, logged, named, say
from harness.hang.groups import Group, count
from harness.hang.scene import Scene
from harness.hang.waits import COLLECTIVE, COMMUNICATION, JOINED, RUNNING
from harness.processes.sampling.roles import is_idle

CAUSES = (
    Cause(
        "ray-wait",
        title="somebody waits in ray.get",
        means="The result isn't coming because whoever should make it is busy, waits itself, or was never asked.",
        elsewhere="In whoever should make the result; the waiting line is only where it shows.",
        next=("ray list tasks --filter state!=FINISHED --detail",),
    ),
    Cause(
        "ray-resources",
        title="Ray can't place what is waited for",
        means="An actor, task or placement group asks for more than the cluster has free.",
        elsewhere=(
            "In what the actor or placement group asks for, in nodes that are missing, or in whoever holds what it "
            "needs."
        ),
        next=(
            "ray status",
            "ray list actors --filter state=PENDING_CREATION --detail",
        ),
    ),
)


def ray_resources(scene: Scene) -> Iterable[Finding]:
    """Something can never be scheduled."""
    waiting = scene.having("ray-get", "ray-place", "ray-fetch")
    said = logged(scene.hints("ray-resources"))
    pending = scene.dump.pending_actors
    if not waiting or not (said or pending or scene.having("ray-place")):
        return
    evidence = [f"{say(waiting)}.", *said]
    if pending:
        some = ", ".join(pending[:4]) + (" …" if len(pending) > 4 else "")
        evidence.append(f"Ray's list of actors: {len(pending)} wait for a place: {some}.")
    score = 0.9 if pending or said else 0.75
    # Who joins a group may wait for the one without a place. Who works, or is past that, has what it needs.
    working = [
        group
        for group in scene.groups
        if group not in waiting and group.role != "launcher" and (group.kind in JOINED or _at_work(group))
    ]
    if working and not scene.having("ray-place"):
        score = 0.56
        evidence.append(f"But others have their places, and may be what is waited for: {say(working)}.")
    yield Finding("ray-resources", score, [], evidence)


def _at_work(group: Group) -> bool:
    return group.kind not in COMMUNICATION and group.kind != "loop" and not group.idle


def ray_core(scene: Scene) -> Iterable[Finding]:
    """A worker hangs in Ray itself: in its native core, or fetching a function from the cluster's table."""
    core, fetching = scene.having("ray-core"), scene.having("ray-fetch")
    if core:
        yield Finding("ray-wait", 0.8, [], [f"{say(core)}: inside Ray's core worker, below Python."])
    if fetching:
        table = "It waits for a function from the cluster's table: the driver that exported it may be gone."
        yield Finding("ray-wait", 0.62, [], [f"{say(fetching)}.", table])
        yield Finding("dead-peer", 0.56, [], [f"{say(fetching)}."])


def ray_wait(scene: Scene) -> Iterable[Finding]:
    """The driver or an actor waits in ray.get."""
    waiting = scene.having("ray-get")
    if not waiting:
        return
    evidence = [f"{say(waiting)}."]
    actors = [group for group in waiting if group.role not in ("driver", "launcher")]
    rest = [group for group in scene.groups if group not in waiting and group.role not in ("child", "launcher")]
    working = [group for group in rest if not group.idle and group.kind != "loop"]
    twice = [text for group in working if (text := _waits_for_itself(group))]
    one_at_a_time = "An actor runs one method at a time, so what is asked later waits behind it."
    if count(actors) > 1 and not working:
        yield Finding("ray-wait", 0.8, [], [*evidence, "Several actors wait for each other's results.", one_at_a_time])
    elif receivers := _receivers_without_sender(scene):
        busy = f"Busy in a call that isn't done: {say(receivers)}."
        yield Finding("ray-wait", 0.74, named(receivers), [*evidence, busy, one_at_a_time])
    elif not working:
        yield Finding(
            "ray-wait", 0.62, named(_with_side_loop(rest)), [*evidence, "Nobody in the dump is at work on it."]
        )
        # Ray says that something has no place some seconds late. Until then, where no actor has called for it and no
        # worker is at a task, both are as likely.
        placeless = all(is_idle(process.command) for group in rest for process in group.members)
        yield Finding("ray-resources", 0.56 if placeless else 0.5, [], evidence)
        yield Finding("dead-peer", 0.48, [], evidence)
    elif any(group.moved or group.computes for group in working):
        yield Finding(
            "ray-wait",
            0.45 if any(group.moved for group in working) else 0.57,
            named(working),
            [*evidence, f"At work for it: {say(working)}."],
            "slow",
        )
    else:
        # It waits for what the others do: where rules of their own explain these, this says nothing new.
        score = 0.4 if any(group.kind in COMMUNICATION for group in working) else 0.72 if twice else 0.57
        yield Finding("ray-wait", score, named(working), [*evidence, f"At work for it: {say(working)}.", *twice])


def _waits_for_itself(group: Group) -> str:
    """The sentence about somebody who sleeps in a function that it is in a second time: with a lock in its hand."""
    own = group.wait.own
    asleep = group.kind == RUNNING and group.progress == "still" and not group.busy and not group.standing.active
    if not asleep or not own or own[0] != (group.wait.clean or own)[0]:
        return ""
    again = [frame for frame in own[1:] if (frame.name, frame.file) == (own[0].name, own[0].file)]
    if not again:
        return ""
    lines = f"line {again[0].line} and line {own[0].line}"
    return f"{group.who} sleeps in {own[0].name} a second time ({lines}): at a lock that it may hold itself."


def _receivers_without_sender(scene: Scene) -> list[Group]:
    """Engines that receive new weights while no trainer is in the dump."""
    if scene.of_role("rank"):
        return []
    return [group for group in scene.peers if group.kind in COLLECTIVE and "weight-sync" in group.phases]


def _with_side_loop(groups: list[Group]) -> list[Group]:
    """Idle actors in which a thread of their own waits: a background loop that nobody answers."""
    return [
        group
        for group in groups
        if group.kind == "ray-idle"
        and any(other.kind in ("lock", "queue", RUNNING) and other.own for other in group.standing.others)
    ]


RULES = (ray_resources, ray_core, ray_wait)
