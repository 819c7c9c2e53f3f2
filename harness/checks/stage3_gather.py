"""What stage 3 gathers: many runs at once in one process, every call, and a bare client in their place."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.agent.frames import frame_at
from harness.agent.many_runner import Many, ManyChild, Target, run_many
from harness.agent.runner import Limits, Server, Trace
from harness.agent.source import AgentSource
from harness.checks import bare_client, stage3_child
from harness.checks.bare_client import Bare
from harness.checks.tapes import Tapes, outcome_of
from harness.openai_api.calls import Call
from harness.openai_api.http import Endpoint
from harness.openai_api.incoming import Incoming
from harness.openai_api.observer import RUN_HEADER
from harness.openai_api.proxy import RecordingProxy
from harness.openai_api.recording.matching import Miss
from harness.openai_api.recording.store import Recording, Writer
from harness.openai_api.simulated.process import Serving, serving
from harness.openai_api.simulated.server import Behaviour, Met

SETTLE_SECONDS = 10.0
CHILD = "harness.checks.stage3_child"
FIRST, BARE = -1, -2


@dataclass
class Load:
    """All that was seen.

    Args:
        trace: of the process.
        runs, calls: rows as they were said, of all runs but the first.
        first: the row of the first run, made alone.
        first_calls: its calls, as the process saw them.
        cuts: where a run waited when it was cut, by run.
        course: the last that was said of stalls, waits, profile and course.
        held: what the process held, before and after.
        clients: HTTP clients that the runs made.
        closed_by: run that closed the shared client.
        bare: what the bare client did; None where it had nothing to do.
        outside: calls don't go through httpx in the agent's process; they were seen by a proxy.
        refused: calls with a key that isn't the runs' own.
        server: what the simulated server did; None with a real one.
        began: time of day of the first of many runs.
        interrupted: by Ctrl-C.
        alone: seconds of the first call, with nothing else going on.
        hidden: calls that only the simulated server saw.
        missed: calls that the replayed recording doesn't have.
    """

    trace: Trace = field(default_factory=Trace)
    runs: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    first: dict[str, Any] | None = None
    first_calls: list[dict[str, Any]] = field(default_factory=list)
    cuts: dict[int, dict[str, Any]] = field(default_factory=dict)
    course: dict[str, Any] = field(default_factory=dict)
    held: list[dict[str, Any]] = field(default_factory=list)
    clients: list[dict[str, Any]] = field(default_factory=list)
    closed_by: int | None = None
    bare: Bare | None = None
    outside: bool = False
    refused: int = 0
    server: Serving | None = None
    began: float = 0.0
    interrupted: bool = False
    alone: float | None = None
    missed: list[Miss] = field(default_factory=list)

    @property
    def met(self) -> list[Met]:
        """Faults that calls have met."""
        return self.server.met if self.server is not None else []


@dataclass(frozen=True)
class Setup:
    """What to gather.

    Args:
        behaviour: of the simulated server; None for the real one at ``endpoint``.
        writer: records the calls of all runs, which then go through the proxy.
        recording: answers in the server's place.
        bare_seconds: the longest that the bare client may take.
    """

    agent: AgentSource
    many: Many
    endpoint: Endpoint
    model: str
    limits: Limits
    behaviour: Behaviour | None = None
    writer: Writer | None = None
    recording: Recording | None = None
    bare_seconds: float = 60.0
    cwd: Path | None = None


async def gather(setup: Setup, *, tell: Callable[[Load, Mapping[str, Any]], None]) -> Load:
    """Run the agent many times, then the bare client.

    Args:
        setup: what to do.
        tell: called twice a second with what is known so far.
    """
    load = Load()
    stop = asyncio.Event()
    runs = len(setup.many.samples) * setup.many.group_size
    with tempfile.TemporaryDirectory(prefix="drydock-") as folder, _interruptible(load, stop):
        async with _server(setup, range(BARE, runs)) as (endpoint, server):
            load.server = server
            bodies = Path(folder, "bodies.jsonl")
            await _run(setup, load, endpoint, bodies, runs, stop, tell)
            if (
                setup.recording is None
                and not stop.is_set()
                and bodies.exists()
                and bodies.stat().st_size
                and load.calls
            ):
                await _bare(setup, load, endpoint, bodies, stop, tell)
    return load


@asynccontextmanager
async def _server(setup: Setup, runs: range) -> AsyncIterator[tuple[Endpoint, Serving | None]]:
    """The server that all talk to."""
    if setup.behaviour is None:
        yield setup.endpoint, None
        return
    async with serving(setup.behaviour, runs) as server:
        yield Endpoint.parse(server.base_url, server.keys[FIRST]), server


async def _run(
    setup: Setup,
    load: Load,
    endpoint: Endpoint,
    bodies: Path,
    runs: int,
    stop: asyncio.Event,
    tell: Callable[[Load, Mapping[str, Any]], None],
) -> None:
    if setup.recording is not None:
        await _replay(setup, setup.recording, load, runs, stop, tell)
        return
    proxied: list[Call] = []
    take = _Taker(load, setup, tell)
    proxy = _Proxy(endpoint, take=proxied.append, recorder=setup.writer)
    async with proxy:
        server = Server(proxy.base_url, proxy.root, proxy.open_run(FIRST), setup.model)

        async def decide(child: ManyChild) -> Target:
            # The run's end may be told before the proxy has put its last call away.
            await proxy.settled(SETTLE_SECONDS)
            made = [call for call in proxied if call.is_generation]
            load.alone = next((call.seconds for call in made if call.ok), _seconds(load.first_calls))
            load.outside = len(made) > sum(row["generation"] for row in load.first_calls)
            proxied.clear()
            if load.outside or setup.writer is not None:
                proxy.told = child.say_outside
                if setup.writer is not None:
                    for run in range(runs):
                        group = run // setup.many.group_size
                        setup.writer.begin_run(run, setup.many.samples[group], group=group)
                keys = {run: proxy.open_run(run) for run in range(runs)}
                return Target(proxy.base_url, {**keys, FIRST: server.api_key})
            if load.server is not None:
                return Target(endpoint.base_url, load.server.keys)
            return Target(endpoint.base_url, {FIRST: endpoint.api_key})

        environment = {
            stage3_child.BODIES: str(bodies),
            stage3_child.OURS: f"{endpoint.origin} {proxy.origin}",
        }
        load.trace = await run_many(
            setup.agent,
            setup.many,
            server,
            program=CHILD,
            limits=setup.limits,
            take=take,
            decide=decide,
            stop=stop,
            environment=environment,
            cwd=setup.cwd,
        )
        load.refused = proxy.refused
    if load.outside:
        load.calls += [_row(call) for call in proxied if call.is_generation]


async def _replay(
    setup: Setup,
    recording: Recording,
    load: Load,
    runs: int,
    stop: asyncio.Event,
    tell: Callable[[Load, Mapping[str, Any]], None],
) -> None:
    """The same in front of a recording."""
    calls: list[Call] = []
    tapes = Tapes(recording=recording)
    async with tapes.port(setup.endpoint, calls.append, load.missed.append) as port:
        server = Server(port.base_url, port.root, port.open_run(FIRST), setup.model)

        async def decide(child: ManyChild) -> Target:
            # What the process sees of itself isn't counted here, too: the port answers recordings of stage 4.
            made = sum(call.is_generation for call in calls)
            load.outside = made > sum(row["generation"] for row in load.first_calls)
            calls.clear()
            load.missed.clear()
            if load.outside:
                child.say_outside(0)
            return Target(port.base_url, {**{run: port.open_run(run) for run in range(runs)}, FIRST: server.api_key})

        load.trace = await run_many(
            setup.agent,
            setup.many,
            server,
            program=CHILD,
            limits=setup.limits,
            take=_Taker(load, setup, tell),
            decide=decide,
            stop=stop,
            environment={**tapes.environment, stage3_child.OURS: port.origin},
            cwd=setup.cwd,
        )
        load.refused = port.refused
    inside = [event["miss"] for event in load.trace.events if event["event"] == "not-recorded"]
    load.missed += [Miss.from_dict(miss) for miss in inside if miss["run"] >= 0]
    if load.outside:
        load.calls += [_row(call) for call in calls if call.is_generation]


def _seconds(rows: list[dict[str, Any]]) -> float | None:
    """How long the first answered call took, as the process itself saw it."""
    answered = (row["ended"] - row["sent"] for row in rows if row["status"] == 200 and row["sent"] is not None)
    return next(answered, None)


class _Proxy(RecordingProxy):
    """The proxy of the first run, and of all of them where their calls can't be seen from inside.

    It tells how many calls are on their way, and to a simulated server of ours whose they are.
    """

    told: Callable[[int], None] | None = None
    _under_way = 0

    async def respond(self, incoming: Incoming, reader: Any, connection: Any) -> None:
        marked = dataclasses.replace(
            incoming, headers=[*incoming.headers, (RUN_HEADER.encode(), str(incoming.run).encode())]
        )
        self._change(1)
        try:
            await super().respond(marked, reader, connection)
        finally:
            self._change(-1)

    def _change(self, by: int) -> None:
        self._under_way += by
        if self.told is not None:
            self.told(self._under_way)


class _Taker:
    """Sorts what the process says."""

    def __init__(self, load: Load, setup: Setup, tell: Callable[[Load, Mapping[str, Any]], None]) -> None:
        self._load, self._writer, self._tell = load, setup.writer, tell

    def __call__(self, event: dict[str, Any]) -> None:
        load, name = self._load, event.pop("event") if event["event"] in _ROWS else event["event"]
        if name == "call":
            (load.first_calls if event["run"] == FIRST else load.calls).append(event)
        elif name == "run":
            if event["run"] == FIRST:
                load.first = event
            else:
                load.runs.append(event)
                if self._writer is not None:
                    self._writer.end_run(event["run"], outcome_of(event), event.get("reward"))
        elif name == "cut":
            load.cuts[event["run"]] = event
        elif name == "course":
            load.course = event
        elif name == "began":
            load.began = event["at"]
            load.held.append(event["held"])
        elif name == "held":
            load.held.append(event["held"])
            load.clients = [_with_source(place) for place in event["clients"]]
            load.closed_by = event["shared_client_closed_by"]
        elif name == "tick":
            self._tell(load, event)


def _with_source(place: dict[str, Any]) -> dict[str, Any]:
    return {**place, "source": frame_at(place["file"], place["line"], "").source if place["file"] else ""}


_ROWS = ("call", "run", "course", "tick")


def _row(call: Call) -> dict[str, Any]:
    """A call that the proxy saw, in the shape of one seen inside."""
    reply = call.reply
    return {
        "run": call.run,
        "number": call.number,
        "path": call.path,
        "started": call.started,
        "sent": call.started,
        "ended": call.started + call.seconds,
        "first_token": call.first_token_seconds,
        "status": call.status,
        "failure": call.failure,
        "finish_reason": reply.finish_reason if reply else None,
        "prompt_tokens": reply.prompt_tokens if reply else None,
        "completion_tokens": reply.completion_tokens if reply else None,
        "sync": False,
        "thread": "",
        "elsewhere": "",
        "reply_id": reply.id if reply else "",
        "generation": True,
    }


async def _bare(
    setup: Setup,
    load: Load,
    endpoint: Endpoint,
    bodies: Path,
    stop: asyncio.Event,
    tell: Callable[[Load, Mapping[str, Any]], None],
) -> None:
    wall = max((row["ended"] for row in load.calls), default=1.0)
    key = load.server.keys[BARE] if load.server is not None else endpoint.api_key
    job = bare_client.Job(
        endpoint.base_url,
        key,
        str(bodies),
        setup.many.in_flight,
        len(load.calls),
        max(5.0, min(setup.bare_seconds, wall)),
    )
    last = time.monotonic()

    def told(done: int) -> None:
        nonlocal last
        if time.monotonic() - last > 0.5:
            last = time.monotonic()
            tell(load, {"bare": done})

    repeating = asyncio.ensure_future(bare_client.repeat(job, tell=told))
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait({repeating, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not repeating.done():
        repeating.cancel()
        await asyncio.gather(repeating, return_exceptions=True)
        return
    load.bare = repeating.result()


@contextmanager
def _interruptible(load: Load, stop: asyncio.Event) -> Iterator[None]:
    """Ctrl-C ends the gathering, and what was gathered stands."""
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        load.interrupted = True
        stop.set()

    try:
        loop.add_signal_handler(signal.SIGINT, interrupt)
    except (NotImplementedError, RuntimeError, ValueError):
        yield  # not in the main thread: whoever runs us there handles it
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
