"""Judgements on one run of an agent; pure.

Each rule looks at what was gathered and says at most one thing. A rule that has nothing to look at, because the run
ended before, says nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from typing import Any

from harness.agent.source import AgentSource
from harness.checks import both
from harness.checks.end_rules import ended, loaded
from harness.checks.findings import Finding, Place
from harness.checks.gather import Gathered
from harness.checks.lint.seen import place_of
from harness.checks.reward_rules import reward
from harness.checks.samples import DataSet
from harness.openai_api.calls import Call
from harness.places import shown


def data_lines(data: DataSet) -> Finding:
    """Whether every line of the data set is a sample."""
    facts = {"samples": len(data), "bad": data.bad_count, "blank": data.blank, "path": str(data.path)}
    if not data.bad_count and not len(data):
        return Finding(
            id="data.lines",
            title="data",
            status="fail",
            detail=f"{data.path.name} is empty",
            consequence="There is no sample to run the agent on.",
            mend="DATA=FILE.jsonl   # one JSON object a line",
            facts=facts,
        )
    if not data.bad_count:
        detail = f"{len(data)} sample{_s(len(data))} in {data.path.name}"
        return Finding(id="data.lines", title="data", status="pass", detail=detail, facts=facts)
    named = "; ".join(f"line {line.number}: {line.reason}" for line in data.bad[:5])
    more = f"; and {data.bad_count - 5} more" if data.bad_count > 5 else ""
    first = data.bad[0]
    return Finding(
        id="data.lines",
        title="data",
        status="fail",
        detail=f"{data.bad_count} of {data.bad_count + len(data)} lines are no sample: {named}{more}",
        consequence="A loader stops at the first such line or passes over it without a word.",
        mend=f"sed -n {first.number}p {shlex.quote(shown(data.path))}   # and mend what it shows",
        place=Place(file=str(data.path), line=first.number),
        facts={**facts, "lines": [{"number": line.number, "reason": line.reason} for line in data.bad]},
    )


def judge(run: Gathered, agent: AgentSource) -> list[Finding]:
    """All findings on a run, in the order in which a person wants to read them."""
    found = [rule(run, agent) for rule in RULES]
    return [finding for finding in found if finding is not None]


Rule = Callable[[Gathered, AgentSource], Finding | None]


def calls(run: Gathered, agent: AgentSource) -> Finding | None:  # noqa: ARG001
    """The agent calls the model, and its calls are answered."""
    if run.trace.event("started") is None:
        return None
    made = run.generations
    failed = [call for call in made if not call.ok and not call.abandoned]
    if not made:
        if run.trace.event("returned") is None or _strays(run):
            return None
        return both.no_call("run.calls", _elsewhere_hint(run))
    summary = _calls_summary(made)
    if failed:
        first = failed[0]
        return Finding(
            id="run.calls",
            title="calls to the model",
            status="warn" if len(failed) < len(made) else "fail",
            detail=f"{summary}; {len(failed)} failed: {both.call_problem(first)}",
            consequence=both.RETRIED,
            mend=both.path_mend(first.status, first.path),
            place=place_of(first.caller),
            facts={"calls": len(made), "failed": len(failed)},
        )
    return Finding(
        id="run.calls",
        title="calls to the model",
        status="pass",
        detail=summary,
        facts={"calls": len(made), "failed": 0},
    )


def answers(run: Gathered, agent: AgentSource) -> Finding | None:  # noqa: ARG001
    """What the model said, so that a person sees a real answer; and whether it was cut."""
    made = [call for call in run.calls if call.reply is not None]
    if not made:
        return None
    last = made[-1].reply
    assert last is not None
    cut = [call for call in made if call.reply is not None and call.reply.finish_reason in both.CUT]
    text = last.text if last.text else ", ".join(f"{call.name}({call.arguments})" for call in last.tool_calls)
    empty = not text.strip()
    detail = f"“{' '.join(text.split())[:120]}”" if not empty else "the model's last answer is empty"
    if cut:
        detail += f" ({len(cut)} of {len(made)} cut at the token limit: what comes after it is not judged)"
    # Many a model of a first try never comes to an end by itself; but in so few tokens none can say a thing.
    longest = max(
        (call.reply.completion_tokens or both.FEW_TOKENS + 1 for call in made if call.reply is not None), default=0
    )
    choked = len(cut) == len(made) and longest <= both.FEW_TOKENS and not empty
    consequence, mend = both.choked(longest) if choked else ("", "")
    if empty:
        consequence = "A reward on an empty text teaches nothing."
    return Finding(
        id="run.answers",
        title="the model's answer",
        status="warn" if empty or choked else "pass",
        detail=detail,
        consequence=consequence,
        mend=mend,
        facts={"cut_by_length": len(cut), "text": text[:2000]},
    )


def shared_client(run: Gathered, agent: AgentSource) -> Finding | None:  # noqa: ARG001
    """The client that all runs share is still open after the run."""
    left = run.trace.event("left")
    if left is None or not left["shared_client_closed"]:
        return None
    return both.closed_client("run.shared-client", "the run")


def left_behind(run: Gathered, agent: AgentSource) -> Finding | None:  # noqa: ARG001
    """Nothing is still at work when the run has returned."""
    left = run.trace.event("left")
    if left is None or run.trace.event("returned") is None:
        return None
    parts = [
        f"{len(things)} {name if len(things) == 1 else names} ({', '.join(things[:3])})"
        for name, names, things in (
            ("task", "tasks", left["tasks"]),
            ("thread", "threads", left["threads"]),
            ("process", "processes", run.trace.left_processes),
        )
        if things
    ]
    if not parts:
        return None
    return Finding(
        id="run.left-behind",
        title="nothing left behind",
        status="warn",
        detail=f"still there when run had returned: {'; '.join(parts)}",
        consequence="With hundreds of runs they add up until memory, threads or descriptors run out.",
        mend="await or cancel the tasks, join the threads, wait for the processes before run returns",
    )


def elsewhere(run: Gathered, agent: AgentSource) -> Finding | None:  # noqa: ARG001
    """Calls go to the server that the framework names."""
    strays = _strays(run)
    if not strays:
        return None
    origin, call = strays[0]
    return both.strayed("run.elsewhere", len(strays), f"{origin}{call.path}")


def _strays(run: Gathered) -> list[tuple[str, Call]]:
    return [(origin, call) for origin, call in run.seen if origin != run.proxy_origin and call.is_generation]


def output(run: Gathered, agent: AgentSource) -> Finding | None:  # noqa: ARG001
    """The agent doesn't print floods."""
    total = run.trace.output.total + run.trace.errors.total
    if total <= both.FLOOD:
        return None
    first = run.trace.output.text() if run.trace.output.total >= run.trace.errors.total else run.trace.errors.text()
    line = next((text for text in first.splitlines() if text.strip()), "")
    detail = f"{total / 1e6:.1f} MB printed in one run, beginning with “{line[:80]}”"
    return both.flooded("run.output", detail, total)


