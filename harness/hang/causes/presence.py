"""Causes that lie in who is there: processes that ended, are stopped, never joined, or leave while others stay."""

from __future__ import annotations

from collections.abc import Iterable

from harness.hang.causes.finding import Finding, named, say
from harness.hang.grouping import names
from harness.hang.model import Process
from harness.hang.scene import Group, Scene, count
from harness.hang.waits import COMMUNICATION, JOINING, LEAVING, RUNNING

_DEPENDENT = COMMUNICATION | {"ray-get", "pipe", "queue", "mp-queue", "join", "future", "engine-reply", "http", "rollout"}


def stopped(scene: Scene) -> Iterable[Finding]:
    """Somebody pressed Ctrl-Z, sent SIGSTOP, or has a debugger attached."""
    halted = [group for group in scene.groups if group.halted]
    unread = [process for process in scene.unread if process.state in ("T", "t")]
    if halted or unread:
        who = named(halted) + [process.id for process in unread]
        traced = any(group.state == "t" for group in halted) or any(process.state == "t" for process in unread)
        how = "is being traced by a debugger" if traced else "is in state T (stopped by a signal)"
        evidence = [f"{names(who)} {how}." if len(who) == 1 else f"{names(who)}: each {how}."]
        if scene.waiting:
            evidence.append(f"The others wait for it: {say(scene.waiting)}.")
        yield Finding("stopped", 0.96, who, evidence)


def dead_peer(scene: Scene) -> Iterable[Finding]:
    """A process has ended or never started, and the others wait for it."""
    yield from _dead_actor(scene)
    gone = [process for process in scene.gone if process.role != "child"]
    waiters = [group for group in scene.groups if group.kind in _DEPENDENT]
    if not gone or not waiters:
        return
    who = [process.id for process in gone]
    joining = bool(scene.waiting) and all(group.kind in JOINING for group in scene.waiting)
    ended_well = [process for process in gone if process.exit_code == 0]
    looked_for = [process for process in gone if process.id not in scene.inferred]
    waiting = f"Still waiting: {say(waiters)}."
    raised = _tracebacks(scene, gone)
    if ended_well and len(ended_well) == len(gone):
        text = f"{names(who)} ended with exit code 0 while the others still wait."
        yield Finding(
            "exception-swallowed", 0.93 if raised else 0.72, who, [text, *raised, waiting],
            elsewhere="Look for an `except` or a `finally` around its training loop that lets it end as if all were well.",
        )  # fmt: skip
        yield Finding("uneven-steps", 0.6, who, [text, waiting])
        yield Finding("dead-peer", 0.64, who, [text, waiting])
        return
    evidence = [_how_gone(process) for process in gone[:4]]
    evidence += [f"Log: {hint.text}" for hint in scene.hints("oom")[:2]]
    score = 0.58
    if any(process.state == "Z" or process.exit_code for process in looked_for) or scene.hints("oom"):
        score = 0.92
    elif looked_for:
        # Who reads a pipe of a process that it has started expects it to be there.
        score = 0.8 if not joining or scene.having("init-pipe") else 0.66
    yield Finding(
        "dead-peer", score, who, [*evidence, *raised, waiting],
        elsewhere="The survivors' stacks show only that they wait; why it ended is in its own log, its exit code or the kernel's (`dmesg`).",
    )  # fmt: skip
    if raised:
        yield Finding("exception-swallowed", 0.6, who, raised)


def _dead_actor(scene: Scene) -> Iterable[Finding]:
    lost = scene.hints("ray-died", "ray-lost")
    waiting = scene.having("ray-get")
    if lost and waiting:
        evidence = [f"Log: {hint.text}" for hint in lost[:3]] + [f"{say(waiting)}."]
        yield Finding("dead-peer", 0.8, [], evidence, elsewhere="`ray list actors --filter state=DEAD --detail` shows why it died.")


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
    hints = [hint for hint in scene.hints("traceback") if hint.rank in ranks or hint.source in logs]
    return [f"Its log has: {hint.text}" for hint in hints[:2]]


