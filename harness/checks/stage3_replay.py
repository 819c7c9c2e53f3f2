"""Stage 3 from a recording: all its runs again, without any server.

What ended, and with which reward, is judged as ever, and held against the recording. How fast it went is not: no model
took any time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from harness.agent.many_runner import Many
from harness.checks import replay_rules, stage3_ends, stage3_rules
from harness.checks.findings import StageResult
from harness.checks.stage3 import Done, Plan, Progress, Size
from harness.checks.stage3_data import Asked
from harness.checks.stage3_gather import Setup, gather
from harness.checks.stage3_rows import build
from harness.errors import RecordingUnusable
from harness.openai_api.http import Endpoint
from harness.openai_api.recording.store import RecordedRun, Recording, read_run


def size_of(recording: Recording, in_flight: int) -> Size:
    """How many runs a recording has, in groups as they were recorded.

    Raises:
        RecordingUnusable: runs are missing from it.
    """
    count = len(recording.runs)
    if recording.runs != tuple(range(count)):
        raise RecordingUnusable(
            f"the recording {recording.folder} lacks some of its runs, so stage 3 can't be replayed",
            mend=f"STAGE=2 REPLAY={recording.folder} RUN={recording.runs[0]}   # one run of it",
        )
    recorded = recording.about.get("group_size")
    group = recorded if isinstance(recorded, int) and recorded > 0 and count % recorded == 0 else 1
    return Size(count // group, group, 1, in_flight)


def run(plan: Plan, recording: Recording, *, tell: Callable[[str], None] = lambda _text: None) -> Done:
    """Run every run of a recording again, and judge how they ended."""
    started = time.monotonic()
    size = plan.size
    recorded = [_without_calls(read_run(recording.folder, number)) for number in recording.runs]
    first = [recorded[group * size.group_size] for group in range(size.groups)]
    many = Many([one.sample for one in first], size.group_size, size.at_once, plan.arguments)
    setup = Setup(
        plan.agent, many, Endpoint("", ""), plan.model, plan.limits, None, None, cwd=plan.cwd, recording=recording
    )
    load = asyncio.run(gather(setup, tell=Progress(plan, tell)))
    asked = Asked(
        runs=size.runs,
        in_flight=size.at_once,
        groups=size.groups,
        group_size=size.group_size,
        server="real",
        timeout=plan.limits.run,
    )
    rows = build(load, asked, [_line(one) for one in first])
    case = stage3_ends.Case(load, rows, plan.agent)
    findings = [*stage3_rules.judge(case), *replay_rules.judge_many(load.runs, load.missed, recorded)]
    failed = sum(row["outcome"] != "returned" for row in load.runs)
    figures = {"runs": size.runs, "ended": len(load.runs), "failed": failed, "calls": len(load.calls)}
    result = StageResult(
        stage=3,
        title=f"{size.runs} runs of {plan.agent.given}, replayed",
        findings=tuple(findings),
        figures=figures,
        seconds=round(time.monotonic() - started, 3),
        ended_early="stopped by Ctrl-C" if load.interrupted else "",
    )
    return Done(result, load, rows, None, load.interrupted)


def _without_calls(run: RecordedRun) -> RecordedRun:
    """Of hundreds of runs the answers needn't be held here; the agent's process reads its own."""
    return RecordedRun(run.run, run.sample, run.about, (), run.ended, run.notes)


def _line(run: RecordedRun) -> int:
    line: Any = run.about.get("line")
    return line if isinstance(line, int) else 0