RULES: tuple[Rule, ...] = (
    loaded,
    ended,
    calls,
    answers,
    reward,
    shared_client,
    elsewhere,
    left_behind,
    output,
)


def figures(run: Gathered) -> dict[str, Any]:
    """What was measured of a run."""
    made = run.generations
    returned = run.trace.event("returned")
    in_process = [call for origin, call in run.seen if origin == run.proxy_origin and call.is_generation]
    measured: dict[str, Any] = {
        "calls": len(made),
        "failed_calls": sum(not call.ok for call in made),
        "prompt_tokens": _sum(call.reply.prompt_tokens for call in made if call.reply),
        "completion_tokens": _sum(call.reply.completion_tokens for call in made if call.reply),
        "model_seconds": round(sum(call.seconds for call in made), 3),
        "printed_bytes": run.trace.output.total + run.trace.errors.total,
        # Whether a stage with many runs may watch from inside the process, which costs less than a hop.
        "seen_in_process": len(in_process) == len(made),
    }
    if returned is not None:
        measured["run_seconds"] = round(returned["seconds"], 3)
        measured["cpu_seconds"] = round(returned["cpu_seconds"], 3)
    return measured


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _calls_summary(made: list[Call]) -> str:
    asked = _sum(call.reply.prompt_tokens for call in made if call.reply)
    given = _sum(call.reply.completion_tokens for call in made if call.reply)
    tokens = f", {asked or '?'} tokens in, {given if given is not None else '?'} out"
    first = [call.first_token_seconds for call in made if call.first_token_seconds is not None]
    first_text = f", first token after {first[0]:.2f} s" if first else ""
    routes = ", ".join(dict.fromkeys(call.path.partition("?")[0] for call in made))
    seconds = sum(call.seconds for call in made)
    return f"{len(made)} call{_s(len(made))} to {routes}{tokens}, {seconds:.2f} s{first_text}"


def _elsewhere_hint(run: Gathered) -> str:
    if run.refused:
        return f" with the run's key ({run.refused} came with another: use the api_key that run() gets)"
    return ""


def _s(count: int) -> str:
    return "" if count == 1 else "s"
