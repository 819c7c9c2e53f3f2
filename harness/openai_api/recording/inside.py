"""Answers recorded calls inside the agent's process, in place of httpx's connections; runs in the child.

What is replaced is the network transport of httpx, in the class: so clients that the agent makes for itself are served
as well as the shared one, and everything above (event hooks, redirects, time-outs of a stream, our observer) works as
with a server. Only calls to our own port are answered here; any other library, and any process that the agent starts,
reaches that port and finds ``player`` there.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import importlib.util
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any, Protocol
from urllib.parse import urlsplit

from harness.openai_api.observer import LIBRARIES, current_run
from harness.openai_api.recording.exchange import Exchange
from harness.openai_api.recording.matching import STATUS_MISS, Matcher, Miss

# In the child's environment: the folder of the recording that is to be replayed.
REPLAY = "DRYDOCK_REPLAY_FOLDER"

BROKEN_OFF = "peer closed connection without sending complete message body (incomplete chunked read)"


class Teller(Protocol):
    """Hears which calls were answered here, and which were not recorded."""

    def __call__(self, event: str, **details: Any) -> None: ...


class Inside:
    """Stands in for the network to one address.

    Args:
        origin: scheme, host and port of our own port.
        load: gives a run's matcher; None for a run whose calls didn't all come through httpx in one process, which is
            left to the port, so that equal calls are counted in one place.
        tell: hears of each call.
    """

    def __init__(self, origin: str, load: Callable[[int], Matcher | None], tell: Teller) -> None:
        parts = urlsplit(origin)
        self._address = (parts.hostname, parts.port)
        self._load = load
        self._tell = tell
        self._matchers: dict[int, Matcher | None] = {}
        self._process = os.getpid()
        self._undo: list[tuple[type, str, Any]] = []

    def install(self) -> None:
        """Take the network's place in every httpx that is installed."""
        for name in LIBRARIES:
            if importlib.util.find_spec(name) is not None:
                self._replace(importlib.import_module(name))

    def remove(self) -> None:
        """Give the network its place back."""
        while self._undo:
            owner, name, original = self._undo.pop()
            setattr(owner, name, original)

    def _replace(self, library: ModuleType) -> None:
        answers = _Answers(library)
        handle = library.HTTPTransport.handle_request
        ahandle = library.AsyncHTTPTransport.handle_async_request

        @functools.wraps(handle)
        def replayed(transport: Any, request: Any) -> Any:
            matcher = self._matcher(request)
            if matcher is None:
                return handle(transport, request)
            # As the network takes it: whoever marks when a request leaves does so in its stream.
            return answers.give(request, self._claim(matcher, request, b"".join(request.stream)))

        @functools.wraps(ahandle)
        async def areplayed(transport: Any, request: Any) -> Any:
            matcher = self._matcher(request)
            if matcher is None:
                return await ahandle(transport, request)
            body = b"".join([chunk async for chunk in request.stream])
            # A server takes its time, so others have their turn meanwhile; without this, runs would never overlap.
            await asyncio.sleep(0)
            return await answers.agive(request, self._claim(matcher, request, body))

        library.HTTPTransport.handle_request = replayed
        library.AsyncHTTPTransport.handle_async_request = areplayed
        self._undo += [
            (library.HTTPTransport, "handle_request", handle),
            (library.AsyncHTTPTransport, "handle_async_request", ahandle),
        ]

    def _matcher(self, request: Any) -> Matcher | None:
        if (request.url.host, request.url.port) != self._address or os.getpid() != self._process:
            return None
        run = current_run.get()
        if run not in self._matchers:
            self._matchers[run] = self._load(run)
        return self._matchers[run]

    def _claim(self, matcher: Matcher, request: Any, body: bytes) -> Exchange | Miss:
        claimed = matcher.claim(request.method, request.url.raw_path.decode("ascii"), body)
        if isinstance(claimed, Miss):
            self._tell("not-recorded", miss=claimed.as_dict())
        else:
            self._tell("replayed", run=current_run.get(), number=claimed.number)
        return claimed


class _Answers:
    """Makes one library's answers out of recorded ones."""

    def __init__(self, library: ModuleType) -> None:
        self._library = library
        self._body, self._abody = _bodies(library)

    def give(self, request: Any, claimed: Exchange | Miss) -> Any:
        """The answer for a sync client."""
        if isinstance(claimed, Exchange) and claimed.end == "abandoned" and not claimed.blocks:
            # The agent gave up on it when it was recorded, and will again, when its own time is over.
            time.sleep(_patience(request) or 3600)
            raise self._library.ReadTimeout("timed out", request=request)
        return self._response(request, claimed, self._body)

    async def agive(self, request: Any, claimed: Exchange | Miss) -> Any:
        """The answer for an async client."""
        if isinstance(claimed, Exchange) and claimed.end == "abandoned" and not claimed.blocks:
            await asyncio.sleep(_patience(request) or 3600)
            raise self._library.ReadTimeout("timed out", request=request)
        return self._response(request, claimed, self._abody)

    def _response(self, request: Any, claimed: Exchange | Miss, body: Any) -> Any:
        if isinstance(claimed, Miss):
            return self._library.Response(STATUS_MISS, json=claimed.body(), request=request)
        if claimed.end == "whole" and not claimed.streamed:
            content = b"".join(claimed.blocks)
            return self._library.Response(
                claimed.status, headers=list(claimed.headers), stream=self._library.ByteStream(content)
            )
        if claimed.status is None:
            return self._library.Response(502, json=unreachable(claimed), request=request)
        return self._library.Response(
            claimed.status, headers=list(claimed.headers), stream=body(claimed, _patience(request))
        )


def unreachable(exchange: Exchange) -> dict[str, Any]:
    """What the recording proxy told the agent when the server gave no answer."""
    return {"type": "error", "error": {"message": exchange.why, "type": "drydock_proxy_error", "code": 502}}


def _patience(request: Any) -> float | None:
    """How long the client waits for bytes."""
    seconds = request.extensions.get("timeout", {}).get("read")
    return None if seconds is None else float(seconds)


def _bodies(library: ModuleType) -> tuple[Any, Any]:
    """The two kinds of a streamed body, which must descend from the library's own."""

    class Body(library.SyncByteStream):  # type: ignore[name-defined,misc]
        def __init__(self, exchange: Exchange, patience: float | None) -> None:
            self._exchange, self._patience = exchange, patience

        def __iter__(self) -> Iterator[bytes]:
            yield from self._exchange.blocks
            if self._exchange.end == "abandoned":
                time.sleep(self._patience or 3600)
                raise library.ReadTimeout("timed out")
            if self._exchange.end != "whole":
                raise library.RemoteProtocolError(BROKEN_OFF)

    class AsyncBody(library.AsyncByteStream):  # type: ignore[name-defined,misc]
        def __init__(self, exchange: Exchange, patience: float | None) -> None:
            self._exchange, self._patience = exchange, patience

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for block in self._exchange.blocks:
                yield block
            if self._exchange.end == "abandoned":
                await asyncio.sleep(self._patience or 3600)
                raise library.ReadTimeout("timed out")
            if self._exchange.end != "whole":
                raise library.RemoteProtocolError(BROKEN_OFF)

    return Body, AsyncBody
