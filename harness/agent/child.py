"""The main program of the process in which an agent runs.

It is told what to do in one line of JSON on one pipe and says what happens in lines of JSON on another, each as it
happens: an agent may end the process at any moment, and what was said until then must stand. Standard output and
error belong to the agent.

Events, by their ``event``: ``loaded``, ``constructed``, ``unfit``, ``started``, ``returned``, ``raised``, ``inside``,
``left``, ``exiting``, ``stacks``, ``ended``, and what a watcher says (``call``). Commands that may follow the job:
``dump`` (say where everything waits) and ``cancel`` (cancel the run as a framework does on its time limit).
"""

from __future__ import annotations

import asyncio
import faulthandler
import importlib
import importlib.metadata
import inspect
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any, Protocol

from harness.agent import contract, frames, holdings, rewards, state
from harness.agent.loop_watch import LoopWatch
from harness.errors import without_descriptors

# Made once: hundreds of runs at once say thousands of things.
_ENCODER = json.JSONEncoder(default=repr)


class Channel:
    """Says what happens, one line of JSON an event; usable from any thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._process = os.getpid()

    def say(self, event: str, **details: Any) -> None:
        """Write one event. A parent that is gone is no reason to fail."""
        if os.getpid() != self._process:
            return  # a fork of the agent's own: its words would mix with ours
        line = _ENCODER.encode({"event": event, **details}).encode() + b"\n"
        with self._lock:
            try:
                while line:
                    line = line[os.write(self._descriptor, line) :]
            except OSError:
                pass


class Watcher(Protocol):
    """Sees what the agent does to the world; given by whoever starts the program."""

    def install(self) -> None: ...

    def begin(self, run: int) -> None:
        """What follows in this context belongs to that run."""

    def remove(self) -> None: ...


class Running:
    """What the watching thread needs to know of the main one."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.task: asyncio.Task[Any] | None = None
        self.main_thread = threading.get_ident()
        # Carried out where they come, in the watching thread: commands that a body of its own understands.
        self.commands: dict[str, Callable[[str], None]] = {}


Body = Callable[[Mapping[str, Any], Any, Channel, Running, Watcher], Awaitable[None]]
"""What is done with an agent once it is made: job, agent, channel, running, watcher."""


def main(watch: Callable[[Channel], Watcher], body: Body | None = None) -> None:
    """Read the job, run it, say how it went. The exit code means nothing; the events do.

    Args:
        watch: makes what watches the agent's doings and says them on the channel.
        body: what is done with the agent; by default one run.
    """
    channel = Channel(int(sys.argv[1]))
    commands = _lines(int(sys.argv[2]))
    job: dict[str, Any] = json.loads(next(commands))
    faulthandler.enable()
    running = Running()
    threading.Thread(target=_obey, args=(commands, channel, running), name="drydock-watch", daemon=True).start()
    _tell_of_exit(channel)
    sys.argv = [job["file"] or job["module"]]
    sys.path[:] = [*job["search"], *(place for place in sys.path if place and place not in job["search"])]
    # The agent may have a package of its own called harness; ours has been imported and needs its name no more.
    for name in [name for name in sys.modules if name.split(".")[0] == "harness"]:
        del sys.modules[name]
    _work(job, channel, running, watch(channel), body or _run)
    channel.say("ended")


def _work(job: dict[str, Any], channel: Channel, running: Running, watcher: Watcher, body: Body) -> None:
    watcher.install()
    try:
        agent_class = contract.load(job["module"], job["class"], job["file"])
        channel.say("loaded", module=agent_class.__module__, name=agent_class.__qualname__)
        agent = contract.construct(agent_class, job["arguments"])
        contract.hold_to_contract(agent)
        channel.say("constructed")
    except contract.Unfit as unfit:
        channel.say(
            "unfit",
            kind=unfit.kind,
            what=unfit.what,
            consequence=unfit.consequence,
            mend=unfit.mend,
            line=unfit.line,
        )
        return
    except BaseException as error:  # noqa: BLE001  # foreign code: SystemExit at import is as likely as ImportError
        say_raised(channel, error, during="import")
        return
    try:
        asyncio.run(_begin(body, job, agent, channel, running, watcher))
    except BaseException as error:  # noqa: BLE001  # sys.exit in a task of the agent's ends up here
        say_raised(channel, error, during="loop")
    finally:
        watcher.remove()


async def _begin(
    body: Body, job: Mapping[str, Any], agent: Any, channel: Channel, running: Running, watcher: Watcher
) -> None:
    running.loop = asyncio.get_running_loop()
    running.task = asyncio.current_task()
    await body(job, agent, channel, running, watcher)


async def _run(job: Mapping[str, Any], agent: Any, channel: Channel, running: Running, watcher: Watcher) -> None:
    client = shared_client()
    passed = {"base_url": job["base_url"], "api_key": job["api_key"], "http_client": client}
    run = job["run"]
    watcher.begin(run["index"])
    returns = ReturnLine(inspect.unwrap(type(agent).run).__code__)
    before = state.of(agent)
    watch = LoopWatch(threading.current_thread(), time.monotonic())
    watch.start()
    started, cpu = time.monotonic(), time.process_time()
    channel.say("started")
    try:
        with returns:
            value = await agent.run(run["data"], **passed)
        channel.say(
            "returned",
            seconds=time.monotonic() - started,
            cpu_seconds=time.process_time() - cpu,
            place=returns.place(),
            reward=rewards.describe(value).as_dict(),
        )
    except BaseException as error:  # noqa: BLE001  # whatever the agent raises is the result
        say_raised(channel, error, during="run", seconds=time.monotonic() - started, data=run["data"])
    finally:
        left = holdings.named_tasks({running.task})
        closed = bool(client is not None and client.is_closed)
        watch.stop()
        # Where a debugger has stopped the run, it says nothing of the agent.
        stalls = [] if "pydevd" in sys.modules else watch.parts()
        channel.say("inside", stalls=stalls, changed=state.changed(before, state.of(agent)))
        channel.say("left", tasks=left, threads=threads_left(), shared_client_closed=closed)
        if client is not None and not closed:
            await client.aclose()


