"""Starts the process in which an agent runs, watches it, and gathers what happened; judges nothing.

The process has a session of its own, so that all it starts can be ended with it, and no standard input. It may print
without end (a part is kept), leave at any moment, or never come back: then it is asked where it waits, its run is
cancelled as a framework would, and what doesn't heed that is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import psutil

from harness.agent.capture import Capture, Lines, Output
from harness.agent.source import AgentSource
from harness.agent.stacks import dump_from_outside

if TYPE_CHECKING:
    from typing_extensions import Self

# Where harness lies, so that the child finds it however the parent was started.
_ROOT = str(Path(__file__).resolve().parent.parent.parent)
_START = f"""
import sys
sys.path[:] = [{_ROOT!r}] + [place for place in sys.path if place]
from {{program}} import main
main()
"""


@dataclass(frozen=True)
class Server:
    """What an agent is told of the server it is to talk to.

    Args:
        base_url: as OpenAI's clients take it.
        root: as Anthropic's clients take it.
        api_key: for this run.
        model: goes to the agent as OPENAI_MODEL.
    """

    base_url: str
    root: str
    api_key: str = field(repr=False)
    model: str = ""


# In the environment of the child and of all that it starts.
MARK = "DRYDOCK_RUNMARK"

EndedBy = Literal["itself", "cancel", "kill"]


@dataclass(frozen=True)
class Limits:
    """How long to wait for what, in seconds.

    Args:
        run: for one run.
        load: for importing and making the agent; heavy frameworks take half a minute on a busy machine.
        answer: for the child to say where it waits.
        cancel: for a cancelled run to end, as AReaL and asyncio.timeout expect it to.
        drain: for the process to leave after its last word, and for its last output.
    """

    run: float = 120.0
    load: float = 120.0
    answer: float = 3.0
    cancel: float = 3.0
    drain: float = 5.0


@dataclass
class Trace:
    """All that was seen of one run.

    Args:
        events: what the child said, in order.
        exit_status: as ``subprocess`` gives it; negative for a signal.
        cut: the limit in seconds that the run broke; None where it ended in time.
        cut_during: what it was at when it was cut.
        stacks: where everything waited when the limit was reached.
        left_processes: command lines of processes that were still there when the agent's had ended.
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    output: Output = field(default_factory=Output)
    errors: Output = field(default_factory=Output)
    exit_status: int | None = None
    seconds: float = 0.0
    cut: float | None = None
    cut_during: Literal["load", "run"] = "load"
    ended_by: EndedBy = "itself"
    stacks: dict[str, Any] | None = None
    left_processes: list[str] = field(default_factory=list)

    @property
    def raised(self) -> dict[str, Any] | None:
        """What ended the run by raising: an exit within some task says more than the cancelling that it causes."""
        all_raised = [event for event in self.events if event["event"] == "raised"]
        exits = [event for event in all_raised if event["during"] == "loop"]
        return next(iter(exits or all_raised), None)

    def event(self, name: str) -> dict[str, Any] | None:
        """The first event of a name, if it was said."""
        return next((event for event in self.events if event["event"] == name), None)


