"""The two ports of 127.0.0.1 through which a stage 4 sees what AReaL does.

``EngineDoor`` stands for the inference server: AReaL's engines send no key, so the server's is put in here. Because of
that it serves nobody but this user's own processes. ``AgentDoor`` stands in front of AReaL's own proxy, which agents
talk to; keys pass through it unchanged, and calls find their run by them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import time
from collections.abc import Callable

import h11

from harness.checks.stage4.peers import is_ours
from harness.openai_api.calls import Call
from harness.openai_api.http import Endpoint
from harness.openai_api.incoming import Incoming
from harness.openai_api.proxy import RecordingProxy
from harness.openai_api.recording.exchange import Exchange


class EngineDoor(RecordingProxy):
    """The inference server, as AReaL's engine reaches it.

    Args:
        endpoint: the server; its routes keep their paths.
        take: gets each call when it has ended.
    """

    def __init__(self, endpoint: Endpoint, *, take: Callable[[Call], None]) -> None:
        super().__init__(endpoint, take=take)
        self.served = 0

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not is_ours(writer.get_extra_info("peername"), writer.get_extra_info("sockname")):
            writer.close()
            return
        await super()._connected(reader, writer)

    def _incoming(self, request: h11.Request, body: bytes) -> Incoming | None:
        self.served += 1
        return _plain_incoming(0, self.served, request, body)

    def _headers(self, incoming: Incoming) -> list[tuple[bytes, bytes]]:
        key = self.endpoint.api_key.encode()
        return [*super()._headers(incoming), *([(b"authorization", b"Bearer " + key)] if key else [])]


class AgentDoor(RecordingProxy):
    """AReaL's proxy, as an agent reaches it.

    Args:
        address: of AReaL's proxy.
        took: gets a session's mark and each call of it when it has ended.
        recorded: gets the same call as it went over the wire; None where nothing is recorded.
    """

    def __init__(
        self,
        address: str,
        *,
        took: Callable[[str, Call], None],
        recorded: Callable[[str, Exchange], None] | None = None,
    ) -> None:
        super().__init__(Endpoint(address, ""), take=self._take_call, recorder=_Keep(self) if recorded else None)
        self._took, self.recorded = took, recorded
        self._runs: dict[str, int] = {}
        self.sessions: list[str] = []
        self.counts: dict[int, int] = {}

    def _incoming(self, request: h11.Request, body: bytes) -> Incoming | None:
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        key = headers.get("x-api-key") or headers.get("authorization", "").partition(" ")[2]
        mark = session_mark(key.strip())
        run = self._runs.setdefault(mark, len(self._runs))
        if run == len(self.sessions):
            self.sessions.append(mark)
        self.counts[run] = self.counts.get(run, 0) + 1
        return _plain_incoming(run, self.counts[run], request, body)

    def _headers(self, incoming: Incoming) -> list[tuple[bytes, bytes]]:
        keys = [pair for pair in incoming.headers if pair[0] in (b"authorization", b"x-api-key")]
        return [*super()._headers(incoming), *keys]

    def _take_call(self, call: Call) -> None:
        self._took(self.sessions[call.run], call)


class _Keep:
    def __init__(self, door: AgentDoor) -> None:
        self._door = door

    def add(self, exchange: Exchange) -> None:
        """Hand a call on with its session's mark."""
        if self._door.recorded is not None:
            self._door.recorded(self._door.sessions[exchange.run], exchange)


def session_mark(key: str) -> str:
    """What a session is called here: its key is a secret."""
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def as_recorded(exchange: Exchange, run: int, number: int) -> Exchange:
    """A call of an agent as stages 2 and 3 would have recorded it: below ``/v1``, which AReaL's proxy leaves out."""
    path = exchange.path if exchange.path.startswith("/v1/") else f"/v1{exchange.path}"
    return dataclasses.replace(exchange, run=run, number=number, path=path)


def _plain_incoming(run: int, number: int, request: h11.Request, body: bytes) -> Incoming:
    headers = [(name, value) for name, value in request.headers]
    return Incoming(run, number, request.method.decode(), request.target.decode(), headers, body, False, _now())


_now = time.monotonic
