"""Causes that lie outside the ranks: the driver, Ray, servers, rollouts, event loops, message queues."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.hang.causes.finding import Finding, named, say
from harness.hang.grouping import names
from harness.hang.scene import Group, Scene, count, ids
from harness.hang.waits import COLLECTIVE, COMMUNICATION, RUNNING

# Names of functions in whose loop a program waits for something of its own; a service waits for others in `serve`.
_WORKING = re.compile(r"train|fit|rollout|step|evaluat|generat|collect|agent|episode|sample|workflow|batch|solve|run_async", re.IGNORECASE)
_LOOKING = "ray list tasks --filter state=RUNNING shows what it waits for."


def ray_resources(scene: Scene) -> Iterable[Finding]:
    """Something can never be scheduled."""
    waiting = scene.having("ray-get", "ray-place", "ray-fetch")
    said = scene.hints("ray-resources")
    placing = scene.having("ray-place")
    pending = scene.dump.pending_actors
    if not waiting or not (said or placing or pending):
        return
    evidence = [f"{say(waiting)}."]
    if pending:
        evidence.append(f"{len(pending)} actors wait for a place: {', '.join(pending[:4])}{' …' if len(pending) > 4 else ''}.")
    evidence += [f"Log: {hint.text}" for hint in said[:2]]
    score = 0.9 if pending or said else 0.75
    yield Finding("ray-resources", score, [], evidence, elsewhere="`ray status` compares what is asked for with what the cluster has.")


def ray_wait(scene: Scene) -> Iterable[Finding]:
    """The driver or an actor waits in ray.get."""
    core = scene.having("ray-core")
    if core:
        yield Finding("ray-wait", 0.8, [], [f"{say(core)}: inside Ray's core worker."], elsewhere="A fault below Python: note Ray's version.")
    fetching = scene.having("ray-fetch")
    if fetching:
        yield Finding("ray-wait", 0.62, [], [f"{say(fetching)}: for a function from the cluster's table.", "The driver that exported it may be gone, or the head busy."])
        yield Finding("dead-peer", 0.56, [], [f"{say(fetching)}."])
    waiting = scene.having("ray-get")
    if not waiting:
        return
    evidence = [f"{say(waiting)}."]
    actors = [group for group in waiting if group.role not in ("driver", "launcher")]
    rest = [group for group in scene.groups if group not in waiting and group.role != "child"]
    receivers = [group for group in scene.peers if group.kind in COLLECTIVE and "weight-sync" in group.phases and group.role != "rank"]
    working = [group for group in rest if not group.idle and group.kind != "loop"]
    if count(actors) > 1 and not working:
        yield Finding("ray-wait", 0.8, [], [*evidence, "Several actors wait for each other's results: an actor runs one method at a time."], elsewhere=_LOOKING)
    elif receivers and not scene.of_role("rank"):
        yield Finding(
            "ray-wait", 0.74, named(receivers), [*evidence, f"Busy in a call that was not done: {say(receivers)}.", "An actor runs one method at a time, so what was asked later waits behind it."],
            elsewhere="Wait for the weight update before asking these actors anything else, or give them a concurrency group.",
        )  # fmt: skip
    elif not working:
        yield Finding("ray-wait", 0.62, ids(_side_loops(rest)), [*evidence, "Nobody in the dump is at work on it."], elsewhere=_LOOKING)
        yield Finding("ray-resources", 0.5, [], evidence)
        yield Finding("dead-peer", 0.48, [], evidence)
    elif any(group.moved for group in working):
        yield Finding("ray-wait", 0.45, named(working), [*evidence, f"At work for it: {say(working)}."], state="slow")
    else:
        # It waits for what the others do: they are to be explained, not this.
        yield Finding("ray-wait", 0.4, named(working), evidence)


def _side_loops(groups: list[Group]) -> list[Group]:
    """Idle actors in which a thread of their own waits: a background loop that nobody answers."""
    return [
        group
        for group in groups
        if group.kind == "ray-idle" and any(other.kind in ("lock", "queue", RUNNING) and other.own for other in group.standing.others)
    ]


def server(scene: Scene) -> Iterable[Finding]:
    """A server is held up, or idle although somebody waits for it."""
    clients = scene.having("http", "rollout")
    servers = [group for group in scene.groups if group.role == "server" or group.kind in ("serve", "engine-idle", "engine-poll")]
    held = [group for group in servers if group.wait.on_loop and not group.idle and group.kind != "loop" and not group.moved and not group.standing.active]
    asked = [f"Waiting for it: {say(clients)}."] if clients else []
    if held:
        score = 0.88 if clients else 0.74
        yield Finding(
            "server-blocked", score, named(held), [f"{say(held)}, inside its event loop: nothing else is answered meanwhile.", *asked],
            elsewhere="A blocking call in a handler belongs into a thread (`run_in_executor`).",
        )  # fmt: skip
    if clients and servers and all(group.idle for group in servers):
        front = [group for group in servers if group.kind in ("loop", "serve")] or servers
        yield Finding(
            "server-blocked", 0.62, named(front), [f"{say(clients)}.", f"The server has nothing to do: {say(servers)}. A paused server looks the same."],
            elsewhere="Was generation resumed after the last weight update? Ask the server for its queue (`/metrics`, `/get_server_info`).",
        )  # fmt: skip


def staleness(scene: Scene) -> Iterable[Finding]:
    """The controller may not submit more, and what it may use has been used up."""
    waiting = [group for group in scene.groups if group.kind == "rollout"]
    if not waiting:
        return
    at_work = [group for group in scene.groups if group.role == "server" and not group.idle]
    full = [group for group in waiting if any(other.kind == "capacity" for other in group.standing.others)]
    evidence = [f"{say(waiting)}."]
    elsewhere = "Compare max_head_offpolicyness × batch with the prompts submitted at once; a large value for debugging lifts the limit."
    if any(group.moved for group in at_work):
        return
    if full and not at_work:
        yield Finding("staleness", 0.84, named(full), [*evidence, "Its submitting thread waits for capacity, and nobody generates."], elsewhere=elsewhere)
    elif not at_work:
        yield Finding("staleness", 0.57, named(waiting), evidence, elsewhere=elsewhere)


def lost_await(scene: Scene) -> Iterable[Finding]:
    """An event loop sleeps although its program isn't done."""
    for group in scene.groups:
        if group.kind != "loop" or group.role in ("server", "launcher"):
            continue
        evidence = [f"{names(ids([group]))}: the event loop sleeps; every task waits for something ({group.wait})."]
        chains = [text for name in group.ids for text in _chains(scene, name)]
        elsewhere = "Await chains name the task: TASKS=1, or `python -m asyncio pstree PID` from Python 3.14 on. Give awaits a time-out."
        if chains:
            yield Finding("async-lost", 0.89, named([group]), [*evidence, *chains[:4]], elsewhere="The chains show on what each task waits; look for who should release it.")
        elif scene.joined and group in scene.off:
            yield Finding("async-lost", 0.83, named([group]), [*evidence, f"The others wait: {say(scene.joined)}."], elsewhere=elsewhere)
        elif any(_WORKING.search(frame.function) or _WORKING.search(frame.file) for frame in group.wait.own):
            yield Finding("async-lost", 0.68, named([group]), evidence, elsewhere=elsewhere)
            if scene.having("engine-idle", "engine-poll") or scene.of_role("server"):
                yield Finding("server-blocked", 0.5, [], evidence)
        else:
            yield Finding("async-lost", 0.42, named([group]), [*evidence, "That may be all right: a service waits like this."], elsewhere=elsewhere)