async def run_agent(
    source: AgentSource,
    data: Mapping[str, Any],
    server: Server,
    *,
    program: str,
    limits: Limits,
    arguments: Mapping[str, Any] | None = None,
    run: int = 0,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Trace:
    """Run an agent once in a process of its own.

    Args:
        source: the agent.
        data: the sample.
        server: what the agent is to talk to.
        program: the module whose ``main`` runs in the child; it ends in ``harness.agent.child.main``.
        limits: how long to wait for what.
        arguments: keyword arguments for the agent's ``__init__``.
        run: index of the run.
        cwd: where the process runs.
        environment: more variables for the process.
    """
    trace = Trace()
    job = {**job_of(source, server, arguments), "run": {"index": run, "data": dict(data)}}
    started = time.monotonic()
    mark = secrets.token_hex(16)
    variables = agent_environment(os.environ, server) | dict(environment or {}) | {MARK: mark}
    async with Child.start(program, job, variables, cwd or Path.cwd(), trace, limits) as child:
        await child.watch()
    trace.seconds = time.monotonic() - started
    return trace


def job_of(source: AgentSource, server: Server, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """The part of a child's job that says which agent, made how, and where its model is."""
    return {
        "module": source.module,
        "class": source.class_name,
        "file": None if source.path is None else str(source.path),
        "search": [str(folder) for folder in source.search],
        "arguments": dict(arguments or {}),
        "base_url": server.base_url,
        "api_key": server.api_key,
    }


def agent_environment(base: Mapping[str, str], server: Server) -> dict[str, str]:
    """The environment of an agent: what AReaL's subprocess mode sets, the model's name, and no detour to 127.0.0.1."""
    environment = dict(base)
    environment |= {
        "OPENAI_BASE_URL": server.base_url,
        "OPENAI_API_BASE": server.base_url,
        "OPENAI_API_KEY": server.api_key,
        "ANTHROPIC_BASE_URL": server.root,
        "ANTHROPIC_API_KEY": server.api_key,
        "OPENAI_MODEL": server.model,
    }
    for name in ("NO_PROXY", "no_proxy"):
        environment[name] = ",".join(filter(None, [environment.get(name), "127.0.0.1", "localhost"]))
    # The harness's own start-up switches are not the agent's.
    environment.pop("JSON", None)
    return environment


class Child:
    """The child process and the pipes to it."""

    def __init__(self, process: subprocess.Popen[bytes], control: int, mark: str, trace: Trace, limits: Limits) -> None:
        self._process, self._control, self._mark = process, control, mark
        self.trace, self.limits = trace, limits
        self._news = asyncio.Event()
        self.exited = asyncio.ensure_future(asyncio.to_thread(process.wait))
        self._transports: list[asyncio.ReadTransport] = []
        self._readers: list[Capture | Lines] = []

    @classmethod
    @asynccontextmanager
    async def start(
        cls, program: str, job: dict[str, Any], environment: dict[str, str], cwd: Path, trace: Trace, limits: Limits
    ) -> AsyncIterator[Self]:
        """Start it and tell it its job; it and all that it started end with the block."""
        event_read, event_write = os.pipe()
        control_read, control_write = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-u", "-c", _START.format(program=program), str(event_write), str(control_read)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(event_write, control_read),
                env=environment,
                cwd=cwd,
                start_new_session=True,
            )
        except BaseException:
            os.close(event_read)
            os.close(control_write)
            raise
        finally:
            os.close(event_write)
            os.close(control_read)
        child = cls(process, control_write, environment[MARK], trace, limits)
        try:
            await child._connect(event_read)
            # A sample may be larger than a pipe's buffer, and the child may be gone before it reads.
            await asyncio.to_thread(child.command, json.dumps(job))
            yield child
        finally:
            await child._end()

    async def _connect(self, event_read: int) -> None:
        loop = asyncio.get_running_loop()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        for pipe, reader in (
            (os.fdopen(event_read, "rb", buffering=0), Lines(self._take_event)),
            (self._process.stdout, Capture(self.trace.output)),
            (self._process.stderr, Capture(self.trace.errors)),
        ):
            transport, protocol = await loop.connect_read_pipe(lambda reader=reader: reader, pipe)  # type: ignore[misc]
            self._transports.append(transport)
            self._readers.append(protocol)

    def _take_event(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return
        if self.take(event):
            self._news.set()

    def take(self, event: dict[str, Any]) -> bool:
        """Something was said; returns whether somebody may wait for it."""
        self.trace.events.append(event)
        return True

    def command(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            line = text.encode() + b"\n"
            while line:
                line = line[os.write(self._control, line) :]

    async def watch(self) -> None:
        """Wait for the end of the run, or bring it about."""
        loading = ("started", "unfit", "raised", "ended")
        for during, awaited, limit in (("load", loading, self.limits.load), ("run", ("ended",), self.limits.run)):
            if not await self.until(awaited, limit):
                self.trace.cut = limit
                self.trace.cut_during = "load" if during == "load" else "run"
                await self.cut()
                return
            if self.exited.done():
                break
        await self.until((), self.limits.drain)

    async def until(self, awaited: tuple[str, ...], seconds: float) -> bool:
        """Wait for one of some events, or the process's end; False where neither came in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not self.exited.done() and not any(event["event"] in awaited for event in self.trace.events):
            left = deadline - loop.time()
            if left <= 0:
                return False
            self._news.clear()
            news = asyncio.ensure_future(self._news.wait())
            await asyncio.wait({news, self.exited}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            news.cancel()
        return True

    async def cut(self) -> None:
        """The limit is reached: ask where it waits, cancel the run, end what doesn't heed that."""
        self.command("dump")
        await self.until(("stacks",), self.limits.answer)
        self.trace.stacks = self.trace.event("stacks")
        if self.trace.stacks is None:
            # Something holds the interpreter's lock, so its threads can't speak; looking in from outside still works.
            self.trace.stacks = await asyncio.to_thread(dump_from_outside, self._process.pid)
        self.command("cancel")
        if self.trace.cut_during == "run" and await self.until(("ended",), self.limits.cancel):
            self.trace.ended_by = "cancel"
        else:
            self.trace.ended_by = "kill"

    async def _end(self) -> None:
        """End the process and all that it started, and gather the rest of what it said."""
        relatives = family(self._process.pid, self._mark)
        if self.exited.done() and not self.exited.cancelled():
            self.trace.left_processes = [command_line(process) for process in relatives]
        for process in relatives:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if not self.exited.done():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self.trace.exit_status = await asyncio.to_thread(self._process.wait)
        await asyncio.gather(self.exited, return_exceptions=True)
        ends = [asyncio.ensure_future(reader.ended.wait()) for reader in self._readers]
        if ends:
            await asyncio.wait(ends, timeout=self.limits.drain)
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        for transport in self._transports:
            transport.close()
        os.close(self._control)


def family(leader: int, mark: str) -> list[psutil.Process]:
    """What the child started, without the child itself.

    A process that has lost its parent and made a session of its own can still be told by the mark in its environment.
    """
    found: dict[int, psutil.Process] = {}
    with contextlib.suppress(psutil.Error):
        found |= {process.pid: process for process in psutil.Process(leader).children(recursive=True)}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != leader and (os.getsid(process.pid) == leader or process.environ().get(MARK) == mark):
                found[process.pid] = process
    return [process for process in found.values() if _alive(process)]


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def command_line(process: psutil.Process) -> str:
    """How a process was started, or its name where that can't be read."""
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())[:200] or process.name()
    return f"process {process.pid}"
