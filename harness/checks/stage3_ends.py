"""Judgements on how many runs ended: the process, each run, the server; pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from harness.agent.frames import frame_at
from harness.agent.source import AgentSource
from harness.checks import both, known_errors
from harness.checks.end_rules import loaded, process_ended, waiting_place
from harness.checks.findings import Finding, Place
from harness.checks.gather import Gathered
from harness.checks.stage3_data import RunRow, StackFrame
from harness.checks.stage3_gather import Load
from harness.checks.stage3_rows import Rows

KEPT_KINDS = 5


@dataclass(frozen=True)
class Case:
    """All that a rule may look at."""

    load: Load
    rows: Rows
    agent: AgentSource


Rule = Callable[[Case], Iterable[Finding]]


def places(frames: Iterable[StackFrame], *, own: bool = True) -> tuple[Place, ...]:
    """A stack for a finding, cut to the user's frames."""
    return tuple(
        Place(file=frame.file, line=frame.line, function=frame.function, source=frame.source)
        for frame in frames
        if frame.own or not own
    )


def agent_loads(case: Case) -> Iterable[Finding]:
    """The agent can be imported, made, and held against the contract."""
    finding = loaded(Gathered(trace=case.load.trace), case.agent)
    if finding is not None and finding.status != "pass":
        yield finding
    elif case.load.trace.cut is not None and case.load.trace.cut_during == "load":
        yield _stuck(case, "agent.never-loads", "agent loads", "Every worker imports the agent when it starts.")


def process_lives(case: Case) -> Iterable[Finding]:
    """The process of the runs is still there at their end."""
    trace = case.load.trace
    if trace.event("constructed") is None or case.load.interrupted:
        return
    if trace.cut is not None:
        if trace.cut_during == "run":
            yield _never_ends(case)
        return
    if trace.event("finished") is not None:
        return
    raised = trace.raised
    if raised is not None:
        frames = [StackFrame(**frame) for frame in raised["frames"]]
        stack = places(frames)
        what = f"sys.exit({raised['exit_code']})" if raised["type"] == "SystemExit" else raised["type"]
        yield Finding(
            id="load.exit",
            title="process of the runs",
            status="fail",
            detail=f"{what} in a task ended the event loop; {_lost(case)}",
            consequence=both.ENDS_ALL,
            place=stack[-1] if stack else None,
            stack=stack,
        )
        return
    ended = process_ended(Gathered(trace=trace), "load.exit", "process of the runs")
    yield ended.model_copy(update={"detail": f"{ended.detail}; {_lost(case)}"})


def _lost(case: Case) -> str:
    lost = sum(run.outcome == "lost" for run in case.rows.runs)
    return f"{lost} runs were lost with it, {case.rows.data.asked.runs - len(case.rows.runs)} never began"


def _never_ends(case: Case) -> Finding:
    """Everything stands still: the loop is blocked, or what has begun awaits, and asks the model on and on."""
    says = "It blocks the event loop: no other run in the worker goes on."
    found = _stuck(case, "load.never-ends", "event loop", says)
    if found.facts["how"] != "waits":
        return found
    calls = sum(bool(row["generation"]) for row in [*case.load.first_calls, *case.load.calls])
    if calls <= both.MANY_TURNS:
        return found.model_copy(update={"title": "runs end", "consequence": both.WAITED_FOR})
    return found.model_copy(
        update={
            "title": "runs end",
            "detail": f"no run had ended after {case.load.trace.cut:g} s, with {calls} calls to the model until then"
            f"{found.detail.partition(' s')[2]}",
            "consequence": both.WAITED_FOR,
            "mend": both.ENDLESS_TURNS,
        }
    )


def _stuck(case: Case, id_: str, title: str, consequence: str) -> Finding:
    trace = case.load.trace
    frames, how = waiting_place(trace.stacks)
    stack = places(StackFrame(**frame) for frame in frames)
    at = f"; {how} at {stack[-1].file}:{stack[-1].line}" if stack else ""
    return Finding(
        id=id_,
        title=title,
        status="fail",
        detail=f"nothing went on for {trace.cut:g} s{at}",
        consequence=consequence,
        mend="" if stack else "TIMEOUT=600   # if it is only slow",
        place=stack[-1] if stack else None,
        stack=stack,
        facts={"limit": trace.cut, "how": how},
    )


def runs_end(case: Case) -> Iterable[Finding]:
    """How many runs ended, and failures by kind with one example each."""
    runs, asked = case.rows.runs, case.rows.data.asked
    if case.load.trace.event("began") is None:
        return
    returned = [run for run in runs if run.outcome == "returned"]
    detail = f"{len(returned)} of {asked.runs} returned, in {case.rows.data.wall:.1f} s"
    kinds = _kinds(run for run in runs if run.outcome in ("raised", "exit"))
    if len(returned) == asked.runs:
        yield Finding(id="load.runs", title="runs end", status="pass", detail=detail)
    else:
        counted = Counter[str](run.outcome for run in runs)
        never = asked.runs - len(runs)
        others = [f"{count} {name}" for name, count in counted.items() if name != "returned"]
        others += [f"{never} {'had not ended' if case.load.interrupted else 'never began'}"] if never else []
        status = "skip" if case.load.interrupted and not kinds else "fail"
        yield Finding(
            id="load.runs",
            title="runs end",
            status="fail" if status == "fail" else "warn",
            detail=f"{detail}; {', '.join(others)}",
            consequence="A framework drops such trajectories without a word; their groups are smaller or go.",
            facts={"returned": len(returned), **counted, "never began": never},
        )
    for number, (what, group) in enumerate(kinds[:KEPT_KINDS], start=1):
        yield _failure(what, group, number, len(kinds), case.agent)


