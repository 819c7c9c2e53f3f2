"""A recording proxy on 127.0.0.1 that stands between an agent's process and the server.

It sees every call that the agent makes, through whatever SDK, thread or child process, because the base URL that the
agent is given leads here. Requests and answers pass through unchanged, streams chunk by chunk, with one exception: the
agent gets a key of its own for the run, and the server's key is put in here. So the agent's process never holds the
server's key, nobody else on the machine can spend it through the open port, and calls find their run.

Streams are asked for uncompressed (``accept-encoding``), for nobody could read them in passing otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import h11

from harness.openai_api.calls import Call, Reader
from harness.openai_api.http import Endpoint, explain, limits_for

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

_CHUNK = 64 * 1024


class RecordingProxy:
    """Serves while it is entered; ``calls`` holds what has passed.

    Args:
        endpoint: the real server.
        take: gets each call when it has ended, in the order in which they end.
        transport: stands in for the network to the server in tests.
    """

    def __init__(
        self, endpoint: Endpoint, *, take: Callable[[Call], None] = lambda _call: None, transport: Any = None
    ) -> None:
        self.endpoint = endpoint
        self._take = take
        self._transport = transport
        self._keys: dict[str, int] = {}
        self._numbers: dict[int, int] = {}
        self._began: dict[int, float] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self.refused = 0

    async def __aenter__(self) -> RecordingProxy:
        # The agent decides how long it waits, so there are no time-outs here; nor a limit on connections.
        self._client = httpx.AsyncClient(
            timeout=None,
            limits=limits_for(self.endpoint, connections=None),
            transport=self._transport,
        )
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        # What is still open belongs to an agent that has been cut; its calls are recorded as broken off.
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()
        await self._client.aclose()

    @property
    def base_url(self) -> str:
        """What the agent gets as base URL: the server's own path on this proxy."""
        return f"http://127.0.0.1:{self.port}{urlsplit(self.endpoint.base_url).path}"

    @property
    def root(self) -> str:
        """The same without ``/v1``, for Anthropic's SDK."""
        return self.base_url.removesuffix("/v1")

    def open_run(self, run: int) -> str:
        """Begin a run; returns the key by which its calls are known, valid until the proxy closes."""
        key = f"drydock-run-{run}-{secrets.token_hex(12)}"
        self._keys[key] = run
        self._began[run] = time.monotonic()
        return key

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await _Connection(self, reader, writer).serve()
        except (ConnectionError, h11.RemoteProtocolError, asyncio.IncompleteReadError):
            pass  # the client is gone or speaks no HTTP; there is nobody to tell
        except asyncio.CancelledError:
            pass  # closing; the task ends here
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(Exception):
                await writer.wait_closed()

    def _reader_for(self, request: h11.Request, body: bytes) -> Reader | None:
        """Who is calling; None where the key isn't one of ours."""
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        key = headers.get("x-api-key") or headers.get("authorization", "").partition(" ")[2]
        run = self._keys.get(key.strip())
        if run is None:
            self.refused += 1
            return None
        number = self._numbers[run] = self._numbers.get(run, 0) + 1
        return Reader(number, run, request.method.decode(), request.target.decode(), body, self._began[run])


class _Connection:
    """One connection of the agent, with one request after the other."""

    def __init__(self, proxy: RecordingProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=256 * 1024)

    async def serve(self) -> None:
        while True:
            request = await self._next_event()
            if not isinstance(request, h11.Request):
                return
            body = bytearray()
            while isinstance(part := await self._next_event(), h11.Data):
                body += part.data
            if not isinstance(part, h11.EndOfMessage):
                return
            await self._answer(request, bytes(body))
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _next_event(self) -> Any:
        while True:
            if self._http.they_are_waiting_for_100_continue:
                await self._write(h11.InformationalResponse(status_code=100, headers=[]))
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._http.receive_data(await self._reader.read(_CHUNK))

    async def _write(self, *events: Any) -> None:
        self._writer.write(b"".join(data for event in events if (data := self._http.send(event))))
        await self._writer.drain()

    async def _refuse(self, status: int, message: str) -> None:
        body = json.dumps({"error": {"message": message, "type": "drydock_proxy_error", "code": status}}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
        await self._write(h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage())

    async def _answer(self, request: h11.Request, body: bytes) -> None:
        reader = self._proxy._reader_for(request, body)
        if reader is None:
            await self._refuse(401, "this is Drydock's recording proxy; it takes only the key that it gave to the run")
            return
        forward = asyncio.ensure_future(self._forward(request, body, reader))
        # A client that hangs up must stop the server's generation too, as it would without us in between.
        gone = asyncio.ensure_future(self._watch_for_end())
        try:
            await asyncio.wait({forward, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not forward.done():
                reader.abandoned("the agent broke the call off")
                raise ConnectionResetError
            await forward
        except asyncio.CancelledError:
            reader.abandoned("the run was cut while the call was under way")
            raise
        except ConnectionError:
            reader.abandoned("the agent broke the call off")
            raise
        finally:
            # Before anything is awaited: when the proxy closes right after the last answer, this is cancelled there.
            self._proxy._take(reader.call())
            for task in (forward, gone):
                task.cancel()
            await asyncio.gather(forward, gone, return_exceptions=True)

    async def _watch_for_end(self) -> None:
        """Returns when the client has closed its side; bytes of a next request are kept for it."""
        while data := await self._reader.read(_CHUNK):
            self._http.receive_data(data)

    async def _forward(self, request: h11.Request, body: bytes, reader: Reader) -> None:
        endpoint = self._proxy.endpoint
        url = endpoint.origin + request.target.decode()
        headers = [(name, value) for name, value in request.headers if name.decode() not in _ONE_HOP | _KEYS]
        # A server that wants no key gets none: an empty one is no legal header.
        if key := endpoint.api_key.encode():
            given = {name for name, _ in request.headers}
            headers += [(b"authorization", b"Bearer " + key)] if b"authorization" in given else []
            headers += [(b"x-api-key", key)] if b"x-api-key" in given else []
        headers.append((b"accept-encoding", b"identity"))
        begun = False
        try:
            async with self._proxy._client.stream(
                request.method.decode(), url, content=body or None, headers=headers
            ) as response:
                reader.answered(response.status_code, response.headers.get("content-type", ""))
                begun = True
                await self._write(h11.Response(status_code=response.status_code, headers=_passed_on(response)))
                async for chunk in response.aiter_raw():
                    reader.feed(chunk)
                    await self._write(h11.Data(data=chunk))
            await self._write(h11.EndOfMessage())
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            why = explain(error, url, 0).text
            reader.failed(why)
            if begun:
                raise ConnectionAbortedError(why) from error  # cut the agent's connection as the server cut ours
            await self._refuse(502, why)


def _passed_on(response: Any) -> list[tuple[bytes, bytes]]:
    """The answer's headers for the agent; its length where the server gave one, chunks otherwise."""
    return [
        (name, value)
        for name, value in response.headers.raw
        if name.lower().decode() not in _ONE_HOP or name.lower() == b"content-length"
    ]