def cleanup(scene: Scene) -> Iterable[Finding]:
    """Some are taking things down while the others still train."""
    leaving = [group for group in scene.peers if _leaves(group)]
    staying = [group for group in scene.joined if group not in leaving]
    if not leaving:
        return
    elsewhere = (
        "The mistake is not in the cleanup: something made these leave their loop early, most often an exception that "
        "`__exit__`, `finally` or an `except` hides while it waits here. Read their log above the hang."
    )
    if staying:
        evidence = [f"Taking down: {say(leaving)}.", f"Still at work: {say(staying)}."]
        logged = [f"Log: {hint.text}" for hint in scene.hints("traceback")[:2]]
        yield Finding("cleanup", 0.92, named(leaving), evidence + logged, elsewhere=elsewhere)
        yield Finding("exception-swallowed", 0.7 if logged else 0.5, named(leaving), evidence + logged, elsewhere=elsewhere)
        return
    working = [group for group in scene.off if group not in leaving and group.kind in (RUNNING, "cuda")]
    if working and any(group.kind in LEAVING for group in leaving):
        yield Finding("cleanup", 0.7, named(leaving), [f"Taking down: {say(leaving)}.", f"Still at work: {say(working)}."], elsewhere=elsewhere)
        return
    if len(leaving) == len(scene.peers) and any(group.kind == "destroy" for group in leaving) and count(leaving) > 1:
        evidence = [f"Everybody is taking down: {say(leaving)}."]
        yield Finding("cleanup", 0.6, [], [*evidence, "An operation that was started and never finished holds the teardown up."])
        yield Finding("comm-library", 0.57, [], evidence)


def _leaves(group: Group) -> bool:
    if group.kind == "destroy":
        return True
    if group.kind == "abort" or "cleanup" not in group.phases or group.idle:
        return False
    # A thread that computes inside something called `cleanup` is not what we mean; one that sleeps there is.
    return group.kind in COMMUNICATION or (group.kind in (RUNNING, "join", "lock") and not group.standing.active)


def init(scene: Scene) -> Iterable[Finding]:
    """Not everybody has come to the first meeting."""
    joining = [group for group in scene.waiting if group.kind in JOINING]
    if not joining or len(joining) < len(scene.waiting):
        return
    at_run_time = any(group.kind == "new-group" or "weight-sync" in group.phases for group in joining)
    late = [group for group in scene.off if not group.idle]
    absent = [process.id for process in scene.gone if process.role == "rank"]
    evidence = [f"Joining: {say(joining)}."]
    evidence += [f"Log: {hint.text}" for hint in scene.hints("store-barrier", "init-timeout")[:1]]
    calling = [group for group in scene.others if group.kind == "http" and "weight-sync" in group.phases]
    if at_run_time:
        crossing = [f"Asked to join, and waiting for an answer: {say(calling)}."] if calling else []
        yield Finding(
            "pg-create", 0.83 if calling else 0.74, named(late), [*evidence, *crossing, *([f"Elsewhere: {say(late)}."] if late else [])],
            elsewhere="Groups must be created in the same order by everybody that is in them, servers that handle one request at a time included.",
        )  # fmt: skip
    if absent:
        yield Finding("init", 0.75, absent, [*evidence, f"Not there: {names(absent)}."])
    elif late:
        yield Finding(
            "init", 0.6 if at_run_time else 0.87, named(late), [*evidence, f"Not there yet: {say(late)}."],
            elsewhere="What keeps the late one busy is shown by its own stack; loading and compiling belong behind the first meeting, or its time-out above them.",
        )  # fmt: skip
    else:
        yield Finding(
            "init", 0.6 if at_run_time else 0.7, [], [*evidence, "All that were dumped are there."],
            elsewhere="World size, MASTER_ADDR or MASTER_PORT differ between ranks, or a rank on another machine wasn't dumped.",
        )  # fmt: skip
