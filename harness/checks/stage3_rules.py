"""Judgements on many runs at once: how they ended, what they returned, what they left; pure.

How fast they went, and why, is judged in ``stage3_speed``.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from harness.agent.frames import frame_at
from harness.agent.source import AgentSource
from harness.checks.end_rules import loaded, process_ended, waiting_place
from harness.checks.findings import Finding, Place
from harness.checks.gather import Gathered
from harness.checks.reward_rules import DROPPED, POISON
from harness.checks.stage2_rules import FLOOD
from harness.checks.stage3_data import RunRow, StackFrame
from harness.checks.stage3_gather import Load
from harness.checks.stage3_rows import Rows
from harness.openai_api.simulated.faults import KINDS

KEPT_KINDS = 5
# Growth from which memory is told, for each run; below it lies what the allocator does anyway.
GREW_BYTES, GREW_OBJECTS = 32 * 1024, 20


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
            says = "It blocks the event loop: no other run in the worker goes on."
            yield _stuck(case, "load.never-ends", "event loop", says)
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
            consequence="In a rollout worker every other run ends with it.",
            place=stack[-1] if stack else None,
            stack=stack,
        )
        return
    ended = process_ended(Gathered(trace=trace), "load.exit", "process of the runs")
    yield ended.model_copy(update={"detail": f"{ended.detail}; {_lost(case)}"})


def _lost(case: Case) -> str:
    lost = sum(run.outcome == "lost" for run in case.rows.runs)
    return f"{lost} runs were lost with it, {case.rows.data.asked.runs - len(case.rows.runs)} never began"


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
        others += [f"{never} never began"] if never else []
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
        yield _failure(what, group, number, len(kinds))


def _kinds(failed: Iterable[RunRow]) -> list[tuple[str, list[RunRow]]]:
    """Failures that are of one kind: the same exception at the same line, saying the same but for numbers and ids."""
    groups: dict[tuple[str, str, str, int], list[RunRow]] = defaultdict(list)
    for run in failed:
        says = re.sub(r"0x[0-9a-f]+|\d+|sim-\S+", "#", run.message)[:120]
        groups[run.error, says, run.file, run.at].append(run)
    return [(error, group) for (error, _, _, _), group in sorted(groups.items(), key=lambda item: -len(item[1]))]


def _failure(error: str, group: Sequence[RunRow], number: int, kinds: int) -> Finding:
    first = group[0]
    exits = first.outcome == "exit"
    what = "sys.exit" if exits else error
    more = f" ({kinds - KEPT_KINDS} further kinds are in runs.jsonl)" if number == KEPT_KINDS < kinds else ""
    place = _place(first)
    message = f": {first.message}" if first.message else ""
    consequence = "The trajectory is dropped; training goes on without it."
    mend = ""
    if exits:
        consequence = "In a rollout worker this ends the process, and every other run in it."
    elif _is_descriptors(first):
        consequence = "Every connection is a file descriptor; a worker with as many runs needs more than it may have."
        mend = "ulimit -n 65536   # in the shell that starts the workers; and close clients that a run makes"
    elif "closed" in first.message and "client" in first.message:
        consequence = "Some run closed the client that all runs share."
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


def _is_descriptors(run: RunRow) -> bool:
    return "Too many open files" in run.message or "Errno 24" in run.message


def _place(run: RunRow) -> Place | None:
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
        consequence="A rollout waits for each until a framework's own limit, an hour by default in AReaL.",
        mend="TIMEOUT=600   # if it is only slow; what the server's queue takes isn't counted",
        place=stack[-1] if stack else None,
        stack=stack,
        facts={"runs": [run.run for run in cut[:100]], "count": len(cut), "ignored": ignored},
    )


def server_lives(case: Case) -> Iterable[Finding]:
    """The server is there until the end."""
    gone = [call for call in case.rows.calls if call.status is None and _is_gone(call.failure)]
    if not gone or not any(_is_gone(call.failure) for call in case.rows.calls[-len(gone) :]):
        return
    answered = [call.ended for call in case.rows.calls if call.ok]
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


def calls(case: Case) -> Iterable[Finding]:
    """The runs call the model, and are answered."""
    made = case.rows.calls
    if case.load.trace.event("began") is None:
        return
    if not made:
        yield Finding(
            id="load.calls",
            title="calls to the model",
            status="fail",
            detail="none was made at the server that the runs are given",
            consequence="AReaL has nothing to train on: “No interactions in session”, and drops the trajectory.",
            mend="call the model at the base_url that run() gets",
        )
        return
    failed = [call for call in made if not call.ok]
    strays = [call for call in made if call.elsewhere]
    without = len({run.run for run in case.rows.runs if run.outcome == "returned" and not run.calls})
    detail = f"{len(made)} calls, {len(made) / max(1, len(case.rows.runs)):.1f} a run"
    kinds = Counter(f"HTTP {call.status}" if call.status else call.failure[:80] for call in failed)
    if failed:
        detail += f"; {len(failed)} failed: " + ", ".join(f"{count} × {what}" for what, count in kinds.most_common(4))
    wanted = bool(case.rows.data.asked.faults)
    if without and not case.load.outside:
        detail += f"; {without} runs that returned made none"
    yield Finding(
        id="load.calls",
        title="calls to the model",
        status="warn" if (failed and not wanted) or (without and not case.load.outside) else "pass",
        detail=detail,
        consequence="A failed call is made again by the SDK or lost; either costs time."
        if failed and not wanted
        else "",
        facts={"calls": len(made), "failed": len(failed), "kinds": dict(kinds.most_common(20))},
    )
    if strays:
        yield Finding(
            id="load.elsewhere",
            title="calls go where they should",
            status="fail",
            detail=f"{len(strays)} went to {strays[0].elsewhere}{strays[0].path}",
            consequence="A framework doesn't see such calls: nothing is trained on them, and their cost is real.",
            mend="take base_url from run()'s arguments, or OPENAI_BASE_URL from the environment at each run",
        )


def rewards(case: Case) -> Iterable[Finding]:
    """Rewards by type, and those that no framework keeps."""
    returned = [run for run in case.rows.runs if run.outcome == "returned"]
    if not returned:
        return
    types = Counter(run.reward_type for run in returned)
    numbers = [run.reward for run in returned if run.reward is not None]
    shown = ", ".join(f"{count} × {name}" for name, count in types.most_common(6))
    if numbers:
        shown += f"; mean {sum(numbers) / len(numbers):.3f}, from {min(numbers):g} to {max(numbers):g}"
    wrong = [run for run in returned if run.reward_type not in ("float", "numpy.float64", "dict")]
    poison = [run for run in returned if run not in wrong and run.reward is None]
    facts = {"types": dict(types), "wrong": len(wrong), "not_finite": len(poison)}
    if wrong:
        first = wrong[0]
        yield Finding(
            id="load.rewards",
            title="rewards",
            status="fail",
            detail=f"{shown}; {len(wrong)} are of a type that is dropped, for example run {first.run} "
            f"(sample of line {first.line}): {first.reward_shown}",
            consequence=DROPPED,
            mend="return float(reward), on every path through run",
            facts=facts,
        )
    elif poison:
        first = poison[0]
        yield Finding(
            id="load.rewards",
            title="rewards",
            status="fail",
            detail=f"{shown}; {len(poison)} are no finite number, for example run {first.run} "
            f"(sample of line {first.line}): {first.reward_shown}",
            consequence=POISON,
            mend="return a finite number, 0.0 where there is no answer",
            facts=facts,
        )
    else:
        yield Finding(id="load.rewards", title="rewards", status="pass", detail=shown, facts=facts)


def spread(case: Case) -> Iterable[Finding]:
    """Whether rewards differ within groups."""
    asked = case.rows.data.asked
    groups: dict[int, list[float]] = defaultdict(list)
    for run in case.rows.runs:
        if run.reward is not None:
            groups[run.group].append(run.reward)
    whole = [values for values in groups.values() if len(values) > 1]
    if asked.group_size < 2 or not whole:
        return
    equal = sum(max(values) == min(values) for values in whole)
    title = "spread within groups"
    detail = f"{equal} of {len(whole)} groups have equal rewards"
    if asked.server == "simulated":
        yield Finding(
            id="load.spread",
            title=title,
            status="skip",
            detail="the simulated server answers all alike",
            facts={"equal": equal, "groups": len(whole)},
        )
        return
    yield Finding(
        id="load.spread",
        title=title,
        status="warn" if equal == len(whole) else "pass",
        detail=detail,
        consequence="A group with equal rewards teaches GRPO nothing: all its advantages are 0." if equal else "",
        facts={"equal": equal, "groups": len(whole)},
    )


def left_behind(case: Case) -> Iterable[Finding]:
    """Nothing is left of runs that have ended."""
    data, load = case.rows.data, case.load
    if len(load.held) < 2:
        return
    runs = max(1, len(case.rows.runs))
    before, after = data.before, data.after
    open_clients = sum(place.never_closed for place in data.clients)
    parts: list[str] = []
    for count, what in (
        (open_clients, "HTTP clients never closed"),
        (after.sockets - before.sockets, "sockets"),
        (after.descriptors - after.sockets - before.descriptors + before.sockets, "other file descriptors"),
        (len(after.tasks) - len(before.tasks), "tasks"),
        (len(after.threads) - len(before.threads), "threads"),
        (len(load.trace.left_processes), "processes"),
    ):
        if count > 0:
            parts.append(f"{count} {what}")
    memory, objects = (after.rss - before.rss) / runs, (after.objects - before.objects) / runs
    grew = f"memory {_size(after.rss - before.rss)} more, {_size(memory)} a run"
    if memory > GREW_BYTES and objects > GREW_OBJECTS:
        parts.append(f"{_size(memory)} of memory and {objects:.0f} objects a run")
    facts = {"before": before.model_dump(), "after": after.model_dump(), "bytes_a_run": round(memory)}
    if not parts:
        yield Finding(id="load.left", title="nothing left behind", status="pass", detail=grew, facts=facts)
        return
    place = next((place for place in data.clients if place.never_closed and place.file), None)
    named = [name for name in after.tasks if name][:3] + list(after.threads)[:3] + load.trace.left_processes[:2]
    detail = f"{', '.join(parts)} were left by {runs} runs"
    yield Finding(
        id="load.left",
        title="nothing left behind",
        status="warn",
        detail=detail + (f" ({'; '.join(named)})" if named else ""),
        consequence="A worker makes thousands of runs: this adds up until memory, threads or descriptors run out.",
        mend="close clients, await or cancel tasks, join threads and wait for processes before run returns",
        place=Place(file=place.file, line=place.line, source=place.source) if place else None,
        facts=facts,
    )


def _size(count: float) -> str:
    return f"{count / 1e6:.1f} MB" if abs(count) >= 1e6 else f"{count / 1024:.1f} KiB"


def shared_client(case: Case) -> Iterable[Finding]:
    """The client that all runs share is open until the end."""
    closed_by = case.load.closed_by
    first = case.load.trace.event("first")
    if closed_by is None and (first is None or not first["shared_client_closed"]):
        return
    yield Finding(
        id="load.shared-client",
        title="shared http_client",
        status="fail",
        detail="the first run closed it" if closed_by is None or closed_by < 0 else f"run {closed_by} closed it",
        consequence="Every later run that uses it fails with “the client has been closed”.",
        mend="don't use `async with AsyncOpenAI(http_client=...)`: make the client without `with`, and don't close it",
    )


def output(case: Case) -> Iterable[Finding]:
    """The runs don't print floods."""
    trace = case.load.trace
    total, runs = trace.output.total + trace.errors.total, max(1, len(case.rows.runs))
    if total <= FLOOD:
        return
    yield Finding(
        id="load.output",
        title="output",
        status="warn",
        detail=f"{total / 1e6:.1f} MB printed, {_size(total / runs)} a run",
        consequence="Hundreds of runs share one pipe or disk; printing becomes what they wait for.",
        mend="print less, or log to a file that rotates",
        facts={"bytes": total},
    )


