"""Causes around the ranks: servers, rollouts, event loops, message queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from harness.hang import sleeping
from harness.hang.causes.awaited import beside_a_heartbeat, by_tasks, waits_for_capacity
from harness.hang.causes.finding import Cause, Finding, named, say
from harness.hang.grouping import names
from harness.hang.groups import Group, count, ids
from harness.hang.scene import Scene
from harness.hang.standing import waits_for_ever, wakes
from harness.hang.waits import COMMUNICATION, Wait

CAUSES = (
    Cause(
        "server-blocked",
        title="a server doesn't answer",
        means="It is paused, held up, or waits itself, while somebody waits for its answer.",
        elsewhere=(
            "In the server: a blocking call in a handler, or generation that wasn't resumed after the last weight "
            "update."
        ),
        next=(
            "make check STAGE=1   # does it generate a token now?",
            "curl -m 5 http://SERVER/health, and its queue in /metrics",
        ),
        apart={
            "staleness": "curl the server's /metrics: requests waiting there mean the server, none mean the controller",
        },
    ),
    Cause(
        "staleness",
        title="the rollout may not go on",
        means="Staleness control or a limit on concurrent rollouts lets nothing more be submitted.",
        elsewhere=(
            "In the settings: max_head_offpolicyness times the batch against the number of prompts submitted at once."
        ),
        next=("raise max_head_offpolicyness and max_concurrent_rollouts for debugging",),
    ),
    Cause(
        "async-lost",
        title="an awaited result never comes",
        means="The event loop sleeps and all its tasks wait, or all threads wait for each other.",
        elsewhere="In the task or thread that should release the others; give such waits a time-out.",
        next=(
            (
                "make hang-dump TASKS=1   # await chains by gdb or by Python 3.14's own interpreter; this dump couldn't"
                " read them"
            ),
            (
                "who should release, set or put what the innermost line of each chain waits for? Look at each way out "
                "of it"
            ),
        ),
        apart={
            "server-blocked": "make hang-dump TASKS=1   # on what do the tasks wait: on HTTP, or on each other?",
        },
    ),
    Cause(
        "rpc-queue",
        title="both ends of a message queue wait",
        means="The engine waits for its workers' answer, the workers for its call.",
        elsewhere="In a message that was lost: a full /dev/shm, or a worker that was restarted.",
        next=("df -h /dev/shm; the log of each worker for a restart or an exception",),
    ),
)

# Waits that only another thread of the process ends, or a time-out.
_WITHIN = frozenset({"future", "queue", "join", "lock"})
# Waits for what others give, who may be waiting for this one.
_FROM_OTHERS = _WITHIN | {"http", "mp-queue", "pipe"}
# A handler of a server with threads, or of an async server that gives blocking handlers to threads.
_HANDLERS = frozenset({"process_request_thread", "run_sync_in_worker_thread"})


def server(scene: Scene) -> Iterable[Finding]:
    """A server is held up, or has nothing to do although somebody waits for it."""
    serving = ("serve", "engine-idle", "engine-poll")
    servers = [group for group in scene.groups if group.role == "server" or group.kind in serving]
    clients = scene.having("http", "rollout")
    held = [group for group in servers if _is_held(group)]
    if not held:
        # A server by nothing but its deeds: its loop is held up, and it listens, or somebody else waits.
        waits = bool(scene.having("http", "loop"))
        held = [group for group in scene.others if _is_held(group) and (waits or group.listens or _in_handler(group))]
    handling = [group for group in servers if group not in held and any(map(_handles, group.standing.others))]
    asking = f"Waiting for it: {say(clients)}."
    if held:
        # A client with an event loop of its own shows no more than that.
        asking_too = [group for group in scene.having("loop") if group not in servers]
        clients = [group for group in clients + asking_too if group not in held]
        loop = f"{say(held)}, inside its serving loop: nothing else is answered meanwhile."
        yield Finding("server-blocked", 0.88 if clients else 0.74, named(held), [loop])
    elif clients and handling and not any(group.moved for group in handling):
        stuck = f"A handler of {names(ids(handling))} is stuck."
        if sleep := sleeping.all_handlers(handling):
            stuck = (
                f"A thread of {names(ids(handling))} sleeps for {sleep.left:.0f} s more, and goes on by itself then."
            )
        state: Literal["hung", "slow"] = "slow" if sleep else "hung"
        yield Finding("server-blocked", 0.78, named(handling), [asking, stuck], state)
    elif clients and servers and all(group.idle for group in servers):
        front = [group for group in servers if group.kind in ("loop", "serve")] or servers
        paused = f"The server has nothing to do: {say(servers)}. A paused server looks the same."
        yield Finding("server-blocked", 0.62, named(front), [f"{say(clients)}.", paused])
    elif not servers and clients and (listening := [g for g in scene.having("loop") if g.listens]):
        paused = f"It listens and has nothing to do: {say(listening)}. A paused server looks the same."
        yield Finding("server-blocked", 0.62, named(listening), [f"{say(clients)}.", paused])
    elif not servers and (callers := scene.having("http")):
        outside = f"{say(callers)}, for an answer from outside the dump."
        yield Finding("server-blocked", 0.57, named(callers) if scene.joined else [], [outside])


def _is_held(group: Group) -> bool:
    """Whether an event loop is kept from going on by something that sleeps in it."""
    asleep = not group.standing.active and not group.moved
    if not group.wait.on_loop or not asleep or group.idle or group.kind == "loop":
        return False
    # A reward service may compute its answer in the loop, or have a program do it: that is what takes long then.
    return group.kind in _FROM_OTHERS or "user-code" not in group.phases


def _in_handler(group: Group) -> bool:
    """Whether a callback of asyncio's waits for what it would have to await: that is wrong in any program."""
    called = any(frame.function == "_run" and frame.file == "asyncio/events.py" for frame in group.wait.clean)
    return called and group.role != "rank" and (group.kind in _FROM_OTHERS or group.at_lock)


