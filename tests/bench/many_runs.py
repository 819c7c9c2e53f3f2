"""Stage 3's machinery against a bare AsyncOpenAI client that makes the same calls; its memory; and leaks."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
from pathlib import Path

from harness.agent.many_runner import Many
from harness.agent.runner import Limits
from harness.agent.source import locate
from harness.checks import bare_client, samples, stage3_gather
from harness.checks.bare_client import Bare
from harness.checks.stage3_gather import BARE, Load, Setup
from harness.openai_api.http import Endpoint
from harness.openai_api.simulated.process import serving
from harness.openai_api.simulated.server import Behaviour
from tests.support.harness import CLONE

RATIO, MEMORY = 0.9, 300e6
NOWHERE = Endpoint("http://127.0.0.1:9/v1", "")


def gather(runs: int, in_flight: int) -> Load:
    """Runs of the sample agent at a simulated server without latency."""
    examples = CLONE / "examples"
    data = samples.read(examples / "data" / "capitals.jsonl")
    groups = [data.sample(group % len(data)).data for group in range(runs // 8)]
    setup = Setup(
        locate("agents/single_turn.py:SingleTurn", folders=[examples]),
        Many(groups, 8, in_flight),
        NOWHERE,
        "simulated",
        Limits(),
        Behaviour(),
        bare_seconds=0.1,
    )
    return asyncio.run(stage3_gather.gather(setup, tell=lambda _load, _tick: None))


async def bare(runs: int) -> Bare:
    """The bare client, with nothing that watches it."""
    data = samples.read(CLONE / "examples" / "data" / "capitals.jsonl")
    async with serving(Behaviour(), [BARE]) as server:
        with tempfile.TemporaryDirectory() as folder:
            bodies = Path(folder, "bodies.jsonl")
            asked = {"model": "simulated", "max_tokens": 16, "temperature": 1.0}
            lines = ({**asked, "messages": data.sample(n % len(data)).data["messages"]} for n in range(runs))
            bodies.write_text("".join(json.dumps(["/v1/chat/completions", body]) + "\n" for body in lines))
            done = await bare_client.repeat(
                bare_client.Job(server.base_url, server.keys[BARE], str(bodies), runs, runs, observed=False)
            )
    assert done.done == runs, done.problem
    return done


def rate(load: Load) -> float:
    """Runs a second; each makes one call."""
    assert all(row["outcome"] == "returned" for row in load.runs)
    wall: float = max(row["ended"] for row in load.runs)
    return len(load.runs) / wall


def run(pairs: int = 5, runs: int = 512) -> bool:
    """Measure and print; returns whether the goals are met."""
    ratios, processor, memory = [], [], 0.0
    for _ in range(pairs):
        load, alone = gather(runs, runs), asyncio.run(bare(runs))
        ratios.append(rate(load) * alone.seconds / alone.done)
        # Where neighbours have the processor, this says more: how much of its own time the event loop's thread took.
        processor.append(alone.cpu_seconds / load.course["loop"]["computing"])
        memory = max(memory, max(point["rss"] for point in load.course["course"]) - load.held[0]["rss"])
    ratio = statistics.median(ratios)
    shown = ", ".join(f"{value:.2f}" for value in ratios)
    met = ratio >= RATIO and memory <= MEMORY
    print(f"{runs} runs at once against a bare client: {shown}")
    print(f"  event loop's CPU time, the bare client's against ours: median {statistics.median(processor):.2f}")
    print(f"  median {ratio:.2f} (goal: ≥ {RATIO}), {memory / 1e6:.0f} MB more (goal: ≤ 300): {_verdict(met)}")
    return met & _leaks()


def _leaks(runs: int = 8192, in_flight: int = 1024) -> bool:
    load = gather(runs, in_flight)
    before, after = load.held
    names = ("descriptors", "sockets", "clients")
    left = {name: after[name] - before[name] for name in names} | {
        name: len(after[name]) - len(before[name]) for name in ("tasks", "threads")
    }
    met = len(load.runs) == runs and all(count <= 0 for count in left.values())
    grew = (after["rss"] - before["rss"]) / 1e6
    print(f"{len(load.runs)} runs, {in_flight} at once: {rate(load):.0f}/s, memory {grew:.1f} MB more, left {left}")
    print(f"  {_verdict(met)}")
    return met


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"
