"""Answers recorded calls on a port of 127.0.0.1, for any library, thread or process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import h11

from harness.openai_api.calls import Call, Reader
from harness.openai_api.incoming import Incoming
from harness.openai_api.loopback import Connection, Loopback
from harness.openai_api.recording.exchange import Exchange
from harness.openai_api.recording.inside import unreachable
from harness.openai_api.recording.matching import STATUS_MISS, Clean, Matcher, Miss
from harness.openai_api.recording.store import Recording, read_run


class Player(Loopback):
    """Serves a recording while it is entered.

    Args:
        recording: what is replayed.
        clean: takes secrets out of a request, as was done with the recorded ones.
        take: gets each call when it has ended.
        missed: gets each request that was not recorded.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        clean: Clean = lambda raw: raw,
        take: Callable[[Call], None] = lambda _call: None,
        missed: Callable[[Miss], None] = lambda _miss: None,
    ) -> None:
        super().__init__(recording.base_path, take=take)
        self._recording = recording
        self._clean = clean
        self._missed = missed
        self._matchers: dict[int, Matcher] = {}

    async def respond(self, incoming: Incoming, reader: Reader, connection: Connection) -> None:
        """Give the recorded answer, or say that there is none."""
        claimed = self._matcher(incoming.run).claim(incoming.method, incoming.path, incoming.body)
        if isinstance(claimed, Miss):
            self._missed(claimed)
            reader.answered(STATUS_MISS, "application/json")
            await connection.answer_json(STATUS_MISS, claimed.body())
        elif claimed.status is None and claimed.end != "abandoned":
            reader.failed(claimed.why)
            await connection.answer_json(502, unreachable(claimed))
        else:
            await _play(claimed, reader, connection)

    def _matcher(self, run: int) -> Matcher:
        if run not in self._matchers:
            # A run below 0 tries out what run 0 does.
            recorded = max(run, 0)
            exchanges = read_run(self._recording.folder, recorded).exchanges if recorded in self._recording.runs else ()
            self._matchers[run] = Matcher(run, exchanges, self._clean)
        return self._matchers[run]


async def _play(exchange: Exchange, reader: Reader, connection: Connection) -> None:
    if exchange.status is not None:
        reader.answered(exchange.status, exchange.content_type)
        headers = [(name, value) for name, value in exchange.headers]
        if not exchange.streamed and exchange.end == "whole":
            headers.append(("content-length", str(sum(map(len, exchange.blocks)))))
        await connection.write(h11.Response(status_code=exchange.status, headers=headers))
        for block in exchange.blocks:
            reader.feed(block)
            await connection.write(h11.Data(data=block))
    if exchange.end == "abandoned":
        # The agent gave up on it when it was recorded, and will again; then this is cancelled.
        await asyncio.Event().wait()
    if exchange.end != "whole":
        reader.failed(exchange.why)
        raise ConnectionAbortedError(exchange.why)
    await connection.write(h11.EndOfMessage())


def call_of(exchange: Exchange) -> Call:
    """A recorded call as the report shows it; for one that was answered inside the agent's process."""
    reader = Reader(exchange.number, exchange.run, exchange.method, exchange.path, exchange.request, 0.0)
    if exchange.status is not None:
        reader.answered(exchange.status, exchange.content_type)
    for block in exchange.blocks:
        reader.feed(block)
    if exchange.end == "abandoned":
        reader.abandoned(exchange.why)
    elif exchange.end != "whole":
        reader.failed(exchange.why)
    return reader.call()


def call_of_miss(miss: Miss, number: int) -> Call:
    """A call that was answered inside the agent's process with the word that it was not recorded."""
    method, _, path = miss.asked.partition(" ")
    reader = Reader(number, miss.run, method, path, b"", 0.0)
    reader.answered(STATUS_MISS, "application/json")
    reader.feed(json.dumps(miss.body()).encode())
    return reader.call()
