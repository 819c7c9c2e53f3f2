"""Stage 3: many runs of an agent at once, as one rank of a rollout has them."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.agent.many_runner import Many
from harness.agent.runner import Limits
from harness.agent.source import AgentSource
from harness.checks import samples, scaling, stage2_rules, stage3_ends, stage3_rules, stage3_speed
from harness.checks.findings import Finding, StageResult
from harness.checks.stage3_data import Asked
from harness.checks.stage3_gather import Load, Setup, gather
from harness.checks.stage3_rows import Rows, build
from harness.openai_api.http import Endpoint
from harness.openai_api.recording.store import Writer
from harness.openai_api.simulated.faults import Fault
from harness.openai_api.simulated.server import Behaviour


@dataclass(frozen=True)
class Size:
    """How many runs, as a training's configuration counts them.

    Args:
        global_bs: prompts of one training step, over all data-parallel ranks.
        group_size: runs for each prompt.
        rollout_dp_size: ranks that share the prompts; one of them is checked.
        in_flight: the most runs at once; 0 for all of them.
    """

    global_bs: int = 256
    group_size: int = 8
    rollout_dp_size: int = 4
    in_flight: int = 0

    @property
    def groups(self) -> int:
        """Prompts of one rank."""
        return max(1, self.global_bs // self.rollout_dp_size)

    @property
    def runs(self) -> int:
        """Runs of one rank."""
        return self.groups * self.group_size

    @property
    def at_once(self) -> int:
        """The most at once."""
        return min(self.in_flight or self.runs, self.runs)


@dataclass(frozen=True)
class Simulation:
    """How the simulated server behaves."""

    latency: float = 0.1
    faults: tuple[Fault, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Plan:
    """What to run.

    Args:
        agent: the agent, already found.
        data: the data set, already read; None where a recording has the samples.
        seed: decides which samples are taken and which call meets which fault; None means a new seed.
        model: the model's name for the agent.
        size: how many runs.
        simulation: of the server; None for the real one.
        limits: how long to wait for what.
        arguments: keyword arguments for the agent's ``__init__``.
        writer: records the calls of all runs; they then go through a proxy.
    """

    agent: AgentSource
    data: samples.DataSet | None
    seed: int | None
    model: str
    size: Size = field(default_factory=Size)
    simulation: Simulation | None = None
    limits: Limits = field(default_factory=Limits)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    writer: Writer | None = None
    cwd: Path | None = None


@dataclass(frozen=True)
class Done:
    """A stage 3 that has been run.

    Args:
        interrupted: by Ctrl-C; the result is on what was done until then.
    """

    result: StageResult
    load: Load | None
    rows: Rows | None
    seed: int | None
    interrupted: bool = False


def run(plan: Plan, endpoint: Endpoint, *, tell: Callable[[str], None] = lambda _text: None) -> Done:
    """Run the agent many times at once and judge what happened."""
    title = f"{plan.size.runs} runs of {plan.agent.given}, {plan.size.at_once} at once"
    assert plan.data is not None
    findings = [stage2_rules.data_lines(plan.data)]
    if not len(plan.data):
        result = StageResult(stage=3, title=title, findings=tuple(findings), ended_early="there is no sample to run")
        return Done(result, None, None, None)
    seed = secrets.randbelow(2**31) if plan.seed is None else plan.seed
    chosen = _choose(plan, seed)
    findings += _batch(plan)
    asked = _asked(plan, seed)
    started = time.monotonic()
    load = asyncio.run(gather(_setup(plan, endpoint, chosen, seed), tell=Progress(plan, tell)))
    rows = build(load, asked, [sample.line for sample in chosen])
    case = stage3_ends.Case(load, rows, plan.agent)
    bare_rate = load.bare.done / load.bare.seconds if load.bare and load.bare.seconds else None
    verdict = scaling.judge(rows, bare_rate=bare_rate)
    figures = stage3_speed.figures_of(case, verdict)
    ended = stage3_rules.judge(case)
    findings += [*ended, *stage3_speed.judge(case, verdict, figures)]
    result = StageResult(
        stage=3,
        title=title,
        findings=tuple(findings),
        figures={"seed": seed, **figures.model_dump()},
        seconds=round(time.monotonic() - started, 3),
        ended_early="stopped by Ctrl-C" if load.interrupted else "",
    )
    return Done(result, load, rows, seed, load.interrupted)


def _choose(plan: Plan, seed: int) -> list[samples.Sample]:
    """A sample for each group: all of them in random order, and again where there are too few."""
    assert plan.data is not None
    order = list(range(len(plan.data)))
    random.Random(seed).shuffle(order)
    read: dict[int, samples.Sample] = {}
    chosen = []
    for group in range(plan.size.groups):
        index = order[group % len(order)]
        if index not in read:
            read[index] = plan.data.sample(index)
        chosen.append(read[index])
    return chosen


def _batch(plan: Plan) -> list[Finding]:
    """Whether the data is long enough for the batch."""
    assert plan.data is not None
    have, want = len(plan.data), plan.size.groups
    if have >= want:
        return []
    return [
        Finding(
            id="load.data",
            title="data",
            status="warn",
            detail=f"{have} samples, {want} prompts in a rank's batch: samples are used more than once",
            consequence="A loader that drops the last incomplete batch gives no batch at all, and training waits.",
            mend=f"GLOBAL_BS={have * plan.size.rollout_dp_size}   # or more data",
        )
    ]


def _asked(plan: Plan, seed: int) -> Asked:
    server: Literal["real", "simulated"] = "real" if plan.simulation is None else "simulated"
    return Asked(
        runs=plan.size.runs,
        in_flight=plan.size.at_once,
        groups=plan.size.groups,
        group_size=plan.size.group_size,
        server=server,
        model=plan.model,
        latency=plan.simulation.latency if plan.simulation else 0.0,
        faults=plan.simulation.text if plan.simulation else "",
        seed=seed,
        timeout=plan.limits.run,
    )


def _setup(plan: Plan, endpoint: Endpoint, chosen: list[samples.Sample], seed: int) -> Setup:
    behaviour = None
    if plan.simulation is not None:
        behaviour = Behaviour(
            latency=plan.simulation.latency, faults=plan.simulation.faults, seed=seed, model=plan.model
        )
    many = Many([sample.data for sample in chosen], plan.size.group_size, plan.size.at_once, plan.arguments)
    return Setup(plan.agent, many, endpoint, plan.model, plan.limits, behaviour, plan.writer, cwd=plan.cwd)


class Progress:
    """Says how far the runs are, with their rate and the time that is left."""

    def __init__(self, plan: Plan, tell: Callable[[str], None]) -> None:
        self._runs, self._tell = plan.size.runs, tell
        self._began = 0.0

    def __call__(self, load: Load, tick: Mapping[str, Any]) -> None:
        if "bare" in tick:
            self._tell(f"a bare client makes the same calls: {tick['bare']} of {len(load.calls)}")
            return
        self._began = self._began or time.monotonic()
        passed, done = time.monotonic() - self._began, tick["done"]
        rate = done / passed if passed > 0 else 0.0
        left = f", {(self._runs - done) / rate:.0f} s left" if rate > 0 else ""
        failed = sum(row["outcome"] != "returned" for row in load.runs)
        text = f"{done} of {self._runs} runs, {rate:.1f}/s{left}; {tick['at_model']} at the model"
        text += f", {tick['queued']} in line" if tick["queued"] else ""
        text += f", {failed} failed" if failed else ""
        if tick["blocked"] > 2:
            own = [frame for frame in tick["stack"] if frame["own"]]
            where = f" at {own[-1]['file']}:{own[-1]['line']}" if own else ""
            text += f"; the event loop is blocked for {tick['blocked']:.0f} s{where}"
        self._tell(text)
