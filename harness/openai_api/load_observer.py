"""Calls of many runs at once, seen from inside the agent's process; runs in the child.

Beyond what the ``Observer`` sees: when a request really went out (before that it waited for a connection of its
client), whether a blocking client made it, and in which thread; and every HTTP client that the agent makes.
"""

from __future__ import annotations

import functools
import json
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from harness.openai_api.calls import Reader
from harness.openai_api.observer import Observer, Watched

# Requests that are kept for the bare client.
KEPT_BODIES = 2048
KEPT_BYTES = 64 * 1024 * 1024

Say = Callable[[dict[str, Any]], None]


class Sent(Watched):
    """One request on its way, with what only this observer looks at."""

    __slots__ = ("sent", "started", "thread")

    def __init__(self, reader: Reader, run: int, origin: str, done: Callable[[Any], None]) -> None:
        super().__init__(reader, run, origin, done)
        self.sent: float | None = None
        self.thread = ""
        self.started = time.monotonic()


class LoadObserver(Observer):
    """Sees the calls and clients of one process.

    Args:
        say: gets a row for each call that has ended, in the shape of the checks' ``CallRow``.
        ours: origin of our own port.
        bodies: where requests are kept for the bare client, one JSON document a line: path, body.
        own_place: the user's innermost line of a running stack, as file and line.
    """

    def __init__(
        self,
        say: Say,
        *,
        ours: str,
        bodies: Path | None = None,
        own_place: Callable[[FrameType | None], tuple[str, int]] = lambda _frame: ("", 0),
    ) -> None:
        super().__init__(lambda _call, _origin: None, ours=ours)
        self._say = say
        self._own_place = own_place
        self._main_thread = threading.main_thread().ident
        self._open_of: dict[int, list[Sent]] = {}
        self._ended: dict[int, float] = {}
        self._answered = 0.0
        self._bodies = None if bodies is None else bodies.open("ab")
        self._kept = self._kept_bytes = 0
        self._made: list[_Made] = []
        self._replaced: list[tuple[Any, str, Any]] = []
        self._expected = {ours}

    def expect(self, origins: Iterable[str]) -> None:
        """Calls to these are where they should be."""
        self._expected.update(origins)

    # -- what the runs' keeper asks

    def zero(self, began: float) -> None:
        """Times count from here."""
        self._began = began
        self._numbers.clear()
        self._ended.clear()
        for made in self._made:
            made.early = True

    def state(self, run: int) -> str:
        """``model`` with a call on its way, ``connection`` where it waits for one of its client's, else nothing."""
        calls = self._open_of.get(run)
        if not calls:
            return ""
        return "model" if any(call.sent is not None for call in list(calls)) else "connection"

    def calls(self, run: int) -> int:
        """Calls that the run has begun."""
        return self._numbers.get(run, 0)

    def last_answer(self) -> float:
        """When the server last answered anybody, on the monotonic clock."""
        return self._answered

    def last_end(self, run: int) -> float:
        """When a call of that run last ended; 0 where none has."""
        return self._ended.get(run, 0.0)

    def open_clients(self) -> int:
        """HTTP clients that are open and that somebody still holds."""
        return sum(made.is_open for made in self._made)

    def clients(self) -> list[dict[str, Any]]:
        """HTTP clients that runs have made, by the place that made them."""
        by_place: dict[tuple[str, int], dict[str, Any]] = {}
        for made in self._made:
            entry = by_place.setdefault(
                made.place,
                {
                    "file": made.place[0],
                    "line": made.place[1],
                    "made": 0,
                    "never_closed": 0,
                    "seconds": 0.0,
                    "limit": made.limit,
                },
            )
            if made.early:
                continue  # with the agent, or in the first run: there once, whatever the number of runs
            entry["made"] += 1
            entry["never_closed"] += not made.closed
            entry["seconds"] += made.seconds
        return sorted(by_place.values(), key=lambda entry: -entry["made"])

    # -- hooks

    def _hook(self, library: ModuleType) -> None:
        super()._hook(library)
        self._mark = _marks(library)
        for owner in (library.Client, library.AsyncClient):
            self._hook_making(owner)

    def _hook_making(self, owner: Any) -> None:
        make = owner.__init__
        made_of: weakref.WeakKeyDictionary[Any, _Made] = weakref.WeakKeyDictionary()

        @functools.wraps(make)
        def seen_make(client: Any, *args: Any, **kwargs: Any) -> None:
            started = time.thread_time()
            make(client, *args, **kwargs)
            limit = getattr(kwargs.get("limits"), "max_connections", None)
            place = self._own_place(sys._getframe(1))
            made_of[client] = made = _Made(weakref.ref(client), place, time.thread_time() - started, limit)
            self._made.append(made)

        self._replace(owner, "__init__", seen_make)
        # Whether a client was closed can't be asked of one that is gone, so its closing is noted.
        for name in ("close", "aclose", "__exit__", "__aexit__"):
            if name in vars(owner):
                self._replace(owner, name, _noting(vars(owner)[name], made_of))

    def _replace(self, owner: Any, name: str, hook: Any) -> None:
        self._replaced.append((owner, name, vars(owner)[name]))
        setattr(owner, name, hook)

    def remove(self) -> None:
        """Take the hooks out again."""
        super().remove()
        while self._replaced:
            owner, name, original = self._replaced.pop()
            setattr(owner, name, original)
        if self._bodies is not None:
            self._bodies.close()
            self._bodies = None

    def _watch(self, request: Any, *, sync: bool) -> Watched:
        sent = self._begun(request, Sent)
        sent.sync = sync
        if threading.get_ident() != self._main_thread:
            sent.thread = threading.current_thread().name
        self._open_of.setdefault(sent.run, []).append(sent)
        if request.method == "POST":
            self._keep(request, sent)
            # The body is asked for when a connection has been had, and not before.
            request.stream = self._mark(request.stream, sent)
        else:
            sent.sent = sent.started
        return sent

    def _keep(self, request: Any, sent: Sent) -> None:
        if self._bodies is None or self._kept >= KEPT_BODIES or sent.run < 0:
            return
        # As it is: these are documents of JSON already, and the bare client will see whether they are whole.
        body = sent.reader.raw_request
        if not body.startswith(b"{") or b"\n" in body or sent.reader.protocol == "other":
            return
        line = b"[%s, %s]\n" % (json.dumps(request.url.path).encode(), body)
        if self._kept_bytes + len(line) > KEPT_BYTES:
            return
        self._kept += 1
        self._kept_bytes += len(line)
        self._bodies.write(line)

    def _done(self, watched: Any) -> None:
        self._open.discard(watched)
        calls = self._open_of.get(watched.run)
        if calls is not None and watched in calls:
            calls.remove(watched)
            if not calls:
                del self._open_of[watched.run]
        now = time.monotonic()
        self._ended[watched.run] = now
        if watched.reader.status is not None:
            self._answered = now
        self._say(self._row(watched, now))

    def _row(self, sent: Sent, now: float) -> dict[str, Any]:
        reader = sent.reader
        _, reply = reader.read()
        return {
            "run": sent.run,
            "number": reader.number,
            "path": reader.path,
            "started": sent.started - self._began,
            "sent": None if sent.sent is None else sent.sent - self._began,
            "ended": now - self._began,
            "first_token": reader.first_token_seconds,
            "status": reader.status,
            "failure": reader.failure,
            "finish_reason": reply.finish_reason if reply else None,
            "prompt_tokens": reply.prompt_tokens if reply else None,
            "completion_tokens": reply.completion_tokens if reply else None,
            "sync": sent.sync,
            "thread": sent.thread,
            "elsewhere": "" if sent.origin in self._expected else sent.origin,
            "reply_id": reply.id if reply else "",
            "generation": reader.protocol != "other",
        }


