"""Judgements on many runs at once: what they returned, what they left, what they survived; pure.

Whether they ended is judged in ``stage3_ends``, how fast they went, and why, in ``stage3_speed``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from harness.checks import both, stage3_ends
from harness.checks import stage3_left as left_over
from harness.checks.findings import Finding
from harness.checks.reward_rules import AWAIT, POISON
from harness.checks.stage3_data import RunRow
from harness.checks.stage3_ends import Case, Rule, place_of
from harness.openai_api.simulated.faults import KINDS

# How often the SDKs of OpenAI and Anthropic ask again where nobody says otherwise.
_SDK_RETRIES = 2


def calls(case: Case) -> Iterable[Finding]:
    """The runs call the model, and are answered."""
    made = case.rows.calls
    if case.load.trace.event("began") is None:
        return
    if not made:
        # Calls under way when somebody pressed Ctrl-C have no end, and so no record.
        if not case.load.interrupted:
            yield both.no_call("load.calls")
        return
    failed = [call for call in made if not call.ok]
    strays = [call for call in made if call.elsewhere]
    without = len({run.run for run in case.rows.runs if run.outcome == "returned" and not run.calls})
    detail = f"{len(made)} calls, {len(made) / max(1, len(case.rows.runs)):.1f} a run"
    kinds = Counter(f"HTTP {call.status}" if call.status else call.failure[:80] for call in failed)
    if failed:
        detail += f"; {len(failed)} failed: " + ", ".join(f"{count} × {what}" for what, count in kinds.most_common(4))
    wanted = bool(case.rows.data.asked.faults)
    scarce = any(both.lacks_descriptors(call.failure) for call in failed)
    mends = [both.MORE_DESCRIPTORS] if scarce else [both.path_mend(call.status, call.path) for call in failed]
    if without and not case.load.outside:
        detail += f"; {without} runs that returned made none"
    yield Finding(
        id="load.calls",
        title="calls to the model",
        status="warn" if scarce or (failed and not wanted) or (without and not case.load.outside) else "pass",
        detail=detail,
        consequence=both.OUT_OF_DESCRIPTORS if scarce else both.RETRIED if failed and not wanted else "",
        mend=next(filter(None, mends), ""),
        facts={"calls": len(made), "failed": len(failed), "kinds": dict(kinds.most_common(20))},
    )
    if strays:
        yield both.strayed("load.elsewhere", len(strays), f"{strays[0].elsewhere}{strays[0].path}")


def model_name(case: Case) -> Iterable[Finding]:
    """Runs ask for the model that they were given; a real server tells by a 404, ours answers all the same."""
    other = case.load.server.models if case.load.server is not None else {}
    if not other:
        return
    name = max(other, key=lambda one: other[one])
    more = f", and {len(other) - 1} other names" if len(other) > 1 else ""
    asked = f"for the model “{name}”{more}" if name else f"for no model{more}"
    yield Finding(
        id="load.model",
        title="name of the model",
        status="warn",
        detail=f"{sum(other.values())} of {len(case.rows.calls)} calls ask {asked}; runs were given "
        f"“{case.rows.data.asked.model}”",
        consequence="A server that hasn't that name answers 404, and the run fails; AReaL's proxy takes any.",
        mend='model=os.environ["OPENAI_MODEL"]',
        facts={"models": dict(other)},
    )


def answers(case: Case) -> Iterable[Finding]:
    """How many answers were cut at the token limit; the simulated server says only as much as it is asked for."""
    whole = [call for call in case.rows.calls if call.ok and call.finish_reason and not call.fault]
    cut = [call for call in whole if call.finish_reason in both.CUT]
    longest = max((call.completion_tokens or both.FEW_TOKENS + 1 for call in whole), default=0)
    choked = bool(cut) and len(cut) == len(whole) and longest <= both.FEW_TOKENS
    if not choked and (not cut or case.rows.data.asked.server == "simulated"):
        return
    consequence, mend = both.choked(longest) if choked else ("", "")
    yield Finding(
        id="load.answers",
        title="the model's answers",
        status="warn" if choked else "pass",
        detail=f"{len(cut)} of {len(whole)} cut at the token limit: what comes after it is not judged",
        consequence=consequence,
        mend=mend,
        facts={"cut_by_length": len(cut), "answers": len(whole)},
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
    keyed = [run for run in returned if run.reward_problem]
    poison = [run for run in returned if run not in wrong and run not in keyed and run.reward is None]
    facts = {"types": dict(types), "wrong": len(wrong), "not_finite": len(poison)}
    if wrong:
        first = wrong[0]
        yield Finding(
            id="load.rewards",
            title="rewards",
            status="fail",
            detail=f"{shown}; {len(wrong)} are of a type that is dropped, for example run {first.run} "
            f"(sample of line {first.line}): {first.reward_shown}",
            consequence=both.NOT_KEPT,
            mend=AWAIT if first.reward_type == "coroutine" else "return float(reward), on every path through run",
            facts=facts,
        )
    elif keyed:
        first = keyed[0]
        yield Finding(
            id="load.rewards",
            title="rewards",
            status="fail",
            detail=f"{shown}; of {len(keyed)} no framework takes every part, for example run {first.run} "
            f"(sample of line {first.line}): {first.reward_problem}",
            consequence="AReaL answers 400 for each in a worker's log and keeps the trajectory without that reward.",
            mend="return {completion.id: reward}, or one float",
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


def shared_client(case: Case) -> Iterable[Finding]:
    """The client that all runs share is open until the end."""
    closed_by = case.load.closed_by
    first = case.load.trace.event("first")
    if closed_by is None and (first is None or not first["shared_client_closed"]):
        return
    yield both.closed_client(
        "load.shared-client", "the first run" if closed_by is None or closed_by < 0 else f"run {closed_by}"
    )


def output(case: Case) -> Iterable[Finding]:
    """The runs don't print floods."""
    trace = case.load.trace
    total, runs = trace.output.total + trace.errors.total, max(1, len(case.rows.runs))
    if total <= both.FLOOD:
        return
    yield both.flooded("load.output", f"{total / 1e6:.1f} MB printed, {left_over.size(total / runs)} a run", total)


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
            why = f"{len(first.faults)} faults, then {why}" if len(first.faults) > 1 else why
            detail += f"; for example run {first.run}: {why[:160]}"
        yield Finding(
            id=f"faults.{kind.name}",
            title=f"fault “{kind.says}”",
            status="fail" if died else "pass",
            detail=detail,
            consequence="Each such call costs a trajectory; a cluster makes them all the time." if died else "",
            mend=_survive(kind.name, died) if died else "",
            place=place_of(died[0]) if died else None,
            facts={"met": len(runs), "died": len(died)},
        )


def _survive(kind: str, died: list[RunRow]) -> str:
    """What a run that has died of a fault could do."""
    if kind in ("empty", "length"):
        return "give such an answer a reward as well, 0.0 for example"
    if kind == "cut-stream":
        return "catch what it raises and return a reward: an SDK repeats a call, and no stream that has begun"
    if all(len(run.faults) > _SDK_RETRIES for run in died):
        return f"max_retries= above the SDK's {_SDK_RETRIES}, or catch what it raises and return a reward"
    return "leave the SDK's retries on, or catch what it raises and return a reward"


def _survived(run: RunRow) -> bool:
    return run.outcome == "returned" and run.reward is not None


RULES: tuple[Rule, ...] = (
    stage3_ends.agent_loads,
    stage3_ends.process_lives,
    stage3_ends.runs_end,
    stage3_ends.never_ends,
    stage3_ends.server_lives,
    calls,
    model_name,
    answers,
    rewards,
    spread,
    shared_client,
    left_over.left_behind,
    output,
    faults,
)


def judge(case: Case) -> list[Finding]:
    """All findings but those on speed, in the order in which a person wants to read them."""
    return [finding for rule in RULES for finding in rule(case)]
