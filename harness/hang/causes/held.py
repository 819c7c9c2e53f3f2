"""Causes that hold one process: a lock, a worker of its own, code of the workflow."""

from __future__ import annotations

from collections.abc import Iterable

from harness.hang.causes.finding import Cause, Finding, named, say
from harness.hang.causes.late import others_wait
from harness.hang.groups import Group, count, ids, in_words, members
from harness.hang.model import Process
from harness.hang.scene import Scene
from harness.hang.standing import of_threads
from harness.hang.waits import COMMUNICATION

CAUSES = (
    Cause(
        "user-code",
        title="a reward, verifier or tool doesn't come back",
        means="Code of the workflow runs while the system waits for its result.",
        elsewhere=(
            "In the sample that it works on. Give such calls a time-out that can interrupt them: a process of their "
            "own, not a thread."
        ),
        next=(
            "make hang-dump LOCALS=1   # the sample that {who} chokes on",
            "run that call in a process of its own with a time-out",
        ),
    ),
    Cause(
        "gil-held",
        title="compiled code holds Python's lock",
        means="One thread sleeps in C with the interpreter's lock, so no other Python thread of the process can run.",
        elsewhere="In the compiled code called there: it doesn't release the lock, and what it waits for may need it.",
        next=("make hang-dump NATIVE=1   # which C function; stops a torch process for a second or more",),
    ),
    Cause(
        "data-worker",
        title="a data worker is stuck",
        means="A rank waits for a batch that its worker processes don't deliver.",
        elsewhere=(
            "In what was locked when the worker was forked, or in __getitem__. multiprocessing_context='spawn', or "
            "forking before threads start, avoids the first."
        ),
        next=(
            "make hang-dump NATIVE=1   # of the worker: on which lock",
            "try num_workers=0, then multiprocessing_context='spawn'",
        ),
    ),
    Cause(
        "stale-lock",
        title="a lock on a file isn't given back",
        means="A build or download that was killed left its lock file, or whoever holds the lock is stuck itself.",
        elsewhere="In whoever holds the lock, or was killed while it held it.",
        next=(
            "make hang-dump LOCALS=1   # which file {who} waits for",
            "fuser -v FILE   # nobody: remove it",
        ),
    ),
)

_QUEUES = ("mp-queue", "pipe")
_ASKING = frozenset({"ray-get", "rollout", "future", "http"})


def user_code(scene: Scene) -> Iterable[Finding]:
    """A reward function, a verifier or a tool doesn't come back."""
    for group in scene.groups:
        if (
            group.kind in COMMUNICATION
            or group.idle
            or group.halted
            or group.on_file_lock
            or _locked_when_forked(group)
        ):
            continue
        if "user-code" in group.phases:
            started = [child for child in scene.children_of([group]) if not child.idle]
            yield _in_user_code(scene, group, started if group.kind == "subprocess" else [])
        elif group.kind == "subprocess" and group.role != "launcher" and not group.moved:
            # A rank may have any program do something for it; what it starts elsewhere is mostly an agent's tool.
            score = 0.45 if group.role == "rank" else 0.55
            yield Finding("user-code", score, named([group]), [f"{say(group)}: for a program that it has started."])


def _in_user_code(scene: Scene, group: Group, started: list[Group]) -> Finding:
    """
    Args:
        started: programs of the dump that this code has started and waits for.
    """
    waiting = [other for other in scene.groups if other.kind in _ASKING or other in scene.joined]
    idle = [other for other in scene.peers if other.idle]
    evidence = [f"{say(group)}: a reward, verifier or tool."]
    if waiting:
        evidence.append(f"Waiting: {say(waiting)}.")
    elif idle:
        evidence.append(f"Nothing to do meanwhile: {say(idle)}.")
    who = named(started) or named([group])
    if started:
        evidence.append(f"What it waits for: {say(started)}.")
    if group.moved or any(child.moved for child in started):
        return Finding("user-code", 0.82, who, [*evidence, "The second sample differs: it gets on."], "slow")
    if started and all(child.wakes and not child.busy for child in started):
        alive = "It sleeps, and is woken up again and again: it may get on."
        return Finding("user-code", 0.6, who, [*evidence, alive], "slow")
    working = [one for one in [group, *started] if one.busy]
    if working:
        where = "at other lines of one function" if all(o.progress == "looping" for o in working) else "at one line"
        round_ = f"It computes, {where} in every sample: nobody can see whether that ends."
        return Finding("user-code", 0.8 if "other" in where else 0.84, who, [*evidence, round_], "slow")
    return Finding("user-code", 0.8 if group.standing.active else 0.7, who, evidence)


