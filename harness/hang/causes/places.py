"""Causes that lie in what the one does for whom the others wait: computing, saving, compiling, reading, holding a lock."""

from __future__ import annotations

from collections.abc import Iterable

from harness.hang.causes.finding import Finding, named, say
from harness.hang.grouping import names
from harness.hang.scene import Group, Scene, count, ids
from harness.hang.waits import COMMUNICATION, JOINED, RUNNING

_EXPLAINED = frozenset({"compile", "checkpoint", "loading", "user-code", "offload"})


def _apart(scene: Scene) -> list[Group]:
    """Peers elsewhere, when there are others that wait for them."""
    return [group for group in scene.off if not group.idle] if scene.joined or scene.having("store", "init") else []


def _waiting(scene: Scene) -> str:
    return f"The others wait: {say(scene.waiting)}."


def straggler(scene: Scene) -> Iterable[Finding]:
    """One is somewhere else; the others are in a collective."""
    apart = _apart(scene)
    if not apart:
        return
    evidence = [f"{say(apart)}.", _waiting(scene)]
    moving = [group for group in apart if group.moved]
    if moving and len(moving) == len(apart):
        yield Finding("straggler", 0.84, named(apart), [*evidence, "Its second sample differs: it gets on, so this is slow rather than stuck."], state="slow")
    elif any(group.blocked_in_kernel for group in apart):
        yield Finding(
            "straggler", 0.74, named(apart), [*evidence, "It is in state D: the kernel waits for a disk, a network file system or a driver."],
            elsewhere="`cat /proc/PID/wchan` and `dmesg` say for what.",
        )  # fmt: skip
    else:
        # With most of them elsewhere it is the waiting one that came first.
        outnumbered = count(apart) > count(scene.waiting)
        yield Finding("straggler", 0.45 if outnumbered else 0.57, named(apart), evidence)


def python_loop(scene: Scene) -> Iterable[Finding]:
    """The interpreter goes round and round at one place."""
    running = [group for group in scene.groups if group.kind == RUNNING and not group.halted and "cleanup" not in group.phases]
    explained = 0.3
    for group in running:
        less = explained if group.phases & _EXPLAINED else 0.0
        others = [f"The others wait: {say(scene.joined)}."] if scene.joined else []
        who = named([group]) if scene.joined or group not in scene.peers else []
        if group.progress == "still" and group.busy:
            yield Finding("python-loop", 0.86 - less, who, [f"{say(group)}, at the same line in both samples and with a core busy.", *others])
        elif group.progress == "looping" and group.busy:
            yield Finding("python-loop", 0.62 - less, who, [f"{say(group)}, in the same function in both samples and with a core busy.", *others])
        elif not group.progress and group.standing.active and group.standing.thread.holds_gil and scene.joined and group in scene.peers:
            yield Finding("python-loop", 0.58 - less, who, [f"{say(group)}, running and holding the interpreter's lock.", *others])


def user_code(scene: Scene) -> Iterable[Finding]:
    """A reward function, a verifier or a tool doesn't come back."""
    for group in scene.groups:
        if "user-code" not in group.phases or group.kind in COMMUNICATION or group.idle or group.halted:
            continue
        waiting = [other for other in scene.groups if other.kind in ("ray-get", "rollout", "future", "http") or other in scene.joined]
        idle = [other for other in scene.peers if other.idle]
        evidence = [f"{say(group)}: a reward, verifier or tool."]
        if waiting:
            evidence.append(f"Waiting: {say(waiting)}.")
        elif idle:
            evidence.append(f"Nothing to do meanwhile: {say(idle)}.")
        elsewhere = "Give the call a time-out that can interrupt it: a process of its own, not a thread, for SymPy and parsers."
        if group.moved:
            yield Finding("user-code", 0.82, named([group]), evidence, state="slow", elsewhere=elsewhere)
        else:
            stuck = bool(group.progress) and group.busy
            yield Finding("user-code", 0.88 if stuck else 0.8 if group.standing.active or group.busy else 0.7, named([group]), evidence, elsewhere=elsewhere)