def _handles(wait: Wait) -> bool:
    """Whether a side thread is in a request's handler."""
    in_thread = any(frame.function in _HANDLERS or frame.file.startswith("anyio/_backends") for frame in wait.clean)
    return in_thread and bool(wait.own)


def staleness(scene: Scene) -> Iterable[Finding]:
    """The controller may not submit more, and what it may use has been used up."""
    waiting = scene.having("rollout")
    generating = [group for group in scene.groups if group.role == "server" and not group.idle]
    if not waiting or generating:
        return
    full = [group for group in waiting if any(other.kind == "capacity" for other in group.standing.others)]
    starting = [child for child in scene.children_of(waiting) if child.moved or child.computes]
    if starting:
        text = f"But what it has started gets on: {say(starting)}."
        yield Finding("staleness", 0.45, named(waiting), [f"{say(waiting)}.", text], "slow")
    elif full:
        text = "Its submitting thread waits for capacity, and nobody generates."
        yield Finding("staleness", 0.84, named(full), [f"{say(full)}.", text])
    else:
        yield Finding("staleness", 0.57, named(waiting), [f"{say(waiting)}."])


def lost_await(scene: Scene) -> Iterable[Finding]:
    """An event loop sleeps although its program isn't done."""
    for group in scene.having("loop"):
        if group.idle or group.role == "launcher":
            continue
        who = named([group])
        evidence = [f"{names(who)}: the event loop sleeps; every task waits for something ({group.wait})."]
        missed = bool(scene.joined) and group in scene.off
        gets_on = group.wakes or any(other.moved for other in scene.groups)
        if not missed and (lost := beside_a_heartbeat(scene, group)):
            yield Finding("async-lost", 0.5, who, [*evidence, *lost], "unknown")
        elif gets_on and not missed and not waits_for_capacity(scene, group):
            alive = "But it is woken up again and again." if group.wakes else "But others get on meanwhile."
            yield Finding("async-lost", 0.41, who, [*evidence, alive])
        elif group.awaited is not None:
            for finding in by_tasks(scene, group, group.awaited):
                finding.evidence = [*evidence, *finding.evidence]
                yield finding
        elif missed:
            yield Finding("async-lost", 0.83, who, [*evidence, f"The others wait: {say(scene.joined)}."])
        elif _has_nobody_to_serve(scene, group) and not scene.children_of([group]):
            # A service would listen; this one has nobody from whom anything could come but its own tasks.
            yield Finding("async-lost", 0.6, who, evidence)
        elif group.works:
            yield Finding("async-lost", 0.68, who, evidence)
            if scene.of_role("server") or scene.having("engine-idle", "engine-poll"):
                yield Finding("server-blocked", 0.5, [], evidence)
        else:
            yield Finding("async-lost", 0.42, who, [*evidence, "That may be all right: a service waits like this."])