@dataclass(eq=False)
class _Made:
    """One HTTP client that was made, held weakly."""

    client: weakref.ref[Any]
    place: tuple[str, int]
    seconds: float
    limit: int | None
    closed: bool = False
    early: bool = False

    @property
    def is_open(self) -> bool:
        return not self.closed and self.client() is not None


def _noting(close: Any, made_of: Mapping[Any, _Made]) -> Any:
    """A closing method that notes which client it closes."""

    @functools.wraps(close)
    def noting(client: Any, *args: Any, **kwargs: Any) -> Any:
        if (made := made_of.get(client)) is not None:
            made.closed = True
        return close(client, *args, **kwargs)  # of an asynchronous one: its coroutine

    return noting


def _marks(library: ModuleType) -> Any:
    """A body that notes when it is first asked for, descending from one library's stream classes."""

    class Mark(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[name-defined,misc]
        def __init__(self, stream: Any, sent: Sent) -> None:
            self._stream, self._sent = stream, sent

        def _note(self) -> None:
            if self._sent.sent is None:
                self._sent.sent = time.monotonic()

        def __iter__(self) -> Iterator[bytes]:
            self._note()
            yield from self._stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            self._note()
            async for chunk in self._stream:
                yield chunk

        def close(self) -> None:
            self._stream.close()

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Mark
