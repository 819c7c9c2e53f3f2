"""Causes that lie in who is there: processes that ended, are stopped, never joined, or leave while others stay."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.hang.causes.finding import Cause, Finding, logged, named, say
from harness.hang.grouping import names, shared_way
from harness.hang.groups import Group, count
from harness.hang.model import Process
from harness.hang.scene import Scene
from harness.hang.waits import COMMUNICATION, JOINING, LEAVING, RUNNING, phases_of

CAUSES = (
    Cause(
        "stopped",
        title="a process is stopped",
        means="It got SIGSTOP or Ctrl-Z, or a debugger holds it; the others wait for it.",
        elsewhere=(
            "In whoever stopped it: a terminal's Ctrl-Z, a scheduler that preempts, a debugger or profiler that was "
            "left attached."
        ),
        next=("kill -CONT {pid}   # {who} goes on",),
    ),
    Cause(
        "dead-peer",
        title="a process is gone and the others wait for it",
        means="The survivors don't notice; they wait until their time-out.",
        elsewhere=(
            "Not in the survivors' stacks: why it ended is in its own log, its exit code, or the kernel's messages."
        ),
        next=(
            "dmesg -T | grep -i -E 'killed process|oom|xid'   # on the machine of {who}",
            "the end of its log, and its exit code",
        ),
        apart={
            "init": "ps and the launcher's log on the machine of {who}: did it start at all?",
            "exception-swallowed": "the exit code and the end of the log of {who}",
        },
    ),
    Cause(
        "cleanup",
        title="some are taking down while others still train",
        means="Whoever left its loop early waits in its cleanup for ranks that will never come there.",
        elsewhere=(
            "Not in the cleanup: something made them leave their loop early, most often an exception that __exit__, "
            "finally or an except hides while it waits here."
        ),
        next=(
            "read the log of {who} above the hang: an exception there is the mistake",
            "destroy the process group only after success; let an exception end the process",
        ),
    ),
    Cause(
        "init",
        title="not everybody has come to the first meeting",
        means="Groups form only when every rank has called; somebody hasn't.",
        elsewhere=(
            "In what the late one does first: loading and compiling belong behind the first meeting, or its time-out "
            "above them."
        ),
        next=(
            "py-spy dump --pid {pid}   # what keeps {who}",
            "compare WORLD_SIZE, RANK, MASTER_ADDR and MASTER_PORT of all ranks",
        ),
    ),
    Cause(
        "pg-create",
        title="groups are created in different orders",
        means="Everybody waits to finish joining a group whose other members are busy joining another.",
        elsewhere=(
            "Groups must be created in one order by everybody in them, servers that handle one request at a time "
            "included."
        ),
        next=("create and join one group after the other, in one order everywhere",),
    ),
)

_EXIT_CODE = re.compile(r"ended, with exit code (-?\d+)")
# Where a server waits for those that it has started.
_ENGINE = re.compile(r"wait_for_ready|wait_for_engine_startup")
# Waits that end only by somebody else's doing.
_DEPENDENT = COMMUNICATION | {
    "ray-get", "pipe", "queue", "mp-queue", "join", "future", "engine-reply", "http", "rollout", "dataloader",
}  # fmt: skip


def stopped(scene: Scene) -> Iterable[Finding]:
    """Somebody pressed Ctrl-Z, sent SIGSTOP, or has a debugger attached."""
    yield from _paused(scene)
    halted = [group for group in scene.groups if group.halted]
    unread = [process for process in scene.unread if process.state in ("T", "t")]
    who = named(halted) + [process.id for process in unread]
    if not who:
        return
    traced = any(group.state == "t" for group in halted) or any(process.state == "t" for process in unread)
    how = "is being traced by a debugger" if traced else "is in state T (stopped by a signal)"
    evidence = [f"{names(who)}: each {how}." if len(who) > 1 else f"{names(who)} {how}."]
    if scene.waiting:
        evidence.append(f"The others wait for it: {say(scene.waiting)}.")
    yield Finding("stopped", 0.96, who, evidence)


def _paused(scene: Scene) -> Iterable[Finding]:
    """A container that was named is paused: whatever runs in it is stopped."""
    paused = [name for name, reason in scene.dump.unreachable.items() if "paused" in reason]
    if paused:
        evidence = [f"Container {name} is paused: nothing in it runs." for name in paused]
        score, waiting = (0.93, _waiters(scene)) if _waiters(scene) else (0.8, "")
        yield Finding("stopped", score, _in_there(scene, paused), [*evidence, *([waiting] if waiting else [])])


def _ended_there(scene: Scene) -> Iterable[Finding]:
    """A container that was named has ended."""
    ended = {
        name: int(match[1])
        for name, reason in scene.dump.unreachable.items()
        if (match := _EXIT_CODE.search(reason)) is not None
    }
    if ended and (waiting := _waiters(scene)):
        evidence = [f"Container {name} has ended, with exit code {code}." for name, code in ended.items()]
        yield Finding("dead-peer", 0.9, _in_there(scene, list(ended)), [*evidence, waiting])


def _in_there(scene: Scene, containers: list[str]) -> list[str]:
    """The ranks that can be nowhere else; without any the containers themselves."""
    if scene.unasked and len(containers) == len(scene.dump.unreachable):
        return [f"rank{rank}" for rank in scene.unasked]
    return containers


def _waiters(scene: Scene) -> str:
    waiting = [group for group in scene.groups if group.kind in _DEPENDENT]
    return f"Still waiting: {say(waiting)}." if waiting else ""


def dead_peer(scene: Scene) -> Iterable[Finding]:
    """A process has ended or never started, and the others wait for it."""
    yield from _dead_actor(scene)
    yield from _ended_there(scene)
    # A child that has ended matters where its owner waits for it.
    asking = set(named(scene.having("pipe", "mp-queue", "dataloader", "join")))
    gone = [process for process in scene.gone if process.role != "child" or process.owner in asking]
    waiters = [group for group in scene.groups if group.kind in _DEPENDENT]
    if not gone or not waiters:
        return
    waiting = f"Still waiting: {say(waiters)}."
    raised = _tracebacks(scene, gone)
    if all(process.exit_code == 0 for process in gone):
        yield from _ended_well(gone, waiting, raised)
    else:
        yield from _ended_badly(scene, gone, waiting, raised)


def _ended_well(gone: list[Process], waiting: str, raised: list[str]) -> Iterable[Finding]:
    who = [process.id for process in gone]
    evidence = [f"{names(who)} ended with exit code 0 while the others still wait.", *raised, waiting]
    yield Finding("exception-swallowed", 0.93 if raised else 0.73, who, evidence)
    yield Finding("uneven-steps", 0.6, who, evidence)
    yield Finding("dead-peer", 0.64, who, evidence)


def _ended_badly(scene: Scene, gone: list[Process], waiting: str, raised: list[str]) -> Iterable[Finding]:
    who = [process.id for process in gone]
    looked_for = [process for process in gone if process.id not in scene.inferred]
    joining = bool(scene.waiting) and all(group.kind in JOINING for group in scene.waiting)
    killed = logged(scene.hints("oom"))
    score = 0.58
    if killed or any(process.state == "Z" or process.exit_code for process in looked_for):
        score = 0.92
    elif looked_for:
        # Who reads the pipe of a process that it has started expects that one to be there.
        score = 0.8 if not joining or scene.having("init-pipe") else 0.66
    yield Finding("dead-peer", score, who, [*map(_how_gone, gone[:4]), *killed, *raised, waiting])
    if raised:
        yield Finding("exception-swallowed", 0.6, who, raised)


def _dead_actor(scene: Scene) -> Iterable[Finding]:
    lost = logged(scene.hints("ray-died", "ray-lost"))
    waiting = scene.having("ray-get")
    if lost and waiting:
        yield Finding("dead-peer", 0.8, [], [*lost, f"{say(waiting)}."])


def _how_gone(process: Process) -> str:
    if process.exit_code is not None:
        if process.exit_code < 0:
            return f"{process.id} was ended by signal {-process.exit_code}."
        return f"{process.id} ended with exit code {process.exit_code}."
    if process.state == "Z":
        return f"{process.id} is a zombie: it has ended, and its parent hasn't asked how."
    return f"{process.id} is expected and was not found."


def _tracebacks(scene: Scene, gone: list[Process]) -> list[str]:
    """Exceptions in the logs of those that are gone."""
    ranks = {process.rank for process in gone if process.rank is not None}
    logs = {name for process in gone for name in process.logs}
    return logged(hint for hint in scene.hints("traceback") if hint.rank in ranks or hint.source in logs)


def cleanup(scene: Scene) -> Iterable[Finding]:
    """Some are taking things down while the others still train."""
    shared = shared_way([group.wait.clean for group in scene.peers])
    leaving = [group for group in scene.peers if _leaves(group, shared)]
    staying = [group for group in scene.joined if group not in leaving]
    working = [group for group in scene.off if group not in leaving and group.kind in (RUNNING, "cuda")]
    if not leaving:
        return
    down = f"Taking down: {say(leaving)}."
    if staying:
        raised = logged(scene.hints("traceback"))
        evidence = [down, f"Still at work: {say(staying)}.", *raised]
        yield Finding("cleanup", 0.92, named(leaving), evidence)
        yield Finding("exception-swallowed", 0.7 if raised else 0.5, named(leaving), evidence)
    elif working and any(group.kind in LEAVING for group in leaving):
        yield Finding("cleanup", 0.7, named(leaving), [down, f"Still at work: {say(working)}."])
    elif len(leaving) == len(scene.peers) and count(leaving) > 1 and any(group.kind == "destroy" for group in leaving):
        held_up = "Everybody is taking down; an operation that was started and never finished can hold that up."
        yield Finding("cleanup", 0.6, [], [down, held_up])
        yield Finding("comm-library", 0.57, [], [down])


def _leaves(group: Group, shared: int) -> bool:
    if group.kind == "destroy":
        return True
    # A call that all have in common, whatever its name, doesn't tell one from the other.
    own_way = group.wait.clean[: len(group.wait.clean) - shared]
    if group.kind == "abort" or group.idle or not any("cleanup" in phases_of(frame) for frame in own_way):
        return False
    # A thread that computes inside something called `cleanup` is not what we mean; one that sleeps there is.
    return group.kind in COMMUNICATION or (group.kind in (RUNNING, "join", "lock") and not group.standing.active)


def init(scene: Scene) -> Iterable[Finding]:
    """Not everybody has come to the first meeting."""
    joining = [group for group in scene.waiting if group.kind in JOINING]
    if not joining or len(joining) < len(scene.waiting):
        making = [group for group in joining if group.kind == "new-group"]
        if making and count(making) < count(scene.joined):
            few = [f"Making a group: {say(making)}.", f"Not making it: {say(scene.joined)}."]
            yield Finding("pg-create", 0.7, named(making), few)
        return
    at_run_time = any(group.kind == "new-group" or "weight-sync" in group.phases for group in joining)
    late = [group for group in scene.off if not group.idle]
    absent = [process.id for process in scene.gone if process.role == "rank"]
    evidence = [f"Joining: {say(joining)}.", *logged(scene.hints("store-barrier", "init-timeout"), most=1)]
    if at_run_time:
        calling = [group for group in scene.others if group.kind == "http" and "weight-sync" in group.phases]
        crossing = [f"Asked to join, and waiting for an answer: {say(calling)}."] if calling else []
        elsewhere = [f"Elsewhere: {say(late)}."] if late else []
        yield Finding("pg-create", 0.83 if calling else 0.74, named(late), [*evidence, *crossing, *elsewhere])
    if absent:
        yield Finding("init", 0.75, absent, [*evidence, f"Not there: {names(absent)}."])
    elif late:
        slow = all(group.gets_on or group.computes for group in late)
        yield Finding(
            "init", 0.6 if at_run_time else 0.87, named(late), [*evidence, f"Not there yet: {say(late)}."],
            "slow" if slow else "hung",
        )  # fmt: skip
    elif starting := _what_an_engine_starts(scene, joining):
        # Its front waits for its own workers, which load, compile and measure for minutes.
        yield Finding(
            "init", 0.7, named(starting), [*evidence, f"What is being started gets on: {say(starting)}."], "slow"
        )
    else:
        everybody = "All that were dumped are there: is WORLD_SIZE, MASTER_ADDR or MASTER_PORT another on some rank?"
        yield Finding("init", 0.6 if at_run_time else 0.7, [], [*evidence, everybody])


def _what_an_engine_starts(scene: Scene, joining: list[Group]) -> list[Group]:
    """Who gets on while nobody but parts of an inference server wait for the first meeting."""
    if any(group.role == "rank" or not _ENGINE.search(str(group.wait)) for group in joining):
        return []
    return [group for group in scene.others if group.gets_on or group.computes]


RULES = (stopped, dead_peer, cleanup, init)
