"""The simulated server: a ``Loopback`` whose answers come from nowhere, late, or not at all, as it is told."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import h11

from harness.openai_api.calls import Reader
from harness.openai_api.incoming import Incoming
from harness.openai_api.loopback import Connection, Loopback
from harness.openai_api.reading import Protocol, protocol_of
from harness.openai_api.simulated import answers
from harness.openai_api.simulated.faults import Fault, draw

_MOST_NAMES = 20


@dataclass(frozen=True)
class Behaviour:
    """How the server behaves.

    Args:
        latency: seconds that an answer takes; a stream's first token comes after half of it.
        faults: what it does wrong, and how often.
        seed: decides which call meets which fault.
        tokens: length of an answer that no limit cuts.
        model: the name that it lists.
    """

    latency: float = 0.0
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    tokens: int = 12
    model: str = "simulated"


@dataclass(frozen=True)
class Met:
    """A fault that a call has met."""

    run: int
    number: int
    fault: str


@dataclass
class Course:
    """What has happened so far.

    Args:
        models: calls by the name of another model than ours; of names made up anew each time only the first few.
    """

    calls: Counter[int] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    met: list[Met] = field(default_factory=list)
    open: int = 0
    peak: int = 0


class SimulatedServer(Loopback):
    """Serves while it is entered.

    Runs with a negative index (the first run, the bare client) meet no faults.
    """

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__("/v1")
        self.behaviour = behaviour
        self.course = Course()

    async def respond(self, incoming: Incoming, reader: Reader, connection: Connection) -> None:  # noqa: ARG002
        """Answer a request, or do to it what the seed says."""
        protocol = protocol_of(incoming.path)
        if incoming.path.partition("?")[0].endswith("/models"):
            await connection.answer_json(200, answers.models(self.behaviour.model))
            return
        if incoming.method != "POST" or protocol == "other" or incoming.path.count("/v1/") > 1:
            await connection.refuse(404, f"no route {incoming.path}")
            return
        try:
            request = json.loads(incoming.body)
        except ValueError:
            request = None
        if not isinstance(request, dict):
            await connection.refuse(400, "the body is no JSON object")
            return
        self.course.calls[incoming.run] += 1
        name = str(request.get("model", ""))[:100]
        if name != self.behaviour.model and (name in self.course.models or len(self.course.models) < _MOST_NAMES):
            self.course.models[name] += 1
        self.course.open += 1
        self.course.peak = max(self.course.peak, self.course.open)
        try:
            await self._generate(incoming, protocol, request, connection)
        finally:
            self.course.open -= 1

    async def _generate(
        self, incoming: Incoming, protocol: Protocol, request: dict[str, Any], connection: Connection
    ) -> None:
        behaviour = self.behaviour
        fault = None
        if incoming.run >= 0:
            fault = draw(behaviour.faults, behaviour.seed, incoming.run, incoming.number)
        name = fault.name if fault else ""
        if fault is not None:
            self.course.met.append(Met(incoming.run, incoming.number, name))
        if fault is not None and await _refused(fault, connection):
            return
        answer = answers.think(
            request,
            f"sim-{incoming.run}-{incoming.number}",
            tokens=behaviour.tokens,
            empty=name == "empty",
            cut=name == "length",
        )
        late = fault.seconds if fault is not None and name == "slow-first-token" else 0.0
        if request.get("stream"):
            options = request.get("stream_options")
            with_usage = isinstance(options, dict) and bool(options.get("include_usage"))
            parts = answers.events(protocol, answer, with_usage=with_usage)
            await self._stream(connection, parts, late, cut=name == "cut-stream")
            return
        await _pause(behaviour.latency + late)
        if name == "cut-stream":
            await _cut_body(connection, json.dumps(answers.body(protocol, answer)).encode())
        await connection.answer_json(200, answers.body(protocol, answer))

    async def _stream(
        self,
        connection: Connection,
        parts: list[str],
        late: float,
        *,
        cut: bool,
    ) -> None:
        await _pause(self.behaviour.latency / 2 + late)
        await connection.write(h11.Response(status_code=200, headers=[("content-type", "text/event-stream")]))
        if cut:
            parts = parts[: max(1, len(parts) // 2)]
        pause = self.behaviour.latency / 2 / len(parts)
        if not pause and not cut:
            # At once means at once: one write, as fast as the client reads.
            await connection.write(h11.Data(data="".join(parts).encode()), h11.EndOfMessage())
            return
        for part in parts:
            await connection.write(h11.Data(data=part.encode()))
            await _pause(pause)
        if cut:
            raise ConnectionAbortedError("cut-stream")
        await connection.write(h11.EndOfMessage())


async def _refused(fault: Fault, connection: Connection) -> bool:
    """Carry out a fault that leaves no answer; False for those that only change it."""
    if fault.name == "429":
        wait = [("retry-after", f"{fault.seconds:g}")]
        await connection.answer_json(429, _said(429, "too many requests", "rate_limit_error"), wait)
    elif fault.name in ("500", "503"):
        await connection.answer_json(int(fault.name), _said(int(fault.name), "it broke", "server_error"))
    elif fault.name == "reset":
        connection.reset()
        raise ConnectionResetError("reset")
    else:
        return False
    return True


def _said(status: int, message: str, kind: str) -> dict[str, Any]:
    return {"type": "error", "error": {"message": f"simulated: {message}", "type": kind, "code": status}}


async def _cut_body(connection: Connection, body: bytes) -> None:
    """Half of a body whose whole length was promised."""
    given = [("content-type", "application/json"), ("content-length", str(len(body)))]
    await connection.write(h11.Response(status_code=200, headers=given), h11.Data(data=body[: len(body) // 2]))
    raise ConnectionAbortedError("cut-stream")


async def _pause(seconds: float) -> None:
    if seconds > 0:
        await asyncio.sleep(seconds)
