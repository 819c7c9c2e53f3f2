"""Stage 4: one batch through AReaL's own rollout controller, or verl's own agent loops, judged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.agent.source import AgentSource
from harness.checks import samples, stage2_rules
from harness.checks.findings import Finding, StageResult
from harness.checks.lint import run as lint_run
from harness.checks.stage4 import keep, rules, support, verl_rules
from harness.checks.stage4.data import Asked, Rolled
from harness.checks.stage4.gather import Gathered, gather
from harness.checks.stage4.job import Setup
from harness.checks.stage4.wanted import DEBUGGER, Wanted, backend
from harness.openai_api import probes
from harness.openai_api.http import Endpoint, Server
from harness.openai_api.recording.store import Writer
from harness.processes.leaving import leaving_on_signals


@dataclass(frozen=True)
class Plan:
    """What to roll out.

    Args:
        agent: the agent, already found.
        data: the data set, already read.
        seed: decides which samples are taken; None means a new seed.
        model: the model's name for the agent.
        arguments: keyword arguments for the agent's ``__init__``.
        writer: keeps the agents' calls.
    """

    agent: AgentSource
    data: samples.DataSet
    seed: int | None
    model: str
    wanted: Wanted
    arguments: Mapping[str, Any] = field(default_factory=dict)
    writer: Writer | None = None
    cwd: Path | None = None


@dataclass(frozen=True)
class Done:
    """A stage 4 that has been run.

    Args:
        gathered: None where nothing was run.
    """

    result: StageResult
    gathered: Gathered | None
    seed: int | None
    interrupted: bool = False


def run(plan: Plan, endpoint: Endpoint, *, tell: Callable[[str], None] = lambda _text: None) -> Done:
    """Roll a batch out and judge it."""
    wanted = plan.wanted
    asked = _asked(plan)
    title = f"{asked.runs} runs of {asked.name} in {wanted.framework.where}"
    findings = [stage2_rules.data_lines(plan.data), *lint_run.of_config(wanted.config)]
    began = time.monotonic()

    def ended(early: str, gathered: Gathered | None = None, seed: int | None = None, **more: Any) -> Done:
        rolled = gathered.rolled if gathered else None
        result = StageResult(
            stage=4,
            title=title,
            findings=tuple(findings),
            figures=figures(rolled, seed) if rolled else {},
            seconds=round(time.monotonic() - began, 3),
            ended_early=early,
        )
        return Done(result, gathered, seed, **more)

    if not len(plan.data):
        return ended("there is no sample to run")
    if wanted.framework.key == "verl":
        findings += verl_rules.unread(wanted.config)
    else:
        findings.append(scheduler_line(wanted))
        if wanted.pair.verdict == "refused":
            return ended("AReaL refuses this scheduler with an agent")
    fit, token_ids = engine_lines(endpoint, wanted)
    findings += fit
    if not token_ids:
        return ended(f"{wanted.framework.name} can't use this server")
    findings += batch_lines(wanted, plan.data)
    seed, chosen = samples.several(plan.data, plan.seed, wanted.prompts)
    asked = replace(asked, lines=tuple(sample.line for sample in chosen))
    gathered = Gathered(Rolled(asked))
    try:
        with leaving_on_signals():
            asyncio.run(
                gather(_setup(plan, asked, chosen, endpoint), gathered, tell=_Progress(asked, tell, wanted.debugged))
            )
    except KeyboardInterrupt:
        gathered.rolled.interrupted = True
    findings += config_lines(gathered.rolled)
    findings += rules.judge(gathered.rolled, plan.agent if wanted.kind == "agent" else None)
    if plan.writer is not None:
        keep.record(plan.writer, gathered, chosen)
    stopped = gathered.rolled.interrupted
    return ended("stopped by Ctrl-C" if stopped else "", gathered, seed, interrupted=stopped)


def _asked(plan: Plan) -> Asked:
    wanted = plan.wanted
    if wanted.kind == "agent":
        name = plan.agent.given
    else:
        name = wanted.reward.given if wanted.reward is not None else f"{wanted.framework.name}'s agent loop"
    return Asked(wanted.kind, name, wanted.prompts, wanted.group_size, framework=wanted.framework)


def _setup(plan: Plan, asked: Asked, chosen: list[samples.Sample], endpoint: Endpoint) -> Setup:
    wanted, reward = plan.wanted, plan.wanted.reward
    settings = dict(wanted.settings)
    if wanted.framework.key == "areal":
        settings["backend"] = backend(wanted.config.get("rollout.backend").text, _has_generate(endpoint))
    return Setup(
        python=wanted.python,
        config=wanted.config.path,
        settings=settings,
        asked=asked,
        samples=tuple(chosen),
        endpoint=endpoint,
        agent=plan.agent if wanted.kind == "agent" else None,
        arguments=plan.arguments,
        reward="" if reward is None else f"{reward.module}.{reward.class_name}",
        search=() if reward is None else reward.search,
        model=plan.model,
        patience=wanted.patience,
        start_seconds=wanted.start_seconds,
        record=plan.writer is not None,
        debugged=DEBUGGER if wanted.debugged else "",
        generate=wanted.framework.key == "verl" and _engine_of(wanted) == "sglang" and _has_generate(endpoint),
        cwd=plan.cwd,
    )


def _engine_of(wanted: Wanted) -> str:
    return wanted.config.get("actor_rollout_ref.rollout.name").text or "vllm"


def scheduler_line(wanted: Wanted) -> Finding:
    """What AReaL supports with this scheduler, and what of it is run here."""
    pair = wanted.pair
    others = "; ".join(
        f"{one.scheduler} + {one.workflow}: {one.verdict}" for one in support.MATRIX if one.scheduler != "local"
    )
    facts = {"matrix": [{"scheduler": one.scheduler, "workflow": one.workflow, "verdict": one.verdict, "why": one.why}
                        for one in support.MATRIX]}  # fmt: skip
    name = wanted.scheduler
    if pair.verdict == "runs":
        said = "" if name else " (the configuration names none; training refuses that)"
        return Finding(
            id="areal.scheduler",
            title="scheduler",
            status="pass" if name else "warn",
            detail=f"local with {_what(wanted)}{said}",
            mend="" if name else "scheduler.type: local, or slurm",
            facts=facts,
        )
    return Finding(
        id="areal.scheduler",
        title=f"scheduler {name} with {_what(wanted)}",
        status="skip",
        detail=pair.why,
        consequence=others,
        facts=facts,
    )


def _what(wanted: Wanted) -> str:
    return "an agent" if wanted.reward is None else "RLVRWorkflow"


def engine_lines(endpoint: Endpoint, wanted: Wanted) -> tuple[list[Finding], bool]:
    """Whether the server is one that the framework's engine can use."""
    key, name = wanted.framework.key, wanted.framework.name
    with Server(endpoint, timeout=60.0) as server:
        answer = probes.BY_TOKEN_IDS.send(server, "")
    if answer.status == 200:
        told = _engine_of(wanted) if key == "verl" else wanted.config.get("rollout.backend").text or "?"
        here = _as_client(told, _has_generate(endpoint), wanted)
        same = told.partition(":")[0] == here.partition(":")[0]
        detail = f"attached to the server that runs, as {here}; training starts its own by {told}"
        return [
            Finding(
                id=wanted.framework.id("engine"),
                title="inference engine",
                status="pass" if same else "warn",
                detail=detail,
                consequence="" if same else "Another engine's templates, stops and log-probs may differ a little.",
            )
        ], True
    return [
        Finding(
            id=wanted.framework.id("engine"),
            title="inference engine",
            status="fail",
            detail="the server takes no prompt of token ids, or doesn't answer by them: "
            f"{answer.problem or answer.status}",
            consequence=f"{name}'s engine speaks nothing else.",
            mend="the server's address ends in /v1 twice: once is enough"
            if endpoint.base_url.rstrip("/").endswith("/v1/v1")
            else "make up ENGINE=vllm   # llama.cpp and most hosted APIs can't",
        )
    ], False


