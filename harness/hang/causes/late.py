"""Causes that lie in the one for whom the others wait: late, looping, compiling, saving, or back where it began."""

from __future__ import annotations

from collections.abc import Iterable

from harness.hang.causes.finding import Cause, Finding, logged, named, say
from harness.hang.grouping import divergence, names, shared_way
from harness.hang.groups import Group, count, ids, kind_of_command
from harness.hang.model import Frame
from harness.hang.scene import Scene
from harness.hang.standing import of_threads
from harness.hang.waits import COLLECTIVE, RUNNING, is_plumbing

CAUSES = (
    Cause(
        "straggler",
        title="one is late and the others wait for it",
        means="It is somewhere else than in the call in which all others wait.",
        elsewhere="In what the late one does, or in what it was given to do.",
        next=(
            "make hang-dump GAP=10   # does {who} get on between the samples?",
            "py-spy top --pid {pid}",
        ),
    ),
    Cause(
        "python-loop",
        title="a loop in Python doesn't end",
        means="The interpreter works at one place without getting on.",
        elsewhere=(
            "In what the loop waits to become true, or in the data that it was given. It may also be only slow: more "
            "samples tell."
        ),
        next=("make hang-dump LOCALS=1   # the loop's variables on {who}",),
        apart={
            "straggler": "make hang-dump GAP=10   # the same line with a core busy is a loop, another line is slow",
        },
    ),
    Cause(
        "exception-swallowed",
        title="an exception was caught and hidden",
        means="One process failed, said so to nobody, and the others wait for it.",
        elsewhere="Where the exception was raised; the except, finally or actor that keeps it only hides it.",
        next=(
            "grep -n -A20 Traceback on the log of {who}",
            "ray list tasks --filter state=FAILED --detail   # under Ray",
        ),
        apart={
            "uneven-steps": "grep Traceback on the log of {who}; `ray list tasks --filter state=FAILED`",
        },
    ),
    Cause(
        "compile-skew",
        title="some compile while the others wait",
        means="A compile, a cold cache or an import takes one rank longer than the others' patience.",
        elsewhere="In a cold or unwritable compile cache, or a compile that failed on one rank.",
        next=(
            "py-spy dump --pid {pid} --subprocesses   # is a compiler at work for {who}?",
            "warm the cache before the first collective",
        ),
    ),
    Cause(
        "checkpoint-skew",
        title="some save while the others wait",
        means="Saving takes longer than the others' time-out, or doesn't get on.",
        elsewhere=(
            "In the others' time-out, which must be longer than saving takes, or in making them wait for it in a "
            "collective."
        ),
        next=("cat /proc/PID/io   # twice: bytes written tell slow from stuck",),
    ),
)

# Waits of a late one that other rules explain.
_OTHER_WAITS = frozenset(
    {"rollout", "ray-get", "http", "dataloader", "file-lock", "loop", "ray-place", "ray-fetch", "engine-reply"}
)
# In so many samples a loop shows, so many calls below it at most.
_SAMPLES_OF_A_LOOP, _NOT_FAR = 4, 3
_EXPLAINED = frozenset({"compile", "checkpoint", "loading", "user-code", "offload"})


def apart(scene: Scene) -> list[Group]:
    """Peers elsewhere, when there are others that wait for them and don't get on."""
    stuck = [group for group in scene.waiting if not group.moved]
    return [group for group in scene.off if not group.idle] if stuck else []


def others_wait(scene: Scene) -> str:
    """The sentence that says so."""
    return f"The others wait: {say(scene.waiting)}."


def straggler(scene: Scene) -> Iterable[Finding]:
    """One is somewhere else; the others are in a collective."""
    late = apart(scene)
    if not late:
        return
    evidence = [f"{say(late)}.", others_wait(scene)]
    working = all(group.moved or group.computes for group in late)
    if all(group.moved for group in late):
        slow = "Its second sample differs: it gets on, so this is slow rather than stuck."
        yield Finding("straggler", 0.84, named(late), [*evidence, slow], state="slow")
        if going_round := [home for group in late if (home := goes_round(group)) is not None]:
            homes = ", ".join(dict.fromkeys(map(str, going_round)))
            more = f"In every sample it was somewhere in {homes}: a loop, and nobody can see whether it ends."
            yield Finding("python-loop", 0.8, named(late), [*evidence, more], state="slow")
    elif any(group.blocked_in_kernel for group in late):
        channels = {process.wchan for group in late for process in group.members if process.wchan}
        where = f" ({', '.join(sorted(channels)[:3])})" if channels else ""
        state = f"It is in state D: the kernel waits{where} for a disk, a network file system or a driver."
        yield Finding("straggler", 0.74, named(late), [*evidence, state])
    else:
        explained = all(group.kind in _OTHER_WAITS or group.on_file_lock for group in late)
        # With most of them elsewhere it is the waiting one that came first.
        outnumbered = count(late) > count(scene.waiting)
        score = 0.45 if outnumbered else 0.48 if explained else 0.57
        if working:
            evidence = [*evidence, "It computes: long work or a loop without end, and nobody can see which."]
        yield Finding("straggler", score, named(late), evidence, "slow" if working else "hung")
        yield from _ahead(scene, late, evidence)


