"""From what stage 3 gathered to the rows and figures that are kept and judged; pure."""

from __future__ import annotations

import datetime
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.agent.rewards import Reward
from harness.checks.reward_rules import judge_reward
from harness.checks.stage3_data import (
    Asked,
    CallRow,
    ClientPlace,
    Course,
    LoadData,
    LoopTime,
    Resources,
    RunRow,
    Stack,
    StackFrame,
    Stall,
    Wait,
)
from harness.checks.stage3_gather import Load


@dataclass(frozen=True)
class Rows:
    """What is kept of the load: see ``stage3_data``."""

    runs: tuple[RunRow, ...]
    calls: tuple[CallRow, ...]
    bare: tuple[CallRow, ...]
    data: LoadData


def build(load: Load, asked: Asked, lines: Sequence[int]) -> Rows:
    """The rows of a load.

    Args:
        asked: what was asked for.
        lines: line of each group's sample in the data file.
    """
    faults = {(met.run, met.number): met.fault for met in load.met}
    # The list of models and the like are no calls to a model.
    calls = [_call(row, faults) for row in load.calls if row["generation"]]
    bare = [_call(row, {}) for row in (load.bare.rows if load.bare else []) if row["generation"]]
    by_run: dict[int, list[CallRow]] = defaultdict(list)
    for call in calls:
        by_run[call.run].append(call)
    met: dict[int, list[str]] = defaultdict(list)
    for fault in load.met:
        met[fault.run].append(fault.fault)
    ids: dict[int, set[str]] = defaultdict(set)
    for row in load.calls:
        ids[row["run"]].add(row.get("reply_id", ""))
    ended = {row["run"] for row in load.runs}
    runs = [_run(row, by_run[row["run"]], load.cuts, met, asked, lines, ids[row["run"]]) for row in load.runs]
    lost = [] if load.trace.event("began") is None else _lost(load, ended, by_run, asked, lines)
    return Rows(tuple([*runs, *lost]), tuple(calls), tuple(bare), _data(load, asked))


def frames_of(frames: Iterable[Mapping[str, Any]]) -> tuple[StackFrame, ...]:
    """A stack as it was told."""
    return tuple(StackFrame(**frame) for frame in frames)


def _call(row: Mapping[str, Any], faults: Mapping[tuple[int, int], str]) -> CallRow:
    known = {name: value for name, value in row.items() if name in CallRow.model_fields}
    return CallRow(**known, fault=faults.get((row["run"], row["number"]), ""))


def _run(
    row: Mapping[str, Any],
    calls: Sequence[CallRow],
    cuts: Mapping[int, Mapping[str, Any]],
    met: Mapping[int, Sequence[str]],
    asked: Asked,
    lines: Sequence[int],
    ids: set[str],
) -> RunRow:
    run, started, ended = row["run"], row["started"], row["ended"]
    group = run // asked.group_size
    model, queued = _spans(calls)
    place = _place(cuts.get(run, row).get("frames", ()))
    reward = Reward.from_dict(row["reward"]) if "reward" in row else None
    return RunRow(
        run=run,
        group=group,
        line=lines[group],
        started=started,
        ended=ended,
        outcome=row["outcome"],
        error=row.get("type", "") if row["outcome"] != "cut" else "",
        message=" ".join(row.get("message", "").split())[:300] if row["outcome"] != "cut" else "",
        file=place[0],
        at=place[1],
        reward=_number(reward),
        reward_type=reward.whole.type if reward else "",
        reward_shown=reward.whole.shown if reward else "",
        reward_problem=_of_a_dict(reward, ids) if reward and reward.is_dict else "",
        model_seconds=model,
        queued_seconds=queued,
        own_seconds=max(0.0, ended - started - model - queued),
        faults=tuple(met.get(run, ())),
        **_sums(calls),
    )


def _lost(
    load: Load, ended: set[int], by_run: Mapping[int, Sequence[CallRow]], asked: Asked, lines: Sequence[int]
) -> list[RunRow]:
    """Runs that had begun when their process ended; which had begun, their calls tell, and the order they start in."""
    if len(ended) == asked.runs:
        return []
    highest = max([*ended, *by_run], default=-1)
    active = max((point["active"] for point in load.course.get("course", ())), default=0)
    begun = min(asked.runs, max(highest + 1, min(asked.in_flight, active)))
    rows = []
    for run in sorted(set(range(begun)) - ended):
        group = run // asked.group_size
        rows.append(
            RunRow(run=run, group=group, line=lines[group], started=0.0, outcome="lost", **_sums(by_run.get(run, ())))
        )
    return rows