def _as_client(told: str, has_generate: bool, wanted: Wanted) -> str:
    if wanted.framework.key == "areal":
        return backend(told, has_generate)
    return "sglang" if told == "sglang" and has_generate else "vllm"


def _has_generate(endpoint: Endpoint) -> bool:
    with Server(endpoint, timeout=20.0) as server:
        answer = probes.GENERATE.send(server, "")
    return answer.status == 200


def batch_lines(wanted: Wanted, data: samples.DataSet) -> list[Finding]:
    """What of a training's batch is rolled out."""
    if wanted.of_prompts > wanted.prompts:
        return [
            Finding(
                id=wanted.framework.id("size"),
                title="batch",
                status="pass",
                detail=f"{wanted.prompts} of training's {wanted.of_prompts} prompts, {wanted.group_size} runs each",
                mend=f"GLOBAL_BS={wanted.of_prompts}   # all of them",
            )
        ]
    if len(data) < wanted.prompts:
        return [
            Finding(
                id=wanted.framework.id("size"),
                title="batch",
                status="warn",
                detail=f"{len(data)} samples, {wanted.prompts} prompts in a batch: samples are used more than once",
                consequence="A loader that drops the last incomplete batch gives no batch at all, and training waits.",
                mend=f"GLOBAL_BS={len(data)}   # or more data",
            )
        ]
    return []


