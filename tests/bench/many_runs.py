"""Stage 3's machinery against a bare AsyncOpenAI client that makes the same calls; its memory; and leaks.

By an agent that makes just those calls, by one client for all of its runs. The sample agent makes a client object in
each run, as agents of AReaL do, which costs what half a call does; so it is held against itself without the harness.
"""

from __future__ import annotations

import asyncio
import statistics

from harness.agent.many_runner import Many
from harness.agent.runner import Limits
from harness.agent.source import locate
from harness.checks import samples, stage3_gather
from harness.checks.stage3_gather import BARE, Load, Setup
from harness.openai_api.http import Endpoint
from harness.openai_api.simulated.process import serving
from harness.openai_api.simulated.server import Behaviour
from tests.bench import bare_openai
from tests.bench.bare_openai import Alone
from tests.support.harness import CLONE

RATIO, MEMORY = 0.9, 300e6
NOWHERE = Endpoint("http://127.0.0.1:9/v1", "")


# What is measured, by the name of what it is held against.
AGENTS = {"client": "tests/bench/one_client.py:OneClient", "agent": "examples/agents/single_turn.py:SingleTurn"}


def gather(runs: int, in_flight: int, against: str = "agent") -> Load:
    """Runs of an agent at a simulated server without latency."""
    examples = CLONE / "examples"
    data = samples.read(examples / "data" / "capitals.jsonl")
    groups = [data.sample(group % len(data)).data for group in range(runs // 8)]
    setup = Setup(
        locate(AGENTS[against], folders=[CLONE]),
        Many(groups, 8, in_flight),
        NOWHERE,
        "simulated",
        Limits(),
        Behaviour(),
        bare_seconds=0.1,
    )
    return asyncio.run(stage3_gather.gather(setup, tell=lambda _load, _tick: None))


async def alone(what: str, runs: int) -> Alone:
    """The ``client``, or the ``agent``, with nothing that watches it, at a server of the same kind."""
    async with serving(Behaviour(), [BARE]) as server:
        return await bare_openai.measure(what, server.base_url, server.keys[BARE], runs)


def wall(load: Load) -> float:
    """Seconds from the start of the first run to the end of the last; each makes one call."""
    assert all(row["outcome"] == "returned" for row in load.runs)
    seconds: float = max(row["ended"] for row in load.runs)
    return seconds


def run(pairs: int = 7, runs: int = 512) -> bool:
    """Measure in turns and print the medians; returns whether the goals are met."""
    ours: dict[str, list[float]] = {what: [] for what in AGENTS}
    others: dict[str, list[float]] = {what: [] for what in AGENTS}
    ours_cpu: dict[str, list[float]] = {what: [] for what in AGENTS}
    others_cpu: dict[str, list[float]] = {what: [] for what in AGENTS}
    memory = 0.0
    for _ in range(pairs):
        for what in AGENTS:
            load = gather(runs, runs, what)
            other = asyncio.run(alone(what, runs))
            ours[what].append(wall(load))
            others[what].append(other.seconds)
            # Where neighbours have the processor this says more: what the event loop's thread took of its own time.
            ours_cpu[what].append(load.course["loop"]["computing"])
            others_cpu[what].append(other.cpu_seconds)
            memory = max(memory, max(point["rss"] for point in load.course["course"]) - load.held[0]["rss"])
    # A median of each side, not of the pairs' ratios: what disturbs one run of two seconds would count twice in those.
    ratio = {what: statistics.median(others[what]) / statistics.median(ours[what]) for what in AGENTS}
    met = ratio["client"] >= RATIO and memory <= MEMORY
    for what, name in (("client", "a bare client"), ("agent", "the sample agent without the harness")):
        cpu = statistics.median(others_cpu[what]) / statistics.median(ours_cpu[what])
        print(f"{runs} runs at once against {name}: {ratio[what]:.2f}; by the event loop's CPU time {cpu:.2f}")
        print(f"  seconds with the harness: {_shown(ours[what])}; without: {_shown(others[what])}")
    print(f"  {ratio['client']:.2f} (goal: ≥ {RATIO}), {memory / 1e6:.0f} MB more (goal: ≤ 300): {_verdict(met)}")
    return met & _leaks()


def _shown(values: list[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _leaks(runs: int = 8192, in_flight: int = 1024) -> bool:
    load = gather(runs, in_flight)
    before, after = load.held
    names = ("descriptors", "sockets", "clients")
    left = {name: after[name] - before[name] for name in names} | {
        name: len(after[name]) - len(before[name]) for name in ("tasks", "threads")
    }
    met = len(load.runs) == runs and all(count <= 0 for count in left.values())
    grew = (after["rss"] - before["rss"]) / 1e6
    print(
        f"{len(load.runs)} runs, {in_flight} at once: {runs / wall(load):.0f}/s, memory {grew:.1f} MB more, left {left}"
    )
    print(f"  {_verdict(met)}")
    return met


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"