def _chains(scene: Scene, name: str) -> list[str]:
    """Await chains in words, most frequent first."""
    counted: dict[str, int] = {}
    for task in scene.dump.tasks.get(name, []):
        if task.chain:
            text = " > ".join(f"{frame.name}:{frame.line}" for frame in task.chain)
            counted[text] = counted.get(text, 0) + 1
    most = sorted(counted.items(), key=lambda item: -item[1])
    return [f"{number} {'task awaits' if number == 1 else 'tasks await'}: {text}" for text, number in most]


def message_queue(scene: Scene) -> Iterable[Finding]:
    """The engine waits for its workers' answer, and they wait for its call."""
    asking = scene.having("engine-reply")
    answering = [group for group in scene.having("engine-idle") if "dequeue" in group.wait.through or "acquire_read" in group.wait.through]
    if asking and answering:
        yield Finding(
            "rpc-queue", 0.84, [], [f"{say(asking)}: for an answer.", f"{say(answering)}: for a call."],
            elsewhere="A message was lost or read by nobody: look at shared memory (/dev/shm full?), and whether a worker was restarted.",
        )  # fmt: skip


def is_all_idle(scene: Scene) -> bool:
    """Whether nobody has anything to do, SGLang's ranks that hand empty requests around included."""
    if not scene.groups or scene.gone:
        return False
    polling = any(group.kind == "engine-poll" for group in scene.groups)
    return all(group.idle or (polling and "request-poll" in group.phases and group.kind in COMMUNICATION) for group in scene.groups)