def compiling(scene: Scene) -> Iterable[Finding]:
    """Some compile or import while the others wait."""
    apart = [group for group in _apart(scene) if group.phases & {"compile", "import"} and group.kind != "file-lock"]
    if apart:
        moved = all(group.moved for group in apart)
        yield Finding(
            "compile-skew", 0.86 if moved else 0.8, named(apart), [f"Compiling or importing: {say(apart)}.", _waiting(scene)],
            state="slow" if moved else "hung",
            elsewhere="Warm the compile cache on every rank before the first collective, or share one that all can write; a failed compile on one rank shows in its log.",
        )  # fmt: skip


def saving(scene: Scene) -> Iterable[Finding]:
    """Some save, move or load weights while the others wait."""
    apart = [group for group in _apart(scene) if group.phases & {"checkpoint", "offload"} and group.kind != "cuda"]
    if apart:
        moved = all(group.moved for group in apart)
        offload = all("checkpoint" not in group.phases for group in apart)
        cause, score = ("straggler", 0.72) if offload else ("checkpoint-skew", 0.8)
        yield Finding(
            cause, score + (0.06 if moved else 0), named(apart),
            [f"{'Moving weights' if offload else 'Saving'}: {say(apart)}.", _waiting(scene)],
            state="slow" if moved else "hung",
            elsewhere="The others' time-out must be longer than this takes, or they must not wait for it in a collective.",
        )  # fmt: skip


def device(scene: Scene) -> Iterable[Finding]:
    """The host waits for the GPU."""
    waiting = [group for group in scene.peers if group.kind == "cuda"]
    if not waiting:
        return
    elsewhere = "CUDA calls return before their work is done: the kernel that doesn't end was started earlier. CUDA_LAUNCH_BLOCKING=1 moves the hang to it."
    spots = {group.wait.spot for group in waiting}
    if scene.joined and count(waiting) <= count(scene.joined):
        yield Finding("cuda-sync", 0.77, named(waiting), [f"Waiting for its GPU: {say(waiting)}.", _waiting(scene)], elsewhere=elsewhere)
    elif len(spots) > 1:
        most = max(waiting, key=len)
        few = [group for group in waiting if group is not most]
        evidence = [f"{say(waiting)}.", "All wait for their GPUs, at different places: kernels of two groups may wait for each other."]
        yield Finding("cuda-sync", 0.72, named(few) if count(few) < len(most) else [], evidence, elsewhere=elsewhere)
        yield Finding("cross-group", 0.66, named(few) if count(few) < len(most) else [], evidence)
    else:
        yield Finding("cuda-sync", 0.52, [], [f"{say(waiting)}."], elsewhere=elsewhere)


def gil(scene: Scene) -> Iterable[Finding]:
    """A thread sleeps with the interpreter's lock in its hand."""
    holding = [group for group in scene.groups if group.standing.gil_holder is not None and not group.halted]
    if holding:
        holder = holding[0].standing.gil_holder
        top = holder.stack.frames[0] if holder is not None and holder.stack.frames else "?"
        name = holder.name if holder is not None else ""
        evidence = [f"{names(ids(holding))}: thread {name} holds the interpreter's lock while it sleeps in {top}; no other Python thread can run."]
        if scene.joined:
            evidence.append(_waiting(scene))
        yield Finding("gil-held", 0.88, named(holding), evidence, elsewhere="Compiled code called there doesn't release the lock; --native (NATIVE=1) shows which.")