def _kinds(failed: Iterable[RunRow]) -> list[tuple[str, list[RunRow]]]:
    """Failures that are of one kind: the same exception at the same line, saying the same but for numbers and ids."""
    groups: dict[tuple[str, str, str, int], list[RunRow]] = defaultdict(list)
    for run in failed:
        says = re.sub(r"0x[0-9a-f]+|\d+|sim-\S+", "#", run.message)[:120]
        groups[run.error, says, run.file, run.at].append(run)
    return [(error, group) for (error, _, _, _), group in sorted(groups.items(), key=lambda item: -len(item[1]))]


def _failure(error: str, group: Sequence[RunRow], number: int, kinds: int, agent: AgentSource) -> Finding:
    first = group[0]
    exits = first.outcome == "exit"
    what = "sys.exit" if exits else error
    more = f" ({kinds - KEPT_KINDS} further kinds are in runs.jsonl)" if number == KEPT_KINDS < kinds else ""
    place = place_of(first)
    message = f": {first.message}" if first.message else ""
    consequence = both.DROPPED
    mend = ""
    if exits:
        consequence = both.ENDS_ALL
    elif both.lacks_descriptors(first.message):
        consequence, mend = both.OUT_OF_DESCRIPTORS, both.MORE_DESCRIPTORS
    elif "closed" in first.message and "client" in first.message:
        consequence = "Some run closed the client that all runs share."
    else:
        mend = known_errors.mend({"type": error, "message": first.message}, agent)
    return Finding(
        id="load.failure" if number == 1 else f"load.failure.{number}",
        title=f"{len(group)} run{'s' if len(group) > 1 else ''} failed",
        status="fail",
        detail=f"{what}{message}, for example run {first.run} (sample of line {first.line}){more}",
        consequence=consequence,
        mend=mend,
        place=place,
        facts={"error": error, "runs": [run.run for run in group[:100]], "count": len(group)},
    )


def place_of(run: RunRow) -> Place | None:
    if not run.file:
        return None
    frame = frame_at(run.file, run.at, "")
    return Place(file=run.file, line=run.at, source=frame.source)


def never_ends(case: Case) -> Iterable[Finding]:
    """Runs that stood still until they were cut, with their await stack."""
    cut = [run for run in case.rows.runs if run.outcome == "cut"]
    if not cut:
        return
    first = cut[0]
    said = case.load.cuts.get(first.run, {})
    frames = [StackFrame(**frame) for frame in said.get("frames", ())]
    stack = places(frames)
    ignored = sum(bool(row.get("ignored")) for row in case.load.runs)
    inner = frames[-1] if frames and not frames[-1].own else None
    at = f" at {stack[-1].file}:{stack[-1].line}" if stack else ""
    below = f", in {inner.function}" if inner else ""
    what = f"waits for {said.get('kind', 'something')}"
    if said.get("calls", 0) > 1000:
        what = f"made {said['calls']} calls and went on"
    yield Finding(
        id="load.never-ends",
        title="runs end",
        status="fail",
        detail=f"{len(cut)} not done after {case.rows.data.asked.timeout:g} s, for example run {first.run}: "
        f"{what}{at}{below}" + (f"; {ignored} didn't heed being cancelled" if ignored else ""),
        consequence=both.WAITED_FOR,
        mend="TIMEOUT=600   # if it is only slow; what the server's queue takes isn't counted",
        place=stack[-1] if stack else None,
        stack=stack,
        facts={"runs": [run.run for run in cut[:100]], "count": len(cut), "ignored": ignored},
    )


def server_lives(case: Case) -> Iterable[Finding]:
    """The server is there until the end."""
    # What went to another address says nothing about this server.
    calls = [call for call in case.rows.calls if not call.elsewhere]
    gone = [call for call in calls if call.status is None and _is_gone(call.failure)]
    if not gone or not any(_is_gone(call.failure) for call in calls[-len(gone) :]):
        return
    answered = [call.ended for call in calls if call.ok]
    last = max(answered, default=0.0)
    after = [call for call in gone if call.ended >= last]
    if not after:
        return
    yield Finding(
        id="load.server",
        title="the server",
        status="fail",
        detail=f"it went away: the last answer came {last:.1f} s after the start, {len(after)} calls failed after it "
        f"({after[0].failure[:160]})",
        consequence="What ended until then is reported; the rest says nothing about the agent.",
        mend="make logs S=inference   # why did it go?\nmake up",
        facts={"last_answer": round(last, 3), "failed_after": len(after)},
    )


def _is_gone(failure: str) -> bool:
    return any(
        words in failure for words in ("ConnectError", "All connection attempts failed", "refused", "nothing listens")
    )
