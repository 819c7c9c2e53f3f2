"""Log points in this process: switched on by a conversation, streamed to it, switched off at its end."""

from __future__ import annotations

import select
import socket
import sys
import threading
import time
import types
from collections import deque
from typing import Any

from harness.breakpoints.inside import codes, status
from harness.breakpoints.inside.monitoring import Monitoring
from harness.breakpoints.inside.rewriting import Rewriting
from harness.breakpoints.inside.template import Condition, Template
from harness.breakpoints.inside.wire import send

LOOK_AGAIN_SECONDS = 1.0
POLL_SECONDS = 0.05
# Errors of the condition or of the text that are told; more of the same would only fill the screen.
ERRORS_TOLD = 3

_monitoring = Monitoring()
_rewriting = Rewriting()
_lock = threading.Lock()
_on: set[int] = set()


class Point:
    """One log point: counts, evaluates, and puts what it found into a queue that somebody else empties."""

    def __init__(self, condition: str, log: str, limit: int) -> None:
        self.condition, self.template = Condition(condition), Template(log)
        self.limit = limit
        self.queue: deque[dict[str, Any]] = deque()
        self.hits = self.passed = self.errors = 0
        self.spent = 0.0
        self._busy = threading.local()

    @property
    def full(self) -> bool:
        return self.hits >= self.limit

    def hit(self, frame: types.FrameType) -> None:
        """What runs in the traced program each time that the line is reached."""
        if self.hits >= self.limit or getattr(self._busy, "now", False):
            return
        # The expressions may come through this very line.
        self._busy.now = True
        began = time.perf_counter()
        try:
            self.passed += 1
            if not self.condition.holds(frame):
                return
            text, values = self.template.fill(frame)
            self.hits += 1
            self.queue.append(
                {"hit": text, "values": values, "time": time.time(), "thread": threading.current_thread().name}
            )
        except Exception as error:  # noqa: BLE001  # the program goes on, whatever was asked
            self.errors += 1
            if self.errors <= ERRORS_TOLD:
                self.queue.append({"failed": f"{type(error).__name__}: {error}", "time": time.time()})
        finally:
            self.spent += time.perf_counter() - began
            self._busy.now = False


def active() -> int:
    """How many log points are on in this process."""
    return len(_on)


def serve(connection: socket.socket, question: dict[str, Any]) -> None:
    """Trace until there are enough hits or the other side closes."""
    try:
        point = Point(str(question.get("if", "")), str(question.get("log", "")), int(question.get("n", 1)))
    except SyntaxError as error:
        send(connection, {"error": f"can't be read: {error.msg}: {(error.text or '').strip()}"})
        return
    tracer = _Tracer(str(question["file"]), int(question["line"]), point)
    _on.add(id(point))
    try:
        told = tracer.look()
        send(connection, {"armed": told, **status.names()})
        _stream(connection, tracer, point, told)
    finally:
        tracer.stop()
        _on.discard(id(point))
    _flush(connection, point)
    send(
        connection, {"end": {"hits": point.hits, "passed": point.passed, "errors": point.errors, "spent": point.spent}}
    )


def _stream(connection: socket.socket, tracer: _Tracer, point: Point, told: dict[str, Any]) -> None:
    looked = time.monotonic()
    while not point.full:
        readable, _, _ = select.select([connection], [], [], POLL_SECONDS)
        if readable:
            return  # closed, or told to stop: there is nothing else to say
        _flush(connection, point)
        if not told["functions"] and time.monotonic() - looked > LOOK_AGAIN_SECONDS:
            looked = time.monotonic()
            told = tracer.look()
            if told["functions"]:
                # Its actor may have come into this process meanwhile.
                send(connection, {"armed": told, **status.names()})


def _flush(connection: socket.socket, point: Point) -> None:
    while point.queue:
        send(connection, point.queue.popleft())


def cost_of_a_pass(times: int = 200) -> float:
    """Seconds that reaching the line costs in this process now, without what the expressions themselves take."""
    point = Point("", "", times + 1)
    frame = sys._getframe()
    began = time.perf_counter()
    for _ in range(times):
        point.hit(frame)
    return (time.perf_counter() - began) / times


class _Tracer:
    def __init__(self, file: str, line: int, point: Point) -> None:
        self._file, self._line, self._point = file, line, point
        self._codes: list[types.CodeType] = []
        self._handle: int | None = None

    def look(self) -> dict[str, Any]:
        """Find the line in this process and switch the log point on; says what was found."""
        began = time.perf_counter()
        functions = codes.functions(self._file)
        frames = codes.frames(self._file)
        every = {id(code): code for code in (f.__code__ for f in functions)}
        every |= {id(frame.f_code): frame.f_code for frame in frames}
        parts = {id(part): part for code in every.values() for part in codes.inner(code)}
        found = [part for part in parts.values() if codes.has_line(part, self._line)]
        files = sorted({code.co_filename for code in every.values()})
        told: dict[str, Any] = {"files": files, "functions": len(found), "running": 0, "how": ""}
        told["pass_seconds"] = cost_of_a_pass()
        if len(files) > 1:
            told |= {"functions": 0, "ambiguous": True}
        elif found:
            with _lock:
                self._switch_on(found, files[0], frames, told)
        elif files:
            told["near"] = codes.lines_near([*every.values()], self._line)
        told["seconds"] = time.perf_counter() - began
        return told

    def _switch_on(
        self, found: list[types.CodeType], filename: str, frames: list[types.FrameType], told: dict[str, Any]
    ) -> None:
        if hasattr(sys, "monitoring"):
            self._codes = found
            _monitoring.add(found, self._line, self._point.hit)
            told["how"] = "sys.monitoring"
            return
        self._handle, count = _rewriting.add(self._file, filename, self._line, self._point.hit)
        told["how"] = "rewritten function"
        # A function that is under way runs its own code to its end.
        told["running"] = sum(frame.f_code in found for frame in frames)
        told["functions"] = count

    def stop(self) -> None:
        """Switch it off."""
        with _lock:
            if self._codes:
                _monitoring.remove(self._codes, self._line, self._point.hit)
            if self._handle is not None:
                _rewriting.remove(self._file, self._handle)