def goes_round(group: Group) -> Frame | None:
    """The function of own code that a computing process was in, and not far below, in all of several samples."""
    stacks = [
        standing.wait.clean
        for sample in group.members[0].samples
        if sample.threads and (standing := of_threads(sample.threads)) is not None
    ]
    if len(stacks) < _SAMPLES_OF_A_LOOP or group.phases & _EXPLAINED:
        return None
    shared = shared_way(stacks)
    # All samples may have met one library call that the loop makes.
    while shared and is_plumbing(stacks[-1][-shared]):
        shared -= 1
    home = stacks[-1][-shared] if shared else None
    shallow = all(len(stack) - shared <= _NOT_FAR for stack in stacks)
    return home if home is not None and home.name != "<module>" and shallow else None


def _ahead(scene: Scene, late: list[Group], evidence: list[str]) -> Iterable[Finding]:
    """One that has passed the call in which the others wait isn't late: it has left something out."""
    waiting = max(scene.waiting, key=len)
    if waiting.kind not in COLLECTIVE:
        return
    ahead = []
    for group in late:
        shared = divergence(group.wait.clean, waiting.wait.clean)
        if group.kind != RUNNING or group.phases & _EXPLAINED or shared is None:
            continue
        here, there = shared
        if here.line > there.line > 0:
            who = group.who
            ahead.append(f"{who} is at line {here.line} of {here.name}, past line {there.line} where the others are.")
    if ahead:
        yield Finding("collective-mismatch", 0.53, named(late), [*evidence, *ahead])


def caught(scene: Scene) -> Iterable[Finding]:
    """The one that stands apart has an exception in its log."""
    late = [group for group in scene.off if not group.moved]
    ranks = {process.rank for group in late for process in group.members if process.rank is not None}
    raised = logged(hint for hint in scene.hints("traceback") if hint.rank in ranks)
    if raised and any(not group.moved for group in scene.joined):
        evidence = [f"{say(late)}, after an exception.", *raised, others_wait(scene)]
        yield Finding("exception-swallowed", 0.84, named(late), evidence)


_WAITS_INSIDE = frozenset({"queue", "lock", "future", "join", "loop"})


def died_unseen(scene: Scene) -> Iterable[Finding]:
    """A thread of the process, or a task, has ended by an exception; what is left waits inside the process."""
    for group in scene.groups:
        if group.kind not in _WAITS_INSIDE or group.idle or group.moved or group.halted:
            continue
        logs = {name for process in group.members for name in process.logs} | _loose_logs(scene)
        ended = [hint for hint in scene.hints("thread-died", "task-died") if hint.source in logs]
        if not ended:
            continue
        raised = logged(hint for hint in scene.hints("traceback") if hint.source in logs)
        # An event loop goes on without a task; a thread that makes what the main thread waits for is missed.
        score = 0.84 if any(hint.kind == "thread-died" for hint in ended) and group.kind != "loop" else 0.66
        yield Finding("exception-swallowed", score, named([group]), [f"{say(group)}.", *logged(ended, most=1), *raised])


def _loose_logs(scene: Scene) -> set[str]:
    """Logs that somebody named; where there is but one group, and no log of its own, they can be nobody else's."""
    if len(scene.groups) != 1 or any(process.logs for process in scene.dump.processes):
        return set()
    return {hint.source for hint in scene.dump.hints if hint.source}


def polls_after_failure(scene: Scene) -> Iterable[Finding]:
    """A program looks again and again for something that nobody makes any more: what should have made it has failed."""
    for group in scene.groups:
        if group.kind != RUNNING or group.role != "driver" or group.standing.active or group.moved or group.listens:
            continue
        if any(not other.idle and other.kind != "loop" for other in scene.groups if other is not group):
            continue
        logs = {name for process in group.members for name in process.logs}
        failed = [hint for hint in scene.hints("failure", "task-died", "thread-died") if hint.source in logs]
        if failed:
            alone = f"{say(group)}, asleep in every sample, and nobody else is at work."
            yield Finding("exception-swallowed", 0.68, named([group]), [alone, *logged(failed[-2:])])


