"""Did the batch get through the framework's own rollout, and if not, why: starts, counts, standstills, calls; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from harness.agent.rewards import Reward
from harness.agent.source import AgentSource
from harness.checks.findings import Finding, Place
from harness.checks.reward_rules import judge_reward
from harness.checks.stage4.data import Rolled
from harness.checks.stage4.frameworks import Framework
from harness.checks.stage4.reasons import Reason, last_error, plain, reasons_of

PHASES = {
    "start": "{0}'s program started",
    "import": "{0} was imported",
    "config": "{0} read the configuration",
    "workers": "{0} started its workers",
    "proxy": "{0} started what answers its agents",
    "rollout": "the batch was rolled out",
    "template": "the batch was rolled out",
}

WAITS = "Training waits here for ever; no time-out of AReaL's ends it."


def started(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """The framework read the configuration and started its workers and what answers their agents."""
    versions = rolled.event("versions")
    shown = ", ".join(f"{name} {version}" for name, version in list((versions or {}).items())[2:5])
    if rolled.phase in ("rollout", "template") and not rolled.interrupted:
        yield Finding(
            id=_of(rolled).id("starts"),
            title=f"{_of(rolled).name} starts",
            status="pass",
            detail=f"{_of(rolled).parts[rolled.asked.kind != 'agent']} are up ({shown})",
            facts={name: value for name, value in (versions or {}).items() if name not in ("event", "time")},
        )
        return
    if rolled.interrupted:
        return
    why = _why(rolled)
    yield Finding(
        id=_of(rolled).id("starts"),
        title=f"{_of(rolled).name} starts",
        status="fail",
        detail=f"it ended before {PHASES.get(rolled.phase, rolled.phase).format(_of(rolled).name)}: {why[0]}",
        consequence=_of(rolled).stuck,
        mend=why[1],
        facts={"phase": rolled.phase, "log": _tail(rolled)},
    )


def whole(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """As many trajectories as samples were asked for."""
    if rolled.phase not in ("rollout", "template") or rolled.interrupted:
        return
    asked = rolled.asked
    batch = rolled.event("batch")
    progress = rolled.event("progress") or {}
    counted = ", ".join(
        f"{progress[name]} {name}" for name in ("accepted", "rejected", "running", "enqueued") if name in progress
    )
    if rolled.stall is not None:
        return  # `stalled` tells it
    if batch is None:
        why = _why(rolled)
        yield Finding(
            id=_of(rolled).id("batch"),
            title="trajectories",
            status="fail",
            detail=f"the batch didn't come ({counted or 'nothing was let in'}): {why[0]}",
            consequence="Training would end or wait here.",
            mend=why[1],
            facts={"progress": progress, "log": _tail(rolled)},
        )
        return
    got = len(rolled.trajectories)
    facts = {"asked": asked.prompts, "got": got, "seconds": round(batch["seconds"], 3), "progress": progress}
    if got >= asked.prompts:
        yield Finding(
            id=_of(rolled).id("batch"),
            title="trajectories",
            status="pass",
            detail=f"{got} of {asked.prompts}, {asked.group_size} runs each, in {batch['seconds']:.1f} s",
            facts=facts,
        )
        return
    why = _why(rolled)
    yield Finding(
        id=_of(rolled).id("batch"),
        title="trajectories",
        status="fail",
        detail=f"{got} of {asked.prompts} came back ({counted}): {why[0]}",
        consequence=_of(rolled).lost,
        mend=why[1],
        facts={**facts, "log": _tail(rolled)},
    )


def stalled(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """Nothing moved any more: what the hang dump says of it."""
    if rolled.stall is None:
        return
    progress = rolled.event("progress") or {}
    verdict = rolled.verdict or {}
    cause = str(verdict.get("cause") or "")
    named = f"; the hang dump says: {cause}" if cause not in ("", "unknown", "none") else ""
    counted = ", ".join(
        f"{progress[name]} {name}" for name in ("enqueued", "running", "accepted", "rejected") if name in progress
    )
    if rolled.stall == "capacity":
        config = rolled.event("config") or {}
        off, consumer = config.get("max_head_offpolicyness", "?"), config.get("consumer_batch_size", "?")
        yield Finding(
            id=_of(rolled).id("stalls"),
            title="the batch comes to an end",
            status="fail",
            detail=f"nobody is let in any more (capacity {progress.get('capacity')}): {counted}{named}",
            consequence=f"({off} + version + 1) × {consumer} rollouts are let in before weights are updated, and the "
            f"batch is larger. {WAITS}",
            mend="consumer_batch_size: ${train_dataset.batch_size}   # in rollout:",
            facts={"progress": progress, "cause": cause, "evidence": verdict.get("evidence", [])},
        )
        return
    logged = _first(reasons_of(_of(rolled), rolled.log), rolled.phase)
    yield Finding(
        id=_of(rolled).id("stalls"),
        title="the batch comes to an end",
        status="fail",
        detail=f"nothing moved any more: {counted}{named}" + (f"; a log says: {logged.text}" if logged else ""),
        consequence=_of(rolled).waits,
        mend=(logged.mend if logged else "")
        or "\n".join(verdict.get("next", [])[:2])
        or "make check STAGE=2   # where does one run wait?",
        facts={"progress": progress, "cause": cause, "evidence": verdict.get("evidence", [])},
    )


def importable(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:
    """A worker can import the agent by its name, as in training."""
    found = [note for note in rolled.notes if note["event"] == "found"]
    if not found or agent is None:
        return
    if found[0]["importable"]:  # once it is loaded, every later look finds it
        yield Finding(
            id=_of(rolled).id("importable"),
            title="agent found by name",
            status="pass",
            detail=f"{_of(rolled).worker} imports {found[0]['module']} by its name",
        )
        return
    folder = str(agent.path.parent) if agent.path is not None else "its folder"
    yield Finding(
        id=_of(rolled).id("importable"),
        title="agent found by name",
        # Whoever names a module means it so; whoever names a file may start training somewhere else than the check.
        status="fail" if agent.by_module else "warn",
        detail=f"{_of(rolled).worker} doesn't find the module {found[0]['module']}; it was loaded from its file here",
        consequence=_of(rolled).not_found,
        mend=f"start training in {folder}, or put that on PYTHONPATH{_of(rolled).python_path}",
    )


def failures(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:
    """Each kind of failure of the agent's own runs, with the line."""
    kinds: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for note in rolled.notes:
        if note["event"] in ("raised", "made"):
            own = _own(note, agent)
            where = (note["error"], own.file if own else "", own.line if own else 0)
            kinds.setdefault(where, []).append(note)
    for (error, _, _), notes in sorted(kinds.items(), key=lambda item: -len(item[1])):
        first = notes[0]
        made = first["event"] == "made"
        what = (
            f"the agent can't be made in {_of(rolled).worker}"
            if made
            else f"{len(notes)} of {rolled.asked.runs} runs raised"
        )
        group = "" if made or rolled.asked.group_size == 1 else _of(rolled).group
        yield Finding(
            id=_of(rolled).id("agent-made" if made else "agent-raises"),
            title=f"agent in {_of(rolled).worker}" if rolled.asked.kind != "loop" else "reward function",
            status="fail",
            detail=f"{what}: {error}: {first['text'].splitlines()[0][:200] if first['text'] else ''}".rstrip(": "),
            consequence=_of(rolled).lost + group,
            place=_own(first, agent),
            stack=tuple(_place(frame) for frame in first["frames"] if _is_own(frame, agent)),
            facts={"runs": len(notes), "index": first.get("index")},
        )


