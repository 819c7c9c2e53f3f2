"""A recording proxy on 127.0.0.1 that stands between an agent's process and the server.

It sees every call that the agent makes, through whatever SDK, thread or child process, because the base URL that the
agent is given leads here. Requests and answers pass through unchanged, streams chunk by chunk, with one exception: the
agent gets a key of its own for the run (``loopback``), and the server's key is put in here.

Streams are asked for uncompressed (``accept-encoding``), for nobody could read them in passing otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import h11

from harness.openai_api.calls import Call, Reader
from harness.openai_api.http import Endpoint, explain, limits_for
from harness.openai_api.incoming import Incoming
from harness.openai_api.loopback import Connection, Loopback
from harness.openai_api.recording.exchange import Exchange
from harness.openai_api.recording.tape import Tape

if TYPE_CHECKING:
    import httpx2 as httpx
else:
    try:
        import httpx2 as httpx
    except ModuleNotFoundError:
        import httpx

# Meant for one hop only, or set anew by the next one.
_ONE_HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "host",
    "content-length",
    "accept-encoding",
    "expect",
}
_KEYS = {"authorization", "x-api-key"}


class Recorder(Protocol):
    """Keeps what passes, so that it can be replayed."""

    def add(self, exchange: Exchange) -> None: ...


class RecordingProxy(Loopback):
    """Serves while it is entered.

    Args:
        endpoint: the real server.
        take: gets each call when it has ended, in the order in which they end.
        recorder: gets each call as it went over the wire.
        transport: stands in for the network to the server in tests.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        take: Callable[[Call], None] = lambda _call: None,
        recorder: Recorder | None = None,
        transport: Any = None,
    ) -> None:
        super().__init__(urlsplit(endpoint.base_url).path, take=take)
        self.endpoint = endpoint
        self._transport = transport
        self._recorder = recorder

    async def __aenter__(self) -> RecordingProxy:
        # The agent decides how long it waits, so there are no time-outs here; nor a limit on connections.
        self._client = httpx.AsyncClient(
            timeout=None,
            limits=limits_for(self.endpoint, connections=None),
            transport=self._transport,
        )
        await super().__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        await self._client.aclose()

    async def respond(self, incoming: Incoming, reader: Reader, connection: Connection) -> None:
        """Ask the server, and pass its answer on."""
        if self._recorder is not None:
            reader.tape = Tape(incoming)
        url = self.endpoint.origin + incoming.path
        begun = False
        try:
            async with self._client.stream(
                incoming.method, url, content=incoming.body or None, headers=self._headers(incoming)
            ) as response:
                reader.answered(response.status_code, response.headers.get("content-type", ""))
                if isinstance(reader.tape, Tape):
                    reader.tape.headers = [(name.decode(), value.decode("latin-1")) for name, value in _raw(response)]
                begun = True
                await connection.write(h11.Response(status_code=response.status_code, headers=_passed_on(response)))
                async for chunk in response.aiter_raw():
                    reader.feed(chunk)
                    await connection.write(h11.Data(data=chunk))
            await connection.write(h11.EndOfMessage())
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            why = explain(error, url, 0).text
            reader.failed(why)
            if begun:
                raise ConnectionAbortedError(why) from error  # cut the agent's connection as the server cut ours
            await connection.refuse(502, why)

    def ended(self, reader: Reader) -> None:
        """Keep a call that has ended."""
        super().ended(reader)
        if self._recorder is not None and isinstance(reader.tape, Tape):
            self._recorder.add(reader.tape.exchange())

    def _headers(self, incoming: Incoming) -> list[tuple[bytes, bytes]]:
        headers = [(name, value) for name, value in incoming.headers if name.decode() not in _ONE_HOP | _KEYS]
        # A server that wants no key gets none: an empty one is no legal header.
        if key := self.endpoint.api_key.encode():
            given = {name for name, _ in incoming.headers}
            headers += [(b"authorization", b"Bearer " + key)] if b"authorization" in given else []
            headers += [(b"x-api-key", key)] if b"x-api-key" in given else []
        return [*headers, (b"accept-encoding", b"identity")]


def _raw(response: Any) -> list[tuple[bytes, bytes]]:
    return [(name.lower(), value) for name, value in response.headers.raw]


def _passed_on(response: Any) -> list[tuple[bytes, bytes]]:
    """The answer's headers for the agent; its length where the server gave one, chunks otherwise."""
    return [
        (name, value) for name, value in _raw(response) if name.decode() not in _ONE_HOP or name == b"content-length"
    ]