def back_home(scene: Scene) -> Iterable[Finding]:
    """One rank is back in its actor's loop while its like are in a collective."""
    home = [group for group in scene.off if group.kind == "ray-idle"]
    if not home or count(home) > count(scene.joined):
        return
    ranks = {process.rank for group in home for process in group.members}
    raised = logged(hint for hint in scene.hints("traceback") if hint.rank in ranks or hint.rank is None)
    verb = "is" if count(home) == 1 else "are"
    evidence = [f"{names(ids(home))} {verb} back in Ray's loop, with nothing to do.", others_wait(scene), *raised]
    kept = "Ray keeps an exception until somebody asks for the result, and the driver asks for all results at once."
    yield Finding("exception-swallowed", 0.9 if raised else 0.66, named(home), [*evidence, kept])
    # One of another class has another part to play: it returns before it was met by an exception, not by fewer steps.
    alike = _kinds(home) & _kinds(scene.joined)
    fewer = "Or it had fewer steps to do and has returned."
    yield Finding("uneven-steps", 0.6 if alike else 0.45, named(home), [*evidence, fewer])


def _kinds(groups: list[Group]) -> set[str]:
    return {kind_of_command(process) for group in groups for process in group.members}


def python_loop(scene: Scene) -> Iterable[Finding]:
    """The interpreter goes round and round at one place."""
    if not scene.joined and any(group.moved for group in scene.groups):
        return
    for group in scene.groups:
        if group.kind != RUNNING or group.halted or group.moved or "cleanup" in group.phases:
            continue
        less = 0.3 if group.phases & _EXPLAINED else 0.0
        others = [others_wait(scene)] if scene.joined else []
        who = named([group]) if scene.joined or group not in scene.peers else []
        thread = group.standing.thread
        if group.progress == "still" and group.busy:
            # Without the interpreter's lock it is compiled code that computes.
            text = f"{say(group)}, at the same line in every sample and with a core busy."
            score = 0.56 if not thread.holds_gil else 0.63 if scene.joined else 0.86
            # Ranks that all compute, and none waits for another: two samples of a training often meet the same line.
            trains = group in scene.peers and not scene.joined and count(scene.peers) > 1
            # One call of compiled code that takes long looks the same; most give the lock back meanwhile.
            stuck = thread.holds_gil and bool(scene.joined)
            score = (min(score, 0.62) if trains else score) - less
            yield Finding("python-loop", score, who, [text, *others], "hung" if stuck else "slow")
        elif group.progress == "looping" and group.busy:
            text = f"{say(group)}, in the same function in every sample and with a core busy."
            # With nobody waiting for it this is what a program that works looks like as well.
            yield Finding("python-loop", 0.62 - less, who, [text, *others], "hung" if scene.joined else "slow")
        elif not group.progress and thread.active and thread.holds_gil and scene.joined and group in scene.peers:
            text = f"{say(group)}, running and holding the interpreter's lock."
            yield Finding("python-loop", 0.58 - less, who, [text, *others])


def compiling(scene: Scene) -> Iterable[Finding]:
    """Some compile or import while the others wait."""
    late = [group for group in apart(scene) if group.phases & {"compile", "import"} and group.kind != "file-lock"]
    if late:
        moved = all(group.moved or group.computes for group in late)
        evidence = [f"Compiling or importing: {say(late)}.", others_wait(scene)]
        yield Finding("compile-skew", 0.86 if moved else 0.8, named(late), evidence, "slow" if moved else "hung")


def saving(scene: Scene) -> Iterable[Finding]:
    """Some save, or move weights, while the others wait."""
    late = [group for group in apart(scene) if group.phases & {"checkpoint", "offload"} and group.kind != "cuda"]
    if not late:
        return
    moved = all(group.moved or group.computes for group in late)
    gain, state = (0.06, "slow") if moved else (0.0, "hung")
    if all("checkpoint" not in group.phases for group in late):
        evidence = [f"Moving weights: {say(late)}.", others_wait(scene)]
        yield Finding("straggler", 0.72 + gain, named(late), evidence, "slow" if moved else "hung")
    else:
        evidence = [f"Saving: {say(late)}.", others_wait(scene)]
        yield Finding("checkpoint-skew", 0.8 + gain, named(late), evidence, "slow" if state == "slow" else "hung")


RULES = (straggler, caught, died_unseen, back_home, polls_after_failure, python_loop, compiling, saving)