def _locked_when_forked(group: Group) -> bool:
    """A forked worker sleeps at a lock of its own code: it was taken by a thread that the fork left behind."""
    forked = any(frame.file == "multiprocessing/popen_fork.py" for frame in group.wait.clean)
    return group.role == "child" and forked and group.at_lock


def gil(scene: Scene) -> Iterable[Finding]:
    """A thread sleeps with the interpreter's lock in its hand."""
    for group in scene.groups:
        holder = group.standing.gil_holder
        if holder is None or group.halted or group.moved or group.role == "launcher":
            continue
        if not all(map(_holds_throughout, group.members)):
            continue
        top = holder.stack.frames[0] if holder.stack.frames else "an unknown call"
        text = f"{group.who}: thread {holder.name} holds the interpreter's lock while it sleeps in {top}"
        evidence = [f"{text}; no other Python thread can run."]
        # In state D it may only have been met while it fetched a page.
        score = 0.6 if group.blocked_in_kernel else 0.88
        yield Finding("gil-held", score, named([group]), evidence + ([others_wait(scene)] if scene.joined else []))


def _holds_throughout(process: Process) -> bool:
    """Whether a thread had the lock and slept in every sample, rather than in one by chance."""
    stood = [of_threads(sample.threads) for sample in process.samples if sample.threads]
    return all(standing is not None and standing.gil_holder is not None for standing in stood)


def lock_file(scene: Scene) -> Iterable[Finding]:
    """Somebody waits for a lock file."""
    waiting = [group for group in scene.groups if group.kind == "file-lock" or group.on_file_lock]
    if not waiting:
        return
    evidence = [f"{say(waiting)}."]
    if any(group.on_file_lock for group in waiting):
        evidence.append("The kernel has it wait for a lock on a file.")
    builders = [group for group in scene.groups if group not in waiting and "compile" in group.phases]
    if builders:
        slow = all(group.moved or group.computes for group in builders)
        holder = f"Its holder may be {say(builders)}."
        yield Finding("compile-skew", 0.8, named(builders), [*evidence, holder], "slow" if slow else "hung")
        yield Finding("stale-lock", 0.5, named(waiting), evidence)
        return
    everybody = bool(scene.peers) and count(waiting) == count(scene.peers) and not scene.joined
    held = [
        f"{process.id} waits for it: {process.lock_holder}."
        for group in waiting
        for process in group.members
        if process.lock_holder
    ]
    nobody = held[:4] or ["No process of the dump is seen to hold it."]
    yield Finding("stale-lock", 0.87, [] if everybody else named(waiting), [*evidence, *nobody])


def lost_lock(scene: Scene) -> Iterable[Finding]:
    """All who read a queue of processes wait for leave to read it: whoever had that has ended with it in hand."""
    readers = [group for group in scene.groups if _reads_queue(group)]
    if not readers or any(group.moved for group in readers):
        return
    # Of readers that have nothing to do one waits for the message, and the others for their turn.
    if all(_waits_for_turn(group) for group in readers):
        evidence = [f"{say(readers)}: for the lock under which a queue is read, and nobody is reading."]
        ended = "A process that is killed while it waits for a message takes that lock with it."
        yield Finding("stale-lock", 0.93, named(readers), [*evidence, ended])
        yield Finding("dead-peer", 0.7, named(readers), evidence)


