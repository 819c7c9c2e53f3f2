"""One debugger, attached to one process. Every wait has a time limit; leaving never ends the process."""

from __future__ import annotations

import itertools
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from types import MappingProxyType, TracebackType
from typing import Any

from harness.dap import wire
from harness.dap.model import Breakpoint, Frame, Stop, Variable
from harness.errors import DebuggerBusy, DebuggerGone, DebuggerRefused, DebuggerSilent

REQUEST_SECONDS = 10.0
INTERRUPT_SECONDS = 5.0
# Exceptions that nobody catches; without this filter a post-mortem attaches and never stops.
UNCAUGHT = ("uncaught",)


class Session:
    """A connection to a process's debugpy.

    Use it as a context: whatever happens, the process goes on afterwards.
    """

    def __init__(self, connection: socket.socket, name: str) -> None:
        self.name = name
        self.output: list[str] = []
        # Raises KeyboardInterrupt in a thread of the process, by Python's number of it. debugpy can't, for the thread
        # that would have to is the one that is busy.
        self.interrupt: Callable[[int], None] | None = None
        self.on_event: Callable[[str, dict[str, Any]], None] | None = None
        self._connection = connection
        self._numbers = itertools.count(1)
        self._answers: dict[int, Future[dict[str, Any]]] = {}
        self._events: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self._breakpoints: dict[str, list[Breakpoint]] = {}
        self._lock = threading.Lock()
        self._idents: dict[int, int] = {}
        self.stopped: dict[int, Stop] = {}
        self.gone = False
        self._reader = threading.Thread(target=self._read, name=f"dap {name}", daemon=True)
        self._reader.start()

    @classmethod
    def connect(cls, host: str, port: int, *, timeout: float = REQUEST_SECONDS) -> Session:
        """Connect to a debugger's port.

        Args:
            timeout: seconds.

        Raises:
            DebuggerGone: nobody listens there (any more).
        """
        try:
            connection = socket.create_connection((host, port), timeout=timeout)
        except OSError as error:
            raise DebuggerGone(f"No debugger answers at {host}:{port}: {error.strerror or error}.") from None
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(connection, f"{host}:{port}")

    def attach(
        self,
        *,
        breakpoints: Sequence[Breakpoint] = (),
        exceptions: Sequence[str] = UNCAUGHT,
        path_mappings: Sequence[tuple[str, str]] = (),
        configuration: Mapping[str, Any] = MappingProxyType({}),
        timeout: float = REQUEST_SECONDS,
    ) -> None:
        """Attach, with breakpoints and exception filters set before the process goes on.

        Args:
            path_mappings: pairs of a folder here and the same folder there.
            configuration: more of debugpy's own arguments: ``subProcess`` has it tell of processes that this one starts
                (event ``debugpyAttach``), ``subProcessId`` names one of them.
            timeout: seconds for all of it.

        Raises:
            DebuggerBusy: another debugger is attached.
            DebuggerGone: the process ended meanwhile.
        """
        deadline = time.monotonic() + timeout
        capabilities = {"adapterID": "debugpy", "pathFormat": "path", "linesStartAt1": True, "columnsStartAt1": True}
        try:
            self.request("initialize", {**capabilities, "clientID": "drydock"}, timeout=timeout)
        except DebuggerSilent:
            raise DebuggerBusy(f"The debugger at {self.name} takes nobody else: another one is attached.") from None
        mappings = [{"localRoot": here, "remoteRoot": there} for here, there in path_mappings]
        asked = {"justMyCode": False, "pathMappings": mappings, "subProcess": False, **configuration}
        attached = self.send("attach", asked)
        while True:
            try:
                self.wait_for_event("initialized", timeout=min(0.2, max(deadline - time.monotonic(), 0.0)))
                break
            except DebuggerSilent:
                if attached.done():
                    self._result("attach", attached, 0.1)  # raises, if it was refused
                if time.monotonic() > deadline:
                    raise DebuggerBusy(
                        f"The debugger at {self.name} doesn't let us in: another one may be attached."
                    ) from None
        for point in breakpoints:
            self._breakpoints.setdefault(point.file, []).append(point)
        for file in self._breakpoints:
            self._send_breakpoints(file)
        self.request("setExceptionBreakpoints", {"filters": list(exceptions)})
        self.request("configurationDone")
        self._result("attach", attached, max(deadline - time.monotonic(), 1.0))

    # -- requests -----------------------------------------------------------------------------------------------------

    def send(self, command: str, arguments: dict[str, Any] | None = None) -> Future[dict[str, Any]]:
        """Send a request; its answer comes into the future.

        Raises:
            DebuggerGone: the connection is closed.
        """
        with self._lock:
            if self.gone:
                raise DebuggerGone(f"The process behind {self.name} has ended, or its debugger has.")
            number = next(self._numbers)
            answer: Future[dict[str, Any]] = Future()
            self._answers[number] = answer
            message = {"seq": number, "type": "request", "command": command, "arguments": arguments or {}}
            try:
                self._connection.sendall(wire.encode(message))
            except OSError:
                self.gone = True
                raise DebuggerGone(f"The process behind {self.name} has ended, or its debugger has.") from None
        return answer

    def request(
        self, command: str, arguments: dict[str, Any] | None = None, *, timeout: float = REQUEST_SECONDS
    ) -> dict[str, Any]:
        """Send a request and return the body of its answer.

        Raises:
            DebuggerRefused: the debugger says no; carries its reason.
            DebuggerSilent: no answer within the time.
            DebuggerGone: the process has ended.
        """
        return self._result(command, self.send(command, arguments), timeout)

    def _result(self, command: str, answer: Future[dict[str, Any]], timeout: float) -> dict[str, Any]:
        try:
            message = answer.result(timeout)
        except FutureTimeout:
            raise DebuggerSilent(f"{self.name} gave no answer to `{command}` within {timeout:g} s.") from None
        if not message.get("success"):
            if "already being debugged" in str(message.get("message")):
                raise DebuggerBusy(f"Another debugger is attached to the process behind {self.name}.")
            raise DebuggerRefused(str(message.get("message") or f"`{command}` was refused."))
        body: dict[str, Any] = message.get("body") or {}
        return body

    # -- events -------------------------------------------------------------------------------------------------------

    def wait_for_event(self, name: str, *, timeout: float) -> dict[str, Any]:
        """The next event of a name, others are dropped; seconds.

        Raises:
            DebuggerSilent: it didn't come.
            DebuggerGone: the process ended before.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                found, body = self._events.get(timeout=max(deadline - time.monotonic(), 0.001))
            except queue.Empty:
                raise DebuggerSilent(f"{self.name}: no `{name}` within {timeout:g} s.") from None
            if found == name:
                return body
            if found == "gone":
                self._events.put((found, body))
                raise DebuggerGone(f"The process behind {self.name} has ended.")

    def wait_for_stop(self, *, timeout: float) -> Stop:
        """The thread that has stopped, at once if one stands still already.

        Raises:
            DebuggerSilent: none did within the time.
            DebuggerGone: the process ended.
        """
        deadline = time.monotonic() + timeout
        while True:
            if stops := list(self.stopped.values()):
                return stops[-1]
            try:
                self.wait_for_event("stopped", timeout=min(0.2, max(deadline - time.monotonic(), 0.0)))
            except DebuggerSilent:
                if time.monotonic() >= deadline:
                    raise DebuggerSilent(f"{self.name}: nothing stopped within {timeout:g} s.") from None

    # -- breakpoints --------------------------------------------------------------------------------------------------

    def add_breakpoint(self, point: Breakpoint) -> dict[str, Any]:
        """Set one more; returns what the debugger says of it (``verified``, ``line``, ``message``)."""
        self._breakpoints.setdefault(point.file, []).append(point)
        told = self._send_breakpoints(point.file)
        return told[-1] if told else {}

    def remove_breakpoints(self, file: str | None = None, line: int | None = None) -> int:
        """Take breakpoints away, all of a file or all; returns how many."""
        count = 0
        for name in list(self._breakpoints):
            if file is not None and name != file:
                continue
            kept = [p for p in self._breakpoints[name] if line is not None and p.line != line]
            count += len(self._breakpoints[name]) - len(kept)
            self._breakpoints[name] = kept
            self._send_breakpoints(name)
        return count

    @property
    def breakpoints(self) -> list[Breakpoint]:
        """All that are set."""
        return [point for points in self._breakpoints.values() for point in points]

    def set_exceptions(self, filters: Sequence[str]) -> None:
        """Stop at exceptions: any of ``raised``, ``uncaught``, ``userUnhandled``."""
        self.request("setExceptionBreakpoints", {"filters": list(filters)})

    def _send_breakpoints(self, file: str) -> list[dict[str, Any]]:
        points = [point.as_dap() for point in self._breakpoints[file]]
        body = self.request("setBreakpoints", {"source": {"path": file}, "breakpoints": points})
        told: list[dict[str, Any]] = body.get("breakpoints", [])
        return told

    # -- looking ------------------------------------------------------------------------------------------------------

    def threads(self) -> dict[int, str]:
        """Number to name of all threads."""
        return {thread["id"]: thread["name"] for thread in self.request("threads").get("threads", [])}

    def stack(self, thread: int) -> list[Frame]:
        """The frames of a stopped thread, innermost first."""
        body = self.request("stackTrace", {"threadId": thread, "startFrame": 0, "levels": 200})
        return [
            Frame(frame["id"], frame["name"], (frame.get("source") or {}).get("path", ""), frame["line"])
            for frame in body.get("stackFrames", [])
        ]

    def variables(self, frame: int, *, scope: str = "Locals") -> list[Variable]:
        """The variables of a frame's scope."""
        for found in self.request("scopes", {"frameId": frame}).get("scopes", []):
            if found["name"] == scope:
                return self.parts(found["variablesReference"])
        return []

    def parts(self, reference: int) -> list[Variable]:
        """What is in a variable that has parts."""
        return [
            Variable(v["name"], v.get("value", ""), v.get("type", ""), v.get("variablesReference", 0))
            for v in self.request("variables", {"variablesReference": reference}).get("variables", [])
        ]

    def evaluate(
        self, expression: str, frame: int | None, *, timeout: float = REQUEST_SECONDS, context: str = "repl"
    ) -> str:
        """The value of an expression in a frame, as text; statements are run and give "".

        An expression that takes longer than ``timeout`` seconds is broken off where Python can be (not in C code).

        Raises:
            DebuggerRefused: it raised; carries the message.
            DebuggerSilent: it took too long.
        """
        arguments: dict[str, Any] = {"expression": expression, "context": context, "format": {}}
        ident = None
        if frame is not None:
            arguments["frameId"] = frame
            ident = self._ident(frame)
        answer = self.send("evaluate", arguments)
        try:
            body = self._result("evaluate", answer, timeout)
        except DebuggerSilent:
            broken_off = ident is not None and self._break_off(ident, answer)
            raise DebuggerSilent(
                f"`{expression[:80]}` took longer than {timeout:g} s.",
                consequence="It was broken off; the worker is as it was."
                if broken_off
                else "It still runs there, and nothing can make it stop.",
                mend="" if broken_off else "wait, or detach: the worker goes on when it is done",
            ) from None
        return str(body.get("result", ""))

    def _ident(self, frame: int) -> int | None:
        """Python's own number of the thread that a frame belongs to, needed to break an expression off."""
        if frame not in self._idents:
            expression = "__import__('threading').get_ident()"
            arguments = {"expression": expression, "context": "watch", "frameId": frame}
            try:
                body = self._result("evaluate", self.send("evaluate", arguments), REQUEST_SECONDS)
                self._idents[frame] = int(body.get("result", ""))
            except (DebuggerSilent, DebuggerRefused, ValueError):
                return None
        return self._idents[frame]

    def _break_off(self, ident: int, answer: Future[dict[str, Any]]) -> bool:
        if self.interrupt is None:
            return False
        try:
            self.interrupt(ident)
            answer.result(INTERRUPT_SECONDS)
        except Exception:  # noqa: BLE001  # nobody can be asked, or it is in C code: it goes on
            return False
        return True

    # -- going on -----------------------------------------------------------------------------------------------------

    def resume(self, thread: int, how: str = "continue") -> None:
        """Let a stopped thread go on: ``continue`` (with all others), ``next``, ``stepIn``, ``stepOut``."""
        self._idents.clear()
        if how == "continue":
            self.stopped.clear()
        else:
            self.stopped.pop(thread, None)
        self.request(how, {"threadId": thread})

    def pause(self) -> None:
        """Ask all threads to stop at their next line."""
        self.request("pause", {"threadId": next(iter(self.threads()), 1)})

    def detach(self) -> None:
        """Leave; the process goes on, without breakpoints. Never fails."""
        if not self.gone:
            try:
                self.request("disconnect", {"restart": False, "terminateDebuggee": False}, timeout=3.0)
            except (DebuggerGone, DebuggerSilent, DebuggerRefused):
                pass  # closing the connection has the same effect
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._connection.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    # -- the reader's thread ------------------------------------------------------------------------------------------

    def _read(self) -> None:
        stream = self._connection.makefile("rb")
        try:
            while (message := wire.read(stream)) is not None:
                if message.get("type") == "response":
                    answer = self._answers.pop(int(message.get("request_seq", 0)), None)
                    if answer is not None:
                        answer.set_result(message)
                elif message.get("type") == "event":
                    self._event(str(message.get("event")), message.get("body") or {})
        except (OSError, ValueError):
            pass
        with self._lock:
            self.gone = True
            left = list(self._answers.values())
            self._answers.clear()
        for answer in left:
            answer.set_exception(DebuggerGone(f"The process behind {self.name} has ended."))
        self._event("gone", {})

    def _event(self, name: str, body: dict[str, Any]) -> None:
        if name == "stopped":
            stop = Stop(int(body.get("threadId", 0)), str(body.get("reason", "")), _text(body))
            self.stopped[stop.thread] = stop
        elif name == "continued":
            self._continued(body)
        elif name == "terminated":
            self.gone = True
            self._events.put(("gone", {}))
        elif name == "output":
            self.output.append(str(body.get("output", "")))
        self._events.put((name, body))
        if self.on_event is not None:
            self.on_event(name, body)

    def _continued(self, body: dict[str, Any]) -> None:
        if body.get("allThreadsContinued", True):
            self.stopped.clear()
        else:
            self.stopped.pop(int(body.get("threadId", 0)), None)


def _text(body: dict[str, Any]) -> str:
    return ": ".join(str(body[name]) for name in ("description", "text") if body.get(name))
