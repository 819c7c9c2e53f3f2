"""An HTTP server on a free port of 127.0.0.1 for the agents of one check; what it answers is a subclass's business.

Every run gets a key of its own. So an agent's process never holds a server's key, nobody else on the machine can use
the open port, and calls find their run. A call that our observer saw inside the agent's process carries the run in a
header as well: runs that share a process, and with it the key in the environment, are told apart by that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import h11

from harness.openai_api.calls import Call, Reader
from harness.openai_api.incoming import Incoming
from harness.openai_api.observer import FORKED, RUN_HEADER

_CHUNK = 64 * 1024
_REASON = "this is Drydock's own port; it takes only the key that it gave to the run"


class Loopback(ABC):
    """Serves while it is entered.

    Args:
        base_path: the path below which OpenAI's routes are; with most servers ``/v1``.
        take: gets each call when it has ended, in the order in which they end.
    """

    def __init__(self, base_path: str, *, take: Callable[[Call], None] = lambda _call: None) -> None:
        self._base_path = base_path
        self._take = take
        self._keys: dict[str, int] = {}
        self._numbers: dict[int, int] = {}
        self._began: dict[int, float] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self.refused = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._under_way = 0

    async def __aenter__(self) -> Loopback:
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

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """What the agent gets as base URL: the server's own path on this port."""
        return self.origin + self._base_path

    @property
    def root(self) -> str:
        """The same without ``/v1``, for Anthropic's SDK."""
        return self.base_url.removesuffix("/v1")

    def open_run(self, run: int) -> str:
        """Begin a run; returns the key by which its calls are known, valid until the server closes."""
        key = f"drydock-run-{run}-{secrets.token_hex(12)}"
        self._keys[key] = run
        self._began[run] = time.monotonic()
        return key

    @abstractmethod
    async def respond(self, incoming: Incoming, reader: Reader, connection: Connection) -> None:
        """Answer a request on its connection, and show the answer to the reader while it passes."""

    def begun(self) -> None:
        """A call has come in; ``ended`` follows in whatever way it ends."""
        self._under_way += 1
        self._idle.clear()

    async def settled(self, seconds: float) -> bool:
        """Wait until every call that came in has been put away, as clients have their answer before; False if not."""
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        return True

    def ended(self, reader: Reader) -> None:
        """A call has ended, in whatever way."""
        self._take(reader.call())
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await Connection(self, reader, writer).serve()
        except (ConnectionError, h11.RemoteProtocolError, asyncio.IncompleteReadError):
            pass  # the client is gone or speaks no HTTP; there is nobody to tell
        except asyncio.CancelledError:
            pass  # closing; the task ends here
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(Exception):
                await writer.wait_closed()

    def _incoming(self, request: h11.Request, body: bytes) -> Incoming | None:
        """Who is calling; None where the key isn't one of ours."""
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        key = headers.get("x-api-key") or headers.get("authorization", "").partition(" ")[2]
        run = self._keys.get(key.strip())
        if run is None:
            self.refused += 1
            return None
        marked = headers.get(RUN_HEADER, "")
        # The key is what lets in; the header only tells runs of one process apart.
        if (told := marked.removesuffix(FORKED)).isdecimal() and told.isascii() and int(told) in self._began:
            run = int(told)
        number = self._numbers[run] = self._numbers.get(run, 0) + 1
        return Incoming(
            run,
            number,
            request.method.decode(),
            request.target.decode(),
            [(name, value) for name, value in request.headers if name != RUN_HEADER.encode()],
            body,
            bool(marked) and not marked.endswith(FORKED),
            self._began[run],
        )


class Connection:
    """One connection of the agent, with one request after the other."""

    def __init__(self, owner: Loopback, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._owner = owner
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=256 * 1024)

    async def serve(self) -> None:
        """Serve until the client has gone."""
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

    async def write(self, *events: Any) -> None:
        """Send parts of an answer."""
        self._writer.write(b"".join(data for event in events if (data := self._http.send(event))))
        await self._writer.drain()

    async def answer_json(self, status: int, value: Any, headers: list[tuple[str, str]] | None = None) -> None:
        """Answer with a whole JSON document."""
        body = json.dumps(value).encode()
        given = [("content-type", "application/json"), ("content-length", str(len(body))), *(headers or [])]
        await self.write(h11.Response(status_code=status, headers=given), h11.Data(data=body), h11.EndOfMessage())

    async def refuse(self, status: int, message: str) -> None:
        """Answer with an error of our own, written as OpenAI's."""
        await self.answer_json(status, refusal(status, message))

    def reset(self) -> None:
        """End the connection as a crashed machine's is ended: with a reset, not a goodbye."""
        # Lingering for no time at all is how the system is told.
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def _next_event(self) -> Any:
        while True:
            if self._http.they_are_waiting_for_100_continue:
                await self.write(h11.InformationalResponse(status_code=100, headers=[]))
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._http.receive_data(await self._reader.read(_CHUNK))

    async def _answer(self, request: h11.Request, body: bytes) -> None:
        incoming = self._owner._incoming(request, body)
        if incoming is None:
            await self.refuse(401, _REASON)
            return
        reader = Reader(incoming.number, incoming.run, incoming.method, incoming.path, incoming.body, incoming.began)
        self._owner.begun()
        respond = asyncio.ensure_future(self._owner.respond(incoming, reader, self))
        # A client that hangs up must stop the server's generation too, as it would without us in between.
        gone = asyncio.ensure_future(self._watch_for_end())
        try:
            await asyncio.wait({respond, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not respond.done():
                reader.abandoned("the agent broke the call off")
                raise ConnectionResetError
            await respond
        except asyncio.CancelledError:
            reader.abandoned("the run was cut while the call was under way")
            raise
        except ConnectionError:
            reader.abandoned("the agent broke the call off")
            raise
        finally:
            # Before anything is awaited: when the server closes right after the last answer, this is cancelled there.
            self._owner.ended(reader)
            for task in (respond, gone):
                task.cancel()
            await asyncio.gather(respond, gone, return_exceptions=True)

    async def _watch_for_end(self) -> None:
        """Returns when the client has closed its side; bytes of a next request are kept for it."""
        while data := await self._reader.read(_CHUNK):
            self._http.receive_data(data)


def refusal(status: int, message: str) -> dict[str, Any]:
    """An error of our own as OpenAI's and Anthropic's SDKs read it."""
    return {"type": "error", "error": {"message": message, "type": "drydock_proxy_error", "code": status}}
