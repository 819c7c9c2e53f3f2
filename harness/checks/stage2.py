"""Stage 2: one run of an agent on one sample, in a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.agent.runner import Limits
from harness.agent.source import AgentSource
from harness.checks import inside_rules, replay_rules, samples, stage2_rules
from harness.checks.findings import Finding, StageResult
from harness.checks.gather import Gathered, run_once
from harness.checks.lint import catalogue, program
from harness.checks.lint import seen as lint_seen
from harness.checks.tapes import Tapes
from harness.openai_api.http import Endpoint
from harness.openai_api.recording.store import RecordedRun


@dataclass(frozen=True)
class Plan:
    """What to run.

    Args:
        agent: the agent, already found.
        data: the data set, already read.
        seed: decides which sample is taken; None means a new seed.
        model: the model's name for the agent.
        limits: how long to wait for what.
        arguments: keyword arguments for the agent's ``__init__``.
        tapes: what is recorded into, or replayed.
        recorded: the run that is replayed; its sample is taken, and not one of the data set.
    """

    agent: AgentSource
    data: samples.DataSet | None
    seed: int | None
    model: str
    limits: Limits = field(default_factory=Limits)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    tapes: Tapes = field(default_factory=Tapes)
    recorded: RecordedRun | None = None
    cwd: Path | None = None


@dataclass(frozen=True)
class Done:
    """A stage 2 that has been run.

    Args:
        gathered: what was seen, for the raw material of the report; None where nothing was run.
    """

    result: StageResult
    gathered: Gathered | None
    seed: int | None


def run(plan: Plan, endpoint: Endpoint, *, tell: Callable[[str], None] = lambda _text: None) -> Done:
    """Run the agent once and judge the run."""
    title = f"one run of {plan.agent.given}"
    if plan.recorded is not None:
        tell(f"run {plan.recorded.run} of the recording")
        gathered = _once(plan, plan.recorded.sample, endpoint, plan.recorded.run, tell)
        findings = [*_judge(gathered, plan), *replay_rules.judge(gathered, plan.recorded)]
        figures = {"run": plan.recorded.run, "sample": plan.recorded.sample, **stage2_rules.figures(gathered)}
        return Done(_result(f"{title}, replayed", findings, figures, gathered), gathered, None)
    assert plan.data is not None
    findings = [stage2_rules.data_lines(plan.data)]
    if not len(plan.data):
        result = StageResult(stage=2, title=title, findings=tuple(findings), ended_early="there is no sample to run")
        return Done(result, None, None)
    seed, index = samples.choose(plan.data, plan.seed)
    sample = plan.data.sample(index)
    tell(f"sample of line {sample.line}, SEED={seed}")
    gathered = _once(plan, sample.data, endpoint, 0, tell)
    findings += _judge(gathered, plan)
    figures = {"seed": seed, "line": sample.line, "sample": sample.data, **stage2_rules.figures(gathered)}
    return Done(_result(title, findings, figures, gathered), gathered, seed)


def _judge(gathered: Gathered, plan: Plan) -> list[Finding]:
    """What the run shows, and beside it what the source says."""
    source = program.read(plan.agent)
    findings = stage2_rules.judge(gathered, plan.agent)
    findings += lint_seen.judge(gathered.generations, source)
    findings += inside_rules.judge(gathered, source)
    if source is None:
        return findings
    linted = catalogue.lint(source)
    return [*catalogue.merge(findings, linted.findings), catalogue.summary(linted)]


def _once(plan: Plan, sample: Mapping[str, Any], endpoint: Endpoint, run: int, tell: Callable[[str], None]) -> Gathered:
    return asyncio.run(
        run_once(
            plan.agent,
            sample,
            endpoint,
            model=plan.model,
            limits=plan.limits,
            arguments=plan.arguments,
            run=run,
            tapes=plan.tapes,
            cwd=plan.cwd,
            tell=tell,
        )
    )


def _result(title: str, findings: list[Finding], figures: dict[str, Any], gathered: Gathered) -> StageResult:
    return StageResult(
        stage=2, title=title, findings=tuple(findings), figures=figures, seconds=round(gathered.trace.seconds, 3)
    )