def shared_client() -> Any:
    """A client of the kind that the agent's SDK takes, as AReaL shares one among all runs of a worker."""
    sdk = sys.modules.get("openai") or sys.modules.get("anthropic")
    if sdk is not None and hasattr(sdk, "DefaultAsyncHttpxClient"):
        return sdk.DefaultAsyncHttpxClient()
    # Not imported by the agent yet, and importing one takes a second: what it would be made of is enough.
    try:
        library = importlib.import_module(_http_library())
    except ImportError:
        return None
    limits = library.Limits(max_connections=1000, max_keepalive_connections=100)
    return library.AsyncClient(timeout=library.Timeout(600.0, connect=5.0), limits=limits, follow_redirects=True)


def _http_library() -> str:
    """The HTTP library on which the installed OpenAI SDK stands; it refuses the clients of any other."""
    try:
        needed = importlib.metadata.requires("openai") or []
    except importlib.metadata.PackageNotFoundError:
        needed = ["httpx2"]
    return "httpx2" if any(requirement.startswith("httpx2") for requirement in needed) else "httpx"


def threads_left() -> list[str]:
    """Threads that would keep the process from ending; those of asyncio's own pool end with the loop."""
    return [
        thread.name
        for thread in threading.enumerate()
        if not thread.daemon and thread is not threading.main_thread() and not thread.name.startswith("asyncio_")
    ]


class ReturnLine:
    """Notes the line at which a function returned, where no debugger is at work.

    A trace function that declines every frame but one costs a fraction of a microsecond for each call of a Python
    function; one run beside a language model doesn't notice. A debugger that begins during the run takes over.
    """

    def __init__(self, code: CodeType) -> None:
        self.line: int | None = None
        self._code = code
        self._active = False
        self._frame: FrameType | None = None
        self._settrace = sys.settrace

    def place(self) -> dict[str, Any] | None:
        """Where it returned; None where a debugger was at work."""
        if self.line is None:
            return None
        return frames.frame_at(self._code.co_filename, self.line, self._code.co_name).as_dict()

    def __enter__(self) -> ReturnLine:
        if sys.gettrace() is None:
            self._settrace(self._calls)
            self._active = True
            sys.settrace = self._give_way
        return self

    def __exit__(self, *_: object) -> None:
        if self._active:
            self._give_way(None)

    def _give_way(self, function: Any) -> None:
        """Somebody else traces from here on, and wants the lines that are of no interest to us."""
        sys.settrace = self._settrace
        self._active = False
        if self._frame is not None:
            self._frame.f_trace_lines = True
            self._frame = None
        if function is not None:
            self.line = None
        self._settrace(function)

    def _calls(self, frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG002
        if frame.f_code is not self._code:
            return None
        frame.f_trace_lines = False
        self._frame = frame
        return self._within

    def _within(self, frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG002
        if event == "return":  # also at each await; the last one is the return
            self.line = frame.f_lineno
        return self._within


def _lines(descriptor: int) -> Iterator[bytes]:
    """Lines of a pipe until it is closed; read without a file object, whose lock would hold up the process's end."""
    pending = b""
    while chunk := os.read(descriptor, 65536):
        *lines, pending = (pending + chunk).split(b"\n")
        yield from lines


def _obey(commands: Iterator[bytes], channel: Channel, running: Running) -> None:
    """Carry out commands until the parent closes the pipe."""
    for command in commands:
        if command == b"dump":
            channel.say("stacks", **frames.snapshot(running.loop, running.main_thread))
        elif command == b"cancel" and running.loop is not None and running.task is not None:
            running.loop.call_soon_threadsafe(running.task.cancel)
        else:
            name, _, argument = command.decode().partition(" ")
            if (carry_out := running.commands.get(name)) is not None:
                carry_out(argument)
    # The parent has ended us before it closes the pipe, or was killed itself: then nobody else ends what we started.
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)


def _tell_of_exit(channel: Channel) -> None:
    """Have ``os._exit`` say from where it was called: it leaves no other trace."""
    leave = os._exit

    def told_exit(status: int) -> None:
        stack = [frame.as_dict() for frame in frames.of_frame(sys._getframe(1))]
        channel.say("exiting", status=status, frames=stack)
        leave(status)

    os._exit = told_exit  # type: ignore[assignment]


def say_raised(channel: Channel, error: BaseException, *, during: str, seconds: float = 0.0, data: Any = None) -> None:
    """Say what an agent's code raised.

    Args:
        data: the run's sample: where it lacks the key that was looked for, those that it has are said.
    """
    has = {}
    if isinstance(error, KeyError) and isinstance(data, dict) and error.args and error.args[0] not in data:
        has = {"sample_keys": [str(key) for key in data][:20]}
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    channel.say("raised", during=during, seconds=seconds, **described(error), **has, traceback=trace[-20000:])


def described(error: BaseException) -> dict[str, Any]:
    """Type, message and frames of an exception; never raises."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001  # a foreign __str__ may raise anything
        message = "<its text can't be had: __str__ raises>"
    if (system := without_descriptors(error)) and system not in message:
        message = f"{message[:1900]} ({system})"
    return {
        "type": _name(type(error)),
        "message": message[:2000],
        "exit_code": error.code if isinstance(error, SystemExit) else None,
        "frames": [frame.as_dict() for frame in frames.of_traceback(error.__traceback__)],
    }


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