def own_threads(scene: Scene) -> Iterable[Finding]:
    """Every thread of a process waits for something that only another of its threads could give."""
    for group in scene.groups:
        if group.role in ("child", "launcher") or group.progress != "still" or group.listens or group.halted:
            continue
        # A wait with a time-out in a loop isn't for ever.
        if any(map(wakes, group.members)):
            continue
        others = [wait for wait in group.standing.others if wait.own]
        threads = [group.wait, *others]
        if not others or any(wait.kind not in _WITHIN for wait in threads) or scene.children_of([group]):
            continue
        counted = Counter(str(wait) for wait in threads)
        places = "; ".join(f"{number} × {place}" if number > 1 else place for place, number in counted.items())
        evidence = [f"{group.who}: all threads wait for each other: {places}."]
        if held := [wait for wait in others if wait.on_loop and wait.kind != "loop"]:
            evidence.append(f"An event loop is held up by {held[0]}: nothing that is handed to it is done.")
        yield Finding("async-lost", 0.66, named([group]), evidence)


def alone(scene: Scene) -> Iterable[Finding]:
    """The only thread of a process waits at a queue between threads: nobody is left who could serve it."""
    for group in scene.groups:
        if group.role in ("child", "launcher") or group.progress != "still" or group.listens or group.halted:
            continue
        if group.kind != "queue" or scene.joined or scene.children_of([group]) or any(map(wakes, group.members)):
            continue
        single = all(len(process.threads) == 1 for process in group.members)
        between_threads = any(frame.file == "queue.py" for frame in group.wait.clean)
        # Without a time-out, as far as the kernel tells.
        if single and between_threads and all(waits_for_ever(process) is not False for process in group.members):
            nobody = "It is the only thread left: whoever used the other end of the queue has ended."
            yield Finding("async-lost", 0.64, named([group]), [f"{say(group)}.", nobody])


def _has_nobody_to_serve(scene: Scene, group: Group) -> bool:
    """Whether a program stands alone and listens on no socket; who counts switches has looked for sockets as well."""
    looked = all(sample.switches is not None for process in group.members for sample in process.samples)
    single = group.role == "driver" or (group.role == "worker" and count(scene.groups) == 1)
    return single and looked and not group.listens and group.progress == "still"


def message_queue(scene: Scene) -> Iterable[Finding]:
    """The engine waits for its workers' answer, and they wait for its call."""
    ends = [group for group in scene.groups if group.role != "launcher"]
    if len(ends) > 1 and all(group.kind == "pipe" and group.role != "child" and not group.moved for group in ends):
        yield Finding("rpc-queue", 0.7, [], [f"{say(ends)}: everybody waits for somebody to speak."])
    asking = scene.having("engine-reply")
    dequeuing = {"dequeue", "acquire_read"}
    answering = [group for group in scene.having("engine-idle") if dequeuing & {*group.wait.through}]
    if asking and answering:
        evidence = [f"{say(asking)}: for an answer.", f"{say(answering)}: for a call."]
        yield Finding("rpc-queue", 0.84, [], evidence)


def is_all_idle(scene: Scene) -> bool:
    """Whether nobody has anything to do, SGLang's ranks that hand empty requests around included."""
    if not scene.groups or scene.gone or scene.dump.unreachable:
        return False
    polling = any(group.kind == "engine-poll" for group in scene.groups)
    return all(
        group.idle or (polling and "request-poll" in group.phases and group.kind in COMMUNICATION)
        for group in scene.groups
    )


RULES = (server, staleness, lost_await, own_threads, alone, message_queue)
