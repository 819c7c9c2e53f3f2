"""The part of a check's page that shows many runs: latencies, runs in flight, stalls, waits, failures, rewards."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from markupsafe import Markup
from pydantic import BaseModel, ValidationError

from harness.checks.stage3_data import CallRow, LoadData, RunRow, StackFrame
from harness.runs.html import charts, flame
from harness.runs.html.charts import Series
from harness.runs.redact import Redactor

Row = TypeVar("Row", bound=BaseModel)
_MOST_WAITS, _MOST_RUNS = 20, 200
_NOTHING = Markup("")


@dataclass
class Load:
    """What the template shows.

    Args:
        waits: kind, run-seconds, most at once, detail, place.
        failures: by kind: how many, and one of them.
        failed_runs: run, line of the sample, outcome, message, place.
        rewards: type, how many, lowest, mean, highest.
        groups: how many groups there are, and how many with equal rewards, which teach nothing.
    """

    data: LoadData
    run_latency: Markup = _NOTHING
    call_latency: Markup = _NOTHING
    course: Markup = _NOTHING
    course_legend: Markup = _NOTHING
    memory: Markup = _NOTHING
    stalls: Markup = _NOTHING
    profile: Markup = _NOTHING
    waits: list[list[Any]] = field(default_factory=list)
    failures: list[list[Any]] = field(default_factory=list)
    failed_runs: list[list[Any]] = field(default_factory=list)
    failed: int = 0
    rewards: list[list[Any]] = field(default_factory=list)
    groups: int = 0
    flat_groups: int = 0


def build(folder: Path, redactor: Redactor) -> Load | None:
    """What stage 3 left in its folder; None where it left nothing."""
    try:
        data = LoadData.model_validate_json((folder / "load.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    runs, calls = rows(folder / "runs.jsonl", RunRow), rows(folder / "calls.jsonl", CallRow)
    load = Load(data)
    took = [run.ended - run.started for run in runs if run.ended is not None]
    load.run_latency = charts.histogram(took, of="runs", marks=percentiles(took))
    answered = [call.ended - (call.started if call.sent is None else call.sent) for call in calls if call.ok]
    load.call_latency = charts.histogram(answered, of="calls", marks=percentiles(answered))
    course = _course(data)
    load.course, load.course_legend = charts.over_time(course, unit="runs"), charts.legend(course)
    memory = Series("memory", [(point.t, point.rss / 1e6) for point in data.course if point.rss])
    load.memory = charts.over_time([memory], unit="MB")
    load.stalls = _flame([(stall.frames, stall.seconds) for stall in data.stalls], redactor, "stalls of the event loop")
    load.profile = _flame([(stack.frames, stack.seconds) for stack in data.profile], redactor, "the loop's thread")
    load.waits = [
        [wait.kind, round(wait.run_seconds, 1), wait.most, wait.detail, _place(wait.frames)]
        for wait in data.waits[:_MOST_WAITS]
    ]
    _failures(load, runs)
    _rewards(load, runs)
    return load


def lines(path: Path) -> list[dict[str, Any]]:
    """JSON objects of a file, one a line; what isn't one is passed over, and a missing file has none."""
    found = []
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(value, dict):
                    found.append(value)
    except OSError:
        pass
    return found


def rows(path: Path, kind: type[Row]) -> list[Row]:
    """The same as rows of a kind."""
    found = []
    for value in lines(path):
        try:
            found.append(kind.model_validate(value))
        except ValidationError:
            continue
    return found


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Where half, 95 and 99 % of the values are below."""
    if len(values) < 2:
        return {}
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98]}


def _course(data: LoadData) -> list[Series]:
    if not data.course:
        return []
    end = data.course[-1].t

    def line(name: str, value: Callable[[Any], float], kind: str) -> Series:
        return Series(name, [(point.t, value(point)) for point in data.course], kind)

    return [
        Series("asked for", [(0.0, data.asked.in_flight), (end, data.asked.in_flight)], "asked"),
        line("in flight", lambda point: point.active, "one"),
        line("with a call on its way", lambda point: point.at_model, "two"),
        line("waiting for a place", lambda point: point.queued, "three"),
    ]


def _flame(stacks: Iterable[tuple[Sequence[StackFrame], float]], redactor: Redactor, label: str) -> Markup:
    tree = flame.merge((([_frame(frame, redactor) for frame in frames], spent) for frames, spent in stacks), label)
    return flame.draw(tree, f"flame graph: {label}")


def _frame(frame: StackFrame, redactor: Redactor) -> flame.Frame:
    name = Path(frame.file).name
    source = redactor.text(frame.source)
    return flame.Frame(f"{frame.function} {name}:{frame.line}", f"{frame.file}:{frame.line}\n{source}", frame.own)


def _place(frames: Sequence[StackFrame]) -> str:
    own = next((frame for frame in reversed(frames) if frame.own), frames[-1] if frames else None)
    return "" if own is None else f"{own.file}:{own.line} {own.source}"


def _failures(load: Load, runs: Sequence[RunRow]) -> None:
    failed = [run for run in runs if run.outcome != "returned"]
    by_kind: dict[tuple[str, str, int], list[RunRow]] = defaultdict(list)
    for run in failed:
        by_kind[(run.error or run.outcome, run.file, run.at)].append(run)
    load.failed = len(failed)
    load.failures = [
        [len(alike), kind, alike[0].message, f"{file}:{at}" if file else "", f"run {alike[0].run}"]
        for (kind, file, at), alike in sorted(by_kind.items(), key=lambda item: -len(item[1]))
    ]
    load.failed_runs = [
        [run.run, run.line, run.error or run.outcome, run.message, f"{run.file}:{run.at}" if run.file else ""]
        for run in sorted(failed, key=lambda run: run.run)[:_MOST_RUNS]
    ]


def _rewards(load: Load, runs: Sequence[RunRow]) -> None:
    returned = [run for run in runs if run.outcome == "returned"]
    types: Mapping[str, int] = Counter(run.reward_type for run in returned)
    for name, many in sorted(types.items(), key=lambda item: -item[1]):
        values = [run.reward for run in returned if run.reward_type == name and run.reward is not None]
        spread = [min(values), statistics.fmean(values), max(values)] if values else []
        load.rewards.append([name, many, *(f"{value:.4g}" for value in spread), *[""] * (3 - len(spread))])
    groups: dict[int, list[float]] = defaultdict(list)
    for run in returned:
        if run.reward is not None:
            groups[run.group].append(run.reward)
    several = [rewards for rewards in groups.values() if len(rewards) > 1]
    load.groups, load.flat_groups = len(several), sum(len(set(rewards)) == 1 for rewards in several)