def calls(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """The agents' calls to the framework are answered."""
    made = [call for _, call in rolled.agents if call.is_generation]
    if not made:
        if rolled.returned:
            yield Finding(
                id=_of(rolled).id("calls"),
                title=f"calls to {_of(rolled).proxy}",
                status="fail",
                detail="no run made one",
                consequence=_of(rolled).no_call,
                mend="call the model at the base_url that run() gets",
            )
        return
    failed = [call for call in made if not call.ok and not call.abandoned]
    by_status = Counter(str(call.status or call.failure) for call in failed)
    if not failed:
        yield Finding(
            id=_of(rolled).id("calls"),
            title=f"calls to {_of(rolled).proxy}",
            status="pass",
            detail=f"{len(made)}, all answered",
        )
        return
    statuses = ", ".join(f"{count} × {status}" for status, count in by_status.most_common(3))
    paths = {call.path for call in failed if call.status == 404}
    mend = ""
    if _of(rolled).no_base_path and any(path.startswith("/v1/") for path in paths):
        mend = "AReaL's base_url has no /v1, and its routes neither: don't append it"
    yield Finding(
        id=_of(rolled).id("calls"),
        title=f"calls to {_of(rolled).proxy}",
        status="fail" if len(failed) == len(made) else "warn",
        detail=f"{len(failed)} of {len(made)} failed: {statuses}" + (f" ({sorted(paths)[0]})" if paths else ""),
        consequence="A failed call is made again by the SDK or lost; either costs time in every run.",
        mend=mend,
    )


def left(rolled: Rolled, agent: AgentSource | None) -> Iterator[Finding]:  # noqa: ARG001
    """What the framework left behind; it was ended."""
    if not rolled.left:
        return
    yield Finding(
        id=_of(rolled).id("left"),
        title="nothing left behind",
        status="warn",
        detail=f"{_of(rolled).name} left {len(rolled.left)} processes, which were ended: {rolled.left[0][:100]}",
        consequence="They hold their ports, and on GPUs their memory, until somebody ends them.",
    )


def _of(rolled: Rolled) -> Framework:
    return rolled.asked.framework


def _why(rolled: Rolled) -> tuple[str, str]:
    """The worker's own reason and what mends it; else the framework's exception; else what is known."""
    found = reasons_of(rolled.asked.framework, rolled.log)
    failed = rolled.event("failed")
    about = _first(found, rolled.phase)
    if about is not None:
        return about.text, about.mend
    for note in rolled.returned:
        status, detail, _, mend = judge_reward(Reward.from_dict(note["reward"]), set())
        if status == "fail" and not note["reward"]["is_dict"]:
            return detail, mend
    if server := _server(rolled):
        return server, "make logs S=inference"
    raised = next((note for note in rolled.notes if note["event"] in ("raised", "made")), None)
    if raised is not None:
        return f"the agent raised {raised['error']}: {raised['text'][:160]}", ""
    if failed is not None:
        known = reasons_of(rolled.asked.framework, failed["text"])
        if known:
            return known[0].text, known[0].mend
        return f"{failed['type']}: {' '.join(failed['text'].split())[:300]}", ""
    if rolled.cut:
        return "the time was over", "TIMEOUT=600   # where it is only slow"
    if error := last_error(rolled.log):
        return error, ""
    if rolled.exit_status:
        return f"{_of(rolled).name}'s program ended with {rolled.exit_status}", ""
    return "no worker says why", "make check STAGE=2   # one run alone"


def _server(rolled: Rolled) -> str:
    """That the inference server failed, by the calls that went there; a framework's log may keep that to itself."""
    failed = [call for call in rolled.engine if not call.ok and not call.abandoned]
    if not failed:
        return ""
    last = failed[-1]
    what = "went away" if last.failure else f"answered {last.status}"
    more = f": {last.failure}" if last.failure else ""
    return f"the inference server {what}: {len(failed)} of {len(rolled.engine)} calls to it failed{more}"


def _first(found: list[Reason], phase: str) -> Reason | None:
    """The reason that counts: what ends a start goes before what comes of it."""
    order = sorted(found, key=lambda reason: not reason.fatal) if phase in ("workers", "proxy") else found
    return order[0] if order else None


def _tail(rolled: Rolled, lines: int = 40) -> list[str]:
    return [line for line in plain(rolled.log).splitlines() if line.strip()][-lines:]


def _own(note: dict[str, Any], agent: AgentSource | None) -> Place | None:
    own = [frame for frame in note["frames"] if _is_own(frame, agent)]
    return _place(own[-1]) if own else None


def _is_own(frame: dict[str, Any], agent: AgentSource | None) -> bool:
    if agent is None or agent.path is None:
        return False
    folder = str(agent.path.parent)
    return frame["file"].startswith(folder + "/") and "/site-packages/" not in frame["file"]


def _place(frame: dict[str, Any]) -> Place:
    return Place(file=frame["file"], line=frame["line"], function=frame["function"], source=frame["source"])