def config_lines(rolled: Rolled) -> list[Finding]:
    """What the framework read, and what the check put in its place."""
    framework = rolled.asked.framework
    told = rolled.event("config")
    if told is None:
        return []
    changed = [name for name in told["changed"] if name != "backend"]
    short = {name: name.removeprefix("actor_rollout_ref.") for name in changed}
    put = ", ".join(name if "key" in name else f"{short[name]}={told['changed'][name]['is']}" for name in changed)
    return [
        Finding(
            id=framework.id("config"),
            title=f"configuration in {framework.name}",
            status="pass",
            detail="read as training reads it" + (f"; put in for the check: {put}" if put else ""),
            facts={name: value for name, value in told.items() if name not in ("event", "time")},
        )
    ]


def figures(rolled: Rolled, seed: int | None) -> dict[str, Any]:
    """What was measured."""
    batch = rolled.event("batch") or {}
    times = {event["name"]: event["time"] for event in rolled.all("phase")}
    order = sorted(times.items(), key=lambda item: item[1])
    phases = {name: round(order[at + 1][1] - began, 2) for at, (name, began) in enumerate(order[:-1])}
    return {
        "seed": seed,
        "prompts": rolled.asked.prompts,
        "group_size": rolled.asked.group_size,
        "trajectories": len(rolled.trajectories),
        "batch_seconds": batch.get("seconds"),
        "phase_seconds": phases,
        "engine_calls": len(rolled.engine),
        "agent_calls": sum(call.is_generation for _, call in rolled.agents),
        "lines": list(rolled.asked.lines),
    }


class _Progress:
    """Says how far the framework is."""

    def __init__(self, asked: Asked, tell: Callable[[str], None], debugged: bool) -> None:
        self._asked, self._tell, self._debugged = asked, tell, debugged
        self._began = time.monotonic()

    def __call__(self, rolled: Rolled) -> None:
        passed = time.monotonic() - self._began
        name = self._asked.framework.name
        if rolled.stall is not None:
            self._tell("nothing moves any more: taking a hang dump")
            return
        progress = rolled.event("progress")
        if rolled.phase != "rollout" or progress is None:
            doing = {
                "start": f"starting {name}",
                "import": f"importing {name}",
                "config": "reading the configuration",
                "workers": f"{name} starts its workers",
                "proxy": f"{name} starts what answers its agents",
            }.get(rolled.phase, f"{name} rolls out")
            if self._debugged and rolled.phase in ("workers", "rollout"):
                doing += f"; its worker waits for a debugger at {DEBUGGER}: make attach"
            self._tell(f"{doing}, {passed:.0f} s")
            return
        counts = ", ".join(
            f"{progress[name]} {name}" for name in ("enqueued", "running", "accepted", "rejected") if progress[name]
        )
        self._tell(
            f"{self._asked.prompts} prompts × {self._asked.group_size}: {counts or 'nothing yet'}; "
            f"{'capacity ' + str(progress['capacity']) + ', ' if name == 'AReaL' else ''}"
            f"{len(rolled.engine)} calls to the engine, {passed:.0f} s"
        )
