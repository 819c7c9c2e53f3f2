"""What stages gather of a run: what its process did, and every call to the model, from both sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.agent.runner import Limits, Server, Trace, run_agent
from harness.agent.source import AgentSource
from harness.checks.tapes import Tapes, outcome, reward
from harness.openai_api.calls import Call
from harness.openai_api.http import Endpoint
from harness.openai_api.recording.matching import Miss

CHILD = "harness.checks.child"


@dataclass
class Gathered:
    """All that was seen of one run.

    Args:
        trace: what its process did.
        calls: what the proxy saw, in the order in which the calls began.
        seen: what the observer inside the process saw, with the origin that each call went to.
        proxy_origin: where the proxy was.
        refused: calls to the proxy with a key that wasn't the run's.
        missed: calls that the replayed recording doesn't have.
    """

    trace: Trace = field(default_factory=Trace)
    calls: list[Call] = field(default_factory=list)
    seen: list[tuple[str, Call]] = field(default_factory=list)
    proxy_origin: str = ""
    refused: int = 0
    missed: list[Miss] = field(default_factory=list)

    @property
    def generations(self) -> list[Call]:
        """The calls that asked a model to generate, with the lines that made them where the observer saw those."""
        made = [call for call in self.calls if call.is_generation]
        return with_callers(made, [c for origin, c in self.seen if origin == self.proxy_origin and c.is_generation])


def with_callers(made: Sequence[Call], seen: Sequence[Call]) -> list[Call]:
    """The calls that came over the wire, with the lines that the observer inside the process noted for them."""
    if len(made) == len(seen):
        return [replace(call, caller=other.caller) for call, other in zip(made, seen, strict=True)]
    by_id: dict[str, list[Call]] = {}
    for other in seen:
        if other.reply is not None and other.reply.id:
            by_id.setdefault(other.reply.id, []).append(other)
    return [
        replace(call, caller=others[0].caller)
        if call.reply is not None and len(others := by_id.get(call.reply.id, [])) == 1
        else call
        for call in made
    ]


async def run_once(
    agent: AgentSource,
    data: Mapping[str, Any],
    endpoint: Endpoint,
    *,
    model: str,
    limits: Limits,
    arguments: Mapping[str, Any] | None = None,
    run: int = 0,
    tapes: Tapes | None = None,
    cwd: Path | None = None,
    tell: Callable[[str], None] = lambda _text: None,
) -> Gathered:
    """Run an agent once behind a recording proxy, or in front of a recording.

    Args:
        agent: the agent.
        data: the sample.
        endpoint: the real server; the agent gets the proxy's address and a key for this run instead.
        model: the model's name for the agent.
        limits: how long to wait for what.
        arguments: keyword arguments for the agent's ``__init__``.
        run: index of the run.
        tapes: what is recorded into, or replayed.
        cwd: where the agent's process runs.
        tell: called with a few words when a call has ended.
    """
    gathered = Gathered()
    tapes = tapes or Tapes()

    def take(call: Call) -> None:
        gathered.calls.append(call)
        if call.is_generation:
            tell(f"{len(gathered.generations)} calls to the model")

    if tapes.writer is not None:
        tapes.writer.begin_run(run, data)
    async with tapes.port(endpoint, take, gathered.missed.append) as port:
        gathered.proxy_origin = port.origin
        server = Server(port.base_url, port.root, port.open_run(run), model)
        gathered.trace = await run_agent(
            agent,
            data,
            server,
            program=CHILD,
            limits=limits,
            arguments=arguments,
            run=run,
            cwd=cwd,
            environment=tapes.environment,
        )
        gathered.refused = port.refused
    if tapes.writer is not None:
        tapes.writer.end_run(run, outcome(gathered.trace), reward(gathered.trace))
    inside, missed = tapes.answered_inside(gathered.trace.events)
    gathered.calls += inside
    gathered.missed += missed
    gathered.calls.sort(key=lambda call: call.number)
    gathered.seen = [
        (event["origin"], Call.from_dict(event["call"])) for event in gathered.trace.events if event["event"] == "call"
    ]
    return gathered