def below_python(scene: Scene) -> Iterable[Finding]:
    """It hangs inside NCCL or the driver."""
    native = [group for group in scene.peers if group.kind in ("nccl", "abort")]
    if not native:
        return
    aborting = any(group.kind == "abort" for group in native)
    version = [f"Log: {hint.text}" for hint in scene.hints("nccl-version")[:1]]
    device_too = any(other.kind == "cuda" for group in native for other in group.standing.others)
    evidence = [f"{say(native)}: inside the communication library.", *version]
    yield Finding(
        "comm-library", 0.8, named(native), evidence,
        elsewhere="Compare the NCCL version with its known faults (2.25.1 hangs in abort; before 2.29.3 on aarch64 proxies can stall).",
    )  # fmt: skip
    if aborting:
        yield Finding("cleanup", 0.62, named(native), evidence)
    if device_too:
        yield Finding("cuda-sync", 0.7, named(native), [*evidence, "Another thread of it waits for the same driver."])


def back_home(scene: Scene) -> Iterable[Finding]:
    """One rank is back in its actor's loop while its like are in a collective."""
    home = [group for group in scene.off if group.kind == "ray-idle"]
    together = [group for group in scene.joined if group.kind in JOINED]
    if not home or not together or count(home) > count(together):
        return
    ranks = {process.rank for group in home for process in group.members}
    logged = [f"Log: {hint.text}" for hint in scene.hints("traceback") if hint.rank in ranks or hint.rank is None][:2]
    evidence = [f"{names(ids(home))} {'is' if count(home) == 1 else 'are'} back in Ray's loop, with nothing to do.", f"The others wait: {say(together)}.", *logged]
    elsewhere = "Ray keeps an exception of a method until somebody asks for its result, and the driver asks for all at once: `ray list tasks --filter state=FAILED` shows it now."
    yield Finding("exception-swallowed", 0.9 if logged else 0.66, named(home), evidence, elsewhere=elsewhere)
    yield Finding("uneven-steps", 0.6, named(home), evidence, elsewhere="Or it had fewer steps to do and has returned.")


def lock_file(scene: Scene) -> Iterable[Finding]:
    """Somebody waits for a lock file."""
    waiting = scene.having("file-lock")
    if not waiting:
        return
    builders = [group for group in scene.groups if group not in waiting and "compile" in group.phases]
    evidence = [f"{say(waiting)}."]
    if builders:
        yield Finding("compile-skew", 0.8, named(builders), [*evidence, f"Its holder may be {say(builders)}."], state="slow" if all(b.moved for b in builders) else "hung")
        yield Finding("stale-lock", 0.5, named(waiting), evidence)
        return
    everybody = count(waiting) == count(scene.peers) and bool(scene.peers)
    yield Finding(
        "stale-lock", 0.87, [] if everybody and not scene.joined else named(waiting), [*evidence, "No process of the dump is seen to hold it."],
        elsewhere="A build or download that was killed leaves its lock behind; remove the lock file when nobody has it open (`fuser FILE`).",
    )  # fmt: skip


def data_workers(scene: Scene) -> Iterable[Finding]:
    """A rank waits for its data workers."""
    waiting = [group for group in scene.groups if group.kind in ("dataloader", "mp-queue", "pipe") and group.role != "child"]
    for group in waiting:
        if group.kind in ("mp-queue", "pipe") and not scene.children_of([group]):
            continue
        children = scene.children_of([group])
        stuck = [child for child in children if not child.idle]
        who = named([group]) if group.role == "rank" else ids(stuck) or named([group])
        evidence = [f"{say(group)}: for its data workers."]
        if stuck:
            evidence.append(f"Its workers: {say(stuck)}.")
        elif children:
            evidence.append("Its workers have nothing to do: what it waits for was lost, or its worker ended.")
        if scene.joined:
            evidence.append(_waiting(scene))
        elsewhere = "A lock that was held while the worker was forked stays locked in it: use multiprocessing_context='spawn', or fork before threads start."
        if any(child.moved for child in stuck) or group.moved:
            yield Finding("data-worker", 0.82, who, [*evidence, "The second sample differs: slow data rather than a dead lock."], state="slow")
            continue
        score = 0.89 if stuck else 0.78 if scene.joined else 0.7
        yield Finding("data-worker", score, who, evidence, elsewhere=elsewhere)