def _reads_queue(group: Group) -> bool:
    get = any(frame.function == "get" and frame.file == "multiprocessing/queues.py" for frame in group.wait.clean)
    return get and group.role == "child"


def _waits_for_turn(group: Group) -> bool:
    return any(
        frame.function == "__enter__" and frame.file == "multiprocessing/synchronize.py" for frame in group.wait.clean
    )


def unread_queue(scene: Scene) -> Iterable[Finding]:
    """A child is done but for what it has put into a queue; its owner waits for its end instead of reading that."""
    for group in scene.having("join"):
        full = [child for child in scene.children_of([group]) if child.kind == "join" and _flushes(child)]
        if full and not group.moved:
            flushes = f"{in_words(members(full))}: done, and waits until what it has put into a queue is read."
            yield Finding("rpc-queue", 0.86, [], [f"{say(group)}.", flushes])


def _flushes(child: Group) -> bool:
    return any(
        frame.function == "_finalize_join" and frame.file == "multiprocessing/queues.py" for frame in child.wait.clean
    )


def _replaces_another(worker: Group) -> bool:
    """Whether the thread that looks after a pool has forked it, rather than whoever made the pool."""
    return any(
        frame.function == "_handle_workers" and frame.file == "multiprocessing/pool.py" for frame in worker.wait.clean
    )


def data_workers(scene: Scene) -> Iterable[Finding]:
    """A process waits for its data workers."""
    for group in scene.having("dataloader", "mp-queue", "pipe"):
        children = scene.children_of([group])
        if group.role == "child" or (group.kind != "dataloader" and not children):
            continue
        stuck = [child for child in children if not child.idle]
        who = named([group]) if group.role == "rank" else ids(stuck) or named([group])
        evidence = [f"{say(group)}: for its data workers."]
        if stuck:
            evidence.append(f"Its workers: {say(stuck)}.")
        elif children:
            evidence.append("Its workers have nothing to do: what it waits for was lost, or its worker has ended.")
        if scene.joined:
            evidence.append(others_wait(scene))
        if group.kind != "dataloader" and stuck and all(child.kind in _QUEUES and not child.moved for child in stuck):
            both = [f"{say(group)}.", f"{say(stuck)}.", "Each waits for the other's message."]
            yield Finding("rpc-queue", 0.84, [], both)
            continue
        # A worker that computes at other lines each time may need long for one piece: nobody sees that it never ends.
        works = any(child.moved or child.computes for child in stuck)
        locked = [child for child in stuck if _locked_when_forked(child)]
        if group.moved or works:
            slow = "They get on, or compute: slow data rather than a dead lock."
            # A pool of verifiers: what they do is to be named, not that they are a pool.
            verifies = group.kind != "dataloader" and any("user-code" in child.phases for child in stuck)
            yield Finding("data-worker", 0.6 if verifies else 0.82, who, [*evidence, slow], "slow")
        else:
            score = 0.89 if stuck else 0.78 if scene.joined else 0.7
            if locked and len(locked) == len(stuck):
                score = 0.89
                evidence.append(
                    f"{in_words(members(locked))}: asleep at a lock in {locked[0].wait.place}. It was locked when "
                    "they were forked, by a thread that isn't there in a child: nobody will free it."
                )
            elif group.kind != "dataloader" and any("user-code" in child.phases for child in stuck):
                score = 0.6  # a pool of verifiers: what they do is to be named, not that they are a pool
            elif group.kind == "mp-queue" and not stuck:
                # A pool starts another worker for one that was killed, and nobody does its task again.
                replacing = [child for child in children if _replaces_another(child)]
                if replacing:
                    evidence.append(
                        f"{in_words(members(replacing))}: the pool has started it for a worker that has ended."
                    )
                lost = named([group]) if group.role == "rank" else []
                yield Finding("dead-peer", 0.86 if replacing else 0.74, lost, evidence)
                score = 0.55
            yield Finding("data-worker", score, who, evidence)


RULES = (user_code, gil, lock_file, data_workers, unread_queue, lost_lock)
