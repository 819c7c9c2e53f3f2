"""Calls seen from inside the agent's process, by hooking ``send`` of httpx's clients; runs in the child.

``send`` is public, every request of a client passes through it (``post``, ``stream``, the OpenAI and Anthropic SDKs),
and hooking it on the class also catches the clients that an agent makes for itself. A transport passed to the client
would not: it would switch off the proxies of the environment, and miss those own clients.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import functools
import importlib
import importlib.util
import os
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

from harness.errors import without_descriptors
from harness.openai_api.calls import Call, Reader

# Which run a call belongs to: tasks that a run starts inherit its context, so hundreds of runs in one loop stay apart.
current_run: contextvars.ContextVar[int] = contextvars.ContextVar("drydock_run", default=0)

LIBRARIES = ("httpx2", "httpx")

# Says to our own port, and to no other, which run a call belongs to, and whether a fork of the process makes it.
RUN_HEADER = "x-drydock-run"
FORKED = " forked"

Take = Callable[[Call, str], None]


class Watched:
    """One request on its way; reports its call once, when the answer has been read or the request has failed."""

    __slots__ = ("_done", "_finished", "caller", "origin", "reader", "run", "sync")

    def __init__(self, reader: Reader, run: int, origin: str, done: Callable[[Any], None]) -> None:
        self.reader = reader
        self.run = run
        self.origin = origin
        self.sync = False
        self.caller: dict[str, Any] | None = None
        self._done = done
        self._finished = False

    def finish(self, why: str = "") -> None:
        """Report the call; a second time does nothing."""
        if self._finished:
            return
        self._finished = True
        if why:
            self.reader.failed(why)
        self._done(self)


W = TypeVar("W", bound=Watched)


class Observer:
    """Sees the calls of one process.

    Args:
        take: gets each finished call and the origin (scheme, host, port) it went to.
        ours: origin of our own port, whose calls are marked with their run.
        caller: says which line makes the call that is just being made; called on the stack of that call.
    """

    def __init__(
        self, take: Take, *, ours: str = "", caller: Callable[[], dict[str, Any] | None] | None = None
    ) -> None:
        self._take = take
        self._caller = caller
        self._ours = ours
        self._process = os.getpid()
        self._began = time.monotonic()
        self._numbers: dict[int, int] = {}
        self._open: set[Watched] = set()
        self._undo: list[tuple[type, Any]] = []

    def install(self) -> None:
        """Hook the clients of every httpx that is installed; the agent's own import finds them hooked."""
        for name in LIBRARIES:
            if importlib.util.find_spec(name) is not None:
                self._hook(importlib.import_module(name))

    def begin(self, run: int) -> None:
        """Calls from here on, in this context and in what is started from it, belong to that run."""
        current_run.set(run)

    def remove(self) -> None:
        """Take the hooks out again, and report what was begun and never read to its end."""
        while self._undo:
            owner, original = self._undo.pop()
            owner.send = original  # type: ignore[attr-defined]
        for watched in list(self._open):
            watched.finish("the answer was never read to its end")

    def _hook(self, library: ModuleType) -> None:
        tee, async_tee = _tees(library)
        send, asend = library.Client.send, library.AsyncClient.send

        @functools.wraps(send)
        def seen_send(client: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
            watched = self._watch(request, sync=True)
            try:
                response = send(client, request, *args, **kwargs)
            except BaseException as error:
                watched.finish(_said(error))
                raise
            if _answered(watched, response, streaming=bool(kwargs.get("stream"))):
                response.stream = tee(response.stream, watched, _decoder(response))
            return response

        @functools.wraps(asend)
        async def seen_asend(client: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
            watched = self._watch(request, sync=False)
            try:
                response = await asend(client, request, *args, **kwargs)
            except BaseException as error:
                watched.finish(_said(error))
                raise
            if _answered(watched, response, streaming=bool(kwargs.get("stream"))):
                response.stream = async_tee(response.stream, watched, _decoder(response))
            return response

        for owner, original, hook in ((library.Client, send, seen_send), (library.AsyncClient, asend, seen_asend)):
            owner.send = hook
            self._undo.append((owner, original))

    def _watch(self, request: Any, *, sync: bool) -> Watched:
        watched = self._begun(request, Watched)
        watched.sync = sync
        if self._caller is not None:
            watched.caller = self._caller()
        return watched

    def _begun(self, request: Any, kind: type[W]) -> W:
        """A request that goes out now; ours alone are marked with their run."""
        run = current_run.get()
        number = self._numbers[run] = self._numbers.get(run, 0) + 1
        path = request.url.raw_path.decode("ascii")
        reader = Reader(number, run, request.method, path, _content(request), self._began)
        origin = _origin(request)
        if origin == self._ours:
            request.headers[RUN_HEADER] = f"{run}{'' if os.getpid() == self._process else FORKED}"
        watched = kind(reader, run, origin, self._done)
        self._open.add(watched)
        return watched

    def _done(self, watched: Any) -> None:
        self._open.discard(watched)
        self._take(dataclasses.replace(watched.reader.call(), caller=watched.caller), watched.origin)


def _answered(watched: Watched, response: Any, *, streaming: bool) -> bool:
    """Take an answer's head, and its body where that has been read already; returns whether the body is to come."""
    watched.reader.answered(response.status_code, response.headers.get("content-type", ""))
    if streaming and not response.is_stream_consumed:
        return True
    watched.reader.feed(response.content)
    watched.finish()
    return False


def _said(error: BaseException) -> str:
    text, system = str(error), without_descriptors(error)
    if system and system not in text:
        text = f"{text}: {system}" if text else system
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _content(request: Any) -> bytes:
    """The request's body where it is at hand; one that is itself a stream is left alone."""
    try:
        content = request.content
    except Exception:  # noqa: BLE001  # RequestNotRead is a different class in each of the two libraries
        return b""
    return content if isinstance(content, bytes) else b""


def _origin(request: Any) -> str:
    url = request.url
    return f"{url.scheme}://{url.host}" + (f":{url.port}" if url.port else "")


Decode = Callable[[bytes], bytes]


def _decoder(response: Any) -> Decode:
    """How to read a stream's raw bytes; what zlib can't undo must not break the agent's stream."""
    encoding = response.headers.get("content-encoding", "").lower()
    if encoding in ("", "identity"):
        return bytes
    inflate = zlib.decompressobj(wbits=47)

    def decode(chunk: bytes) -> bytes:
        try:
            return inflate.decompress(chunk)
        except zlib.error:
            return b""

    return decode


def _tees(library: ModuleType) -> tuple[Any, Any]:
    """The two tee classes for one library, whose stream base classes they must descend from.

    A tee passes a body on and shows it to a reader. The call ends with the body, or when the client closes it.
    """

    class Tee(library.SyncByteStream):  # type: ignore[name-defined,misc]
        def __init__(self, stream: Any, watched: Watched, decode: Decode) -> None:
            self._stream, self._watched, self._decode = stream, watched, decode

        def __iter__(self) -> Iterator[bytes]:
            try:
                for chunk in self._stream:
                    self._watched.reader.feed(self._decode(chunk))
                    yield chunk
            except Exception as error:
                self._watched.finish(_said(error))
                raise
            self._watched.finish()

        def close(self) -> None:
            self._stream.close()
            self._watched.finish()

    class AsyncTee(library.AsyncByteStream):  # type: ignore[name-defined,misc]
        def __init__(self, stream: Any, watched: Watched, decode: Decode) -> None:
            self._stream, self._watched, self._decode = stream, watched, decode

        async def __aiter__(self) -> AsyncIterator[bytes]:
            inner = self._stream.__aiter__()
            try:
                async for chunk in inner:
                    self._watched.reader.feed(self._decode(chunk))
                    yield chunk
            except (Exception, asyncio.CancelledError) as error:
                self._watched.finish(_said(error))
                raise
            finally:
                # A client that stops half-way closes this; what is inside must not wait for the garbage collector.
                if hasattr(inner, "aclose"):
                    await inner.aclose()
            self._watched.finish()

        async def aclose(self) -> None:
            await self._stream.aclose()
            self._watched.finish()

    return Tee, AsyncTee