def faults(case: Case) -> Iterable[Finding]:
    """For each fault that was made on demand: do the runs that met it survive?"""
    met: dict[str, list[RunRow]] = defaultdict(list)
    for run in case.rows.runs:
        for name in dict.fromkeys(run.faults):
            met[name].append(run)
    for kind in KINDS:
        if not (runs := met.get(kind.name)):
            continue
        # A run that met several is held against the last one: it has survived those before.
        died = [run for run in runs if not _survived(run) and run.faults[-1] == kind.name]
        detail = f"{len(runs)} runs met it, {len(runs) - len(died)} survived"
        if died:
            first = died[0]
            why = f"{first.error}: {first.message}" if first.error else first.outcome
            why = why if first.outcome != "returned" else f"its reward is {first.reward_shown}"
            detail += f"; for example run {first.run}: {why[:160]}"
        yield Finding(
            id=f"faults.{kind.name}",
            title=f"fault “{kind.says}”",
            status="fail" if died else "pass",
            detail=detail,
            consequence="Each such call costs a trajectory; a cluster makes them all the time." if died else "",
            mend="leave the SDK's retries on, or catch what it raises and return a reward" if died else "",
            place=_place(died[0]) if died else None,
            facts={"met": len(runs), "died": len(died)},
        )


def _survived(run: RunRow) -> bool:
    return run.outcome == "returned" and run.reward is not None


RULES: tuple[Rule, ...] = (
    agent_loads,
    process_lives,
    runs_end,
    never_ends,
    server_lives,
    calls,
    rewards,
    spread,
    shared_client,
    left_behind,
    output,
    faults,
)


def judge(case: Case) -> list[Finding]:
    """All findings but those on speed, in the order in which a person wants to read them."""
    return [finding for rule in RULES for finding in rule(case)]
