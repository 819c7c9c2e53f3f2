"""Starts the process in which many runs of an agent go on at once, follows it, and ends it; judges nothing.

What happens comes as events while it happens, so that everything said until then stands when the process dies.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.agent.runner import MARK, Child, Limits, Server, Trace, agent_environment, job_of
from harness.agent.source import AgentSource

Take = Callable[[dict[str, Any]], None]

# Said so often that they are only passed on; the others are kept in the trace, too.
_PASSED_ON = ("run", "call", "tick", "course", "held")


@dataclass(frozen=True)
class Many:
    """What to run.

    Args:
        samples: one for each group.
        group_size: runs for each sample.
        in_flight: the most at once.
        arguments: keyword arguments for the agent's ``__init__``.
    """

    samples: Sequence[Mapping[str, Any]]
    group_size: int
    in_flight: int
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """Where all runs but the first go.

    Args:
        keys: of each run; that of run -1 serves those that have none.
    """

    base_url: str
    keys: Mapping[int, str] = field(repr=False)


class ManyChild(Child):
    """The process of many runs."""

    take_event: Take = staticmethod(lambda _event: None)
    last_tick: float = 0.0
    blocked: float = 0.0

    def take(self, event: dict[str, Any]) -> bool:
        """Something was said. What comes by hundreds a second wakes nobody up."""
        name = event["event"]
        if name == "tick":
            self.last_tick, self.blocked = time.monotonic(), event["blocked"]
        if name not in _PASSED_ON:
            self.trace.events.append(event)
        self.take_event(event)
        return name not in _PASSED_ON

    def say_outside(self, calls: int) -> None:
        """Tell of calls on their way that the process itself can't see."""
        self.command(f"outside {calls}")

    async def follow(self, decide: Callable[[], Awaitable[Target]], stop: asyncio.Event) -> None:
        """Wait for the end of all runs, or bring it about.

        Args:
            decide: called after the first run, says where the others go.
            stop: set when somebody has seen enough.
        """
        limits = self.limits
        if not await self.until(("started", "unfit", "raised", "ended"), limits.load):
            self.trace.cut, self.trace.cut_during = limits.load, "load"
            await self.cut()
            return
        # The process itself cuts its first run at the limit, unless that blocks the loop.
        if not await self.until(("first", "unfit", "ended"), limits.run + 2 * limits.cancel + limits.answer):
            await self._cut_run()
            return
        if self.trace.event("first") is None or self.exited.done() or stop.is_set():
            return
        target = await decide()
        await asyncio.to_thread(self.command, "go " + json.dumps({"base_url": target.base_url, "keys": target.keys}))
        self.last_tick = time.monotonic()
        while not await self.until(("finished", "ended"), 0.25):
            silent = time.monotonic() - self.last_tick
            if stop.is_set():
                return
            if max(self.blocked, silent) > max(limits.run, 5.0):
                await self._cut_run()
                return
        await self.until((), limits.drain)

    async def _cut_run(self) -> None:
        self.trace.cut, self.trace.cut_during = self.limits.run, "run"
        await self.cut()


async def run_many(
    source: AgentSource,
    many: Many,
    server: Server,
    *,
    program: str,
    limits: Limits,
    take: Take,
    decide: Callable[[ManyChild], Awaitable[Target]],
    stop: asyncio.Event,
    environment: Mapping[str, str],
    cwd: Path | None = None,
) -> Trace:
    """Run an agent many times in a process of its own.

    Args:
        source: the agent.
        many: how often, on what.
        server: what the first run is to talk to.
        program: the module whose ``main`` runs in the child.
        limits: how long to wait for what; ``run`` holds for each run.
        take: gets every event as it comes.
        decide: called after the first run, says where the others go.
        stop: set when somebody has seen enough.
        environment: more variables for the process.
        cwd: where it runs.
    """
    trace = Trace()
    job = {
        **job_of(source, server, many.arguments),
        "many": {
            "samples": list(many.samples),
            "group_size": many.group_size,
            "in_flight": many.in_flight,
            "timeout": limits.run,
            "first_key": server.api_key,
            "first_url": server.base_url,
        },
    }
    started = time.monotonic()
    variables = agent_environment(os.environ, server) | dict(environment) | {MARK: secrets.token_hex(16)}
    async with ManyChild.start(program, job, variables, cwd or Path.cwd(), trace, limits) as child:
        child.take_event = take
        await child.follow(lambda: decide(child), stop)
    trace.seconds = time.monotonic() - started
    return trace
