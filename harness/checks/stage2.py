"""Stage 2: one run of an agent on one sample, in a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.agent.runner import Limits
from harness.agent.source import AgentSource
from harness.checks import samples, stage2_rules
from harness.checks.findings import StageResult
from harness.checks.gather import Gathered, run_once
from harness.openai_api.http import Endpoint


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
    """

    agent: AgentSource
    data: samples.DataSet
    seed: int | None
    model: str
    limits: Limits = field(default_factory=Limits)
    arguments: Mapping[str, Any] = field(default_factory=dict)
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
    findings = [stage2_rules.data_lines(plan.data)]
    title = f"one run of {plan.agent.given}"
    if not len(plan.data):
        result = StageResult(stage=2, title=title, findings=tuple(findings), ended_early="there is no sample to run")
        return Done(result, None, None)
    seed, index = samples.choose(plan.data, plan.seed)
    sample = plan.data.sample(index)
    tell(f"sample of line {sample.line}, SEED={seed}")
    gathered = asyncio.run(
        run_once(
            plan.agent,
            sample.data,
            endpoint,
            model=plan.model,
            limits=plan.limits,
            arguments=plan.arguments,
            cwd=plan.cwd,
            tell=tell,
        )
    )
    findings += stage2_rules.judge(gathered, plan.agent)
    figures = {"seed": seed, "line": sample.line, "sample": sample.data, **stage2_rules.figures(gathered)}
    return Done(
        StageResult(
            stage=2, title=title, findings=tuple(findings), figures=figures, seconds=round(gathered.trace.seconds, 3)
        ),
        gathered,
        seed,
    )