def _sums(calls: Sequence[CallRow]) -> dict[str, Any]:
    return {
        "calls": len(calls),
        "failed_calls": sum(not call.ok for call in calls),
        "prompt_tokens": sum(call.prompt_tokens or 0 for call in calls),
        "completion_tokens": sum(call.completion_tokens or 0 for call in calls),
    }


def _place(frames: Sequence[Mapping[str, Any]]) -> tuple[str, int]:
    own = [frame for frame in frames if frame["own"]]
    return (own[-1]["file"], own[-1]["line"]) if own else ("", 0)


def _of_a_dict(reward: Reward, ids: set[str]) -> str:
    """What is wrong with its keys; a number that is none is another matter.

    Args:
        ids: of the completions that the run was answered with.
    """
    status, detail, _, _ = judge_reward(reward, ids)
    return detail if status == "fail" and all(value.finite for value in reward.items.values()) else ""


def _number(reward: Reward | None) -> float | None:
    """A reward as one number: of a dict the sum, as a trajectory's reward adds up."""
    if reward is None:
        return None
    if not reward.is_dict:
        return reward.whole.number
    numbers = [value.number for value in reward.items.values()]
    return math.fsum(number for number in numbers if number is not None) if numbers and None not in numbers else None


def _spans(calls: Iterable[CallRow]) -> tuple[float, float]:
    """Seconds with at least one call at the model, and seconds with calls that only wait for a connection."""
    at_model = union([(call.sent, call.ended) for call in calls if call.sent is not None])
    any_call = union([(call.started, call.ended) for call in calls])
    return at_model, max(0.0, any_call - at_model)


def union(spans: Iterable[tuple[float, float]]) -> float:
    """The length of what spans cover together."""
    total, reach = 0.0, -math.inf
    for start, end in sorted(spans):
        if end > reach:
            total += end - max(start, reach)
            reach = end
    return total


def at_once(spans: Iterable[tuple[float, float]], wall: float) -> tuple[int, float]:
    """The most spans at one time, and their mean over a time."""
    steps = sorted(step for start, end in spans for step in ((start, 1), (end, -1)))
    now = peak = 0
    area = last = 0.0
    for time, step in steps:
        area += now * (time - last)
        last = time
        now += step
        peak = max(peak, now)
    return peak, area / wall if wall > 0 else 0.0


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """p50, p95, p99 and the largest; empty where there is nothing."""
    ordered = sorted(values)
    if not ordered:
        return {}
    found = {f"p{p}": ordered[min(len(ordered) - 1, math.ceil(len(ordered) * p / 100) - 1)] for p in (50, 95, 99)}
    return {name: round(value, 4) for name, value in {**found, "max": ordered[-1]}.items()}


def _data(load: Load, asked: Asked) -> LoadData:
    course = load.course
    ends = [row["ended"] for row in load.runs]
    points = course.get("course", [])
    held = [Resources(**{**value}) for value in load.held]
    counted: dict[str, int] = defaultdict(int)
    for met in load.met:
        counted[met.fault] += 1
    began = datetime.datetime.fromtimestamp(load.began).astimezone() if load.began else None
    return LoadData(
        asked=asked,
        began=began.isoformat(timespec="milliseconds") if began else "",
        wall=max([*ends, *(point["t"] for point in points[-1:])], default=0.0)
        if len(ends) < asked.runs
        else max(ends, default=0.0),
        alone=load.alone,
        stalls=tuple(Stall(**{**stall, "frames": frames_of(stall["frames"])}) for stall in course.get("stalls", ())),
        stall_count=course.get("stall_count", 0),
        stall_seconds=course.get("stall_seconds", 0.0),
        loop=LoopTime(**course.get("loop", {})),
        waits=tuple(Wait(**{**wait, "frames": frames_of(wait["frames"])}) for wait in course.get("waits", ())),
        profile=tuple(Stack(**{**stack, "frames": frames_of(stack["frames"])}) for stack in course.get("profile", ())),
        course=tuple(Course(**point) for point in points),
        before=held[0] if held else Resources(),
        after=held[1] if len(held) > 1 else Resources(),
        clients=tuple(ClientPlace(**place) for place in load.clients),
        faults=dict(counted),
    )
