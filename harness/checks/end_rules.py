"""Judgements on whether an agent loads and its run ends, and where it is when it doesn't; pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from typing import Any

from harness.agent.frames import frame_at
from harness.agent.source import AgentSource
from harness.checks import both, known_errors
from harness.checks.findings import Finding, Place
from harness.checks.gather import Gathered

_CRASH = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)


def loaded(run: Gathered, agent: AgentSource) -> Finding | None:
    """The agent can be imported, made, and held against the contract."""
    title = "agent loads"
    if (unfit := run.trace.event("unfit")) is not None:
        line = unfit["line"]
        place = None if line is None or agent.path is None else Place(file=str(agent.path), line=line)
        return Finding(
            id=f"agent.{unfit['kind']}",
            title=title,
            status="fail",
            detail=unfit["what"],
            consequence=unfit["consequence"],
            mend=unfit["mend"],
            place=place,
        )
    raised = run.trace.raised
    if raised is not None and raised["during"] == "import":
        found = _raised(raised, "agent.import", title, "It raises before it can run.")
        return found.model_copy(update={"mend": known_errors.mend(raised, agent)})
    if run.trace.event("constructed") is None and run.trace.cut is None:
        return process_ended(run, "agent.import", title)
    if run.trace.event("constructed") is None:
        return None
    return Finding(id="agent.load", title=title, status="pass", detail=agent.given)


def ended(run: Gathered, agent: AgentSource) -> Finding | None:
    """The run comes to its end by itself and returns."""
    title = "run ends"
    if run.trace.cut is not None:
        return _cut(run)
    if run.trace.event("constructed") is None:
        return None
    returned, raised = run.trace.event("returned"), run.trace.raised
    if returned is not None:
        return Finding(
            id="run.end",
            title=title,
            status="pass",
            detail=f"returned after {returned['seconds']:.2f} s",
            seconds=round(returned["seconds"], 3),
        )
    if raised is not None:
        if raised["type"] == "SystemExit":
            return _raised(raised, "run.exit", title, both.ENDS_ALL)
        found = _raised(raised, "run.raises", title, both.DROPPED)
        return found.model_copy(update={"mend": known_errors.mend(raised, agent)})
    return process_ended(run, "run.exit", title)


def _raised(raised: dict[str, Any], id_: str, title: str, consequence: str) -> Finding:
    stack = tuple(_places(raised["frames"], own=True))
    message = " ".join(raised["message"].split())[:300]
    detail = f"{raised['type']}: {message}" if message else raised["type"]
    if raised["type"] == "SystemExit":
        detail = f"sys.exit({raised['exit_code']})"
    inner = raised["frames"][-1] if raised["frames"] else None
    if inner is not None and not inner["own"]:
        detail += f" (raised in {'/'.join(inner['file'].split('/')[-2:])}:{inner['line']})"
    return Finding(
        id=id_,
        title=title,
        status="fail",
        detail=detail,
        consequence=consequence,
        place=stack[-1] if stack else None,
        stack=stack,
        facts={"type": raised["type"], "during": raised["during"], "seconds": round(raised["seconds"], 3)},
    )


def process_ended(run: Gathered, id_: str, title: str) -> Finding:
    """The process left without a word, or with one of ``os._exit``."""
    exiting = run.trace.event("exiting")
    consequence = both.ENDS_ALL
    if exiting is not None:
        stack = tuple(_places(exiting["frames"], own=True))
        return Finding(
            id=id_,
            title=title,
            status="fail",
            detail=f"os._exit({exiting['status']})",
            consequence=consequence,
            place=stack[-1] if stack else None,
            stack=stack,
        )
    status = run.trace.exit_status or 0
    how = f"exit code {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
    # faulthandler has written the stack of a crash to standard error, innermost first.
    crash = [frame_at(file, int(line), function) for file, line, function in _CRASH.findall(run.trace.errors.text())]
    stack = tuple(_places([frame.as_dict() for frame in reversed(crash)], own=True)) if status < 0 else ()
    last = run.trace.errors.last_lines(3) if not stack else []
    return Finding(
        id=id_,
        title=title,
        status="fail",
        detail=f"the process ended with {how}" + (f"; its last words: {' / '.join(last)}" if last else ""),
        consequence=consequence,
        mend="dmesg | tail   # was it short of memory?" if status == -signal.SIGKILL else "",
        place=stack[-1] if stack else None,
        stack=stack,
    )


def _cut(run: Gathered) -> Finding:
    """Still not done at the time limit: where it waits, from the task of the run or the main thread."""
    frames, how = waiting_place(run.trace.stacks)
    stack = tuple(_places(frames, own=True))
    under_way = [call for call in run.calls if call.abandoned]
    made = sum(call.is_generation for call in run.calls)
    turns = how == "waits" and made > both.MANY_TURNS
    detail = f"not done after {run.trace.cut:g} s" + (f" and {made} calls to the model" if turns else "")
    if stack:
        inner = frames[-1]
        at = (
            ""
            if inner["own"]
            else f", in {inner['function']} ({'/'.join(inner['file'].split('/')[-2:])}:{inner['line']})"
        )
        detail += f"; {how} at {stack[-1].file}:{stack[-1].line}{at}"
    mend = both.ENDLESS_TURNS if turns else "" if stack else "TIMEOUT=600   # if it is only slow"
    tried = both.tried_again([call for call in run.calls if call.is_generation])
    if tried is not None:
        count, first = tried
        detail += f"; {count} of {made} calls failed alike: {both.call_problem(first)}"
        known = known_errors.refused(both.call_problem(first), first.status == 404)
        mend = "\n".join(filter(None, [known, both.ENDLESS_TRIES]))
    if under_way:
        detail += f"; {len(under_way)} call{'s' if len(under_way) > 1 else ''} to the model under way"
    if run.trace.cut_during == "run" and run.trace.ended_by == "kill":
        detail += "; it didn't heed being cancelled and was killed"
    loading = run.trace.cut_during == "load"
    consequence = both.WAITED_FOR
    if loading:
        consequence = "Every worker imports the agent when it starts, and would wait as long."
    elif how == "blocks":
        consequence = "It blocks the event loop: every other run in the worker stands still with it."
    return Finding(
        id="agent.never-loads" if loading else "run.never-ends",
        title="agent loads" if loading else "run ends",
        status="fail",
        detail=detail,
        consequence=consequence,
        mend=mend,
        place=stack[-1] if stack else None,
        stack=stack,
        facts={"limit": run.trace.cut, "ended_by": run.trace.ended_by, "how": how},
    )


def waiting_place(stacks: dict[str, Any] | None) -> tuple[list[dict[str, Any]], str]:
    """The stack that explains why a run doesn't end, and whether it ``waits`` or ``blocks``.

    The main thread with a frame of the user's means that the event loop is blocked: nothing else can run. Otherwise
    the run's own task says where it waits; where it only waits for other tasks, the first of those that is in the
    user's code says more.
    """
    if stacks is None:
        return [], "waits"
    for thread in stacks["threads"]:
        if thread["main"] and any(frame["own"] for frame in thread["frames"]):
            return thread["frames"], "blocks"
    tasks = [task["frames"] for task in stacks["tasks"] if any(frame["own"] for frame in task["frames"])]
    # The run's own task is the oldest; one that only gathers ends in a frame of the user's.
    deeper = [frames for frames in tasks[1:] if not frames[-1]["own"]]
    if tasks and tasks[0][-1]["own"] and deeper:
        return deeper[0], "waits"
    if tasks:
        return tasks[0], "waits"
    own = [thread["frames"] for thread in stacks["threads"] if any(frame["own"] for frame in thread["frames"])]
    return (own[0], "waits") if own else ([], "waits")


def _places(frames: list[dict[str, Any]], *, own: bool) -> Iterable[Place]:
    for frame in frames:
        if frame["own"] or not own:
            yield Place(file=frame["file"], line=frame["line"], function=frame["function"], source=frame["source"])
