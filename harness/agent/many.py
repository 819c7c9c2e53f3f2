"""Many runs of one agent at once in one event loop, as a rollout worker has them; runs in the child.

First one run alone: it imports what is imported late, opens what is opened once, and tells by which way the agent's
calls go. Then the parent says ``go``, and all the others follow, never more of them at once than asked for.
Every run is a task with a context of its own. One agent object serves all, and one HTTP client, as in AReaL's workers.

Events: ``first`` (the run alone has ended), ``began``, ``run`` (one has ended), ``tick`` (twice a second),
``course`` (now and then: stalls, waits, profile so far), ``held`` (what the process holds), ``finished``.
Commands beside those of ``child``: ``go {json}``, and ``outside N`` (calls on their way that no hook in here can see).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.agent import awaiting, holdings, rewards
from harness.agent.child import Channel, Running, Watcher, described, shared_client
from harness.agent.loop_watch import SHARE, LoopWatch

FIRST = -1
# How often the limit is looked at, at the most and as a part of it, and how long a cancelled run may take to end.
POLICE, PART, HEED = 1.0, 0.05, 3.0
# Seconds between two accounts of the loop, where a process that dies leaves the last; more where one takes long.
COURSE = 5.0
# A run that goes on calling without end is cut at this many calls; no agent that trains comes near it.
MAX_CALLS = 2000


class ManyWatcher(Watcher, Protocol):
    """What sees the calls of all runs."""

    def zero(self, began: float) -> None:
        """Times count from here."""

    def state(self, run: int) -> str:
        """``model`` with a call on its way, ``connection`` where it waits for one of its client's, else nothing."""

    def calls(self, run: int) -> int:
        """Calls that the run has begun."""

    def last_answer(self) -> float:
        """When the server last answered anybody, on the monotonic clock."""

    def last_end(self, run: int) -> float:
        """When a call of that run last ended; 0 where none has."""

    def clients(self) -> list[dict[str, Any]]:
        """HTTP clients by the place that made them."""

    def open_clients(self) -> int:
        """HTTP clients that are open."""


@dataclass
class Active:
    """A run under way."""

    task: asyncio.Task[None]
    coroutine: Any
    started: float
    own: float = 0.0
    looked: float = 0.0
    cut: bool = False
    cut_at: float = 0.0


@dataclass
class Job:
    """What the parent asks for.

    Args:
        samples: one a group.
        timeout: seconds that a run may stand still or work for itself.
        first_key, first_url: where the first run goes.
    """

    samples: list[Any]
    group_size: int
    in_flight: int
    timeout: float
    first_key: str
    first_url: str


@dataclass
class Go:
    """Where all but the first run go."""

    base_url: str
    keys: Mapping[int, str] = field(repr=False)

    def key(self, run: int) -> str:
        """The key of a run."""
        return self.keys.get(run, self.keys.get(FIRST, ""))


async def run_many(job: Mapping[str, Any], agent: Any, channel: Channel, running: Running, watcher: Any) -> None:
    """The body of the child: one run alone, then all others."""
    await Many(Job(**job["many"]), agent, channel, running, watcher).run()


class Many:
    """All runs of one process."""

    def __init__(self, job: Job, agent: Any, channel: Channel, running: Running, watcher: ManyWatcher) -> None:
        self._job, self._agent, self._channel, self._running, self._watcher = job, agent, channel, running, watcher
        self._process = os.getpid()
        self._active: dict[int, Active] = {}
        self._began = time.monotonic()
        self._done = 0
        self._client: Any = None
        self._closed_by: int | None = None
        self._outside = 0
        self._outside_answer = 0.0
        self._next_course = 0.0
        self._ours: set[asyncio.Task[Any]] = set()
        self._url, self._key = job.first_url, {FIRST: job.first_key}

    async def run(self) -> None:
        """Do all of it."""
        loop = asyncio.get_running_loop()
        self._ours = asyncio.all_tasks()
        going = asyncio.Event()
        said: list[Go] = []

        def go(text: str) -> None:
            said.append(Go(**_with_numbers(json.loads(text))))
            loop.call_soon_threadsafe(going.set)

        self._running.commands["go"] = go
        self._running.commands["outside"] = self._take_outside
        self._client = shared_client()
        await self._one_alone()
        await going.wait()
        self._go_to(said[0])
        self._began = time.monotonic()
        self._watcher.zero(self._began)
        before = holdings.count(self._ours, clients=self._watcher.open_clients())
        self._channel.say("began", at=time.time(), held=before)
        self._began = time.monotonic()
        self._watcher.zero(self._began)
        watch = LoopWatch(
            threading.current_thread(),
            self._began,
            runs=lambda: [(run, active.coroutine) for run, active in list(self._active.items())],
            state=self._watcher.state,
            done=lambda: self._done,
            tell=self._tell,
        )
        self._watch = watch
        self._next_course = self._began + COURSE
        watch.start()
        try:
            await self._all()
        finally:
            watch.stop()
            self._say_course(watch)
        await self._finish()

    def _go_to(self, go: Go) -> None:
        self._url, self._key = go.base_url, dict(go.keys)
        # For agents that look in the environment at each run, as AReaL's subprocess mode wants it.
        for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
            os.environ[name] = go.base_url
        os.environ["ANTHROPIC_BASE_URL"] = go.base_url.removesuffix("/v1")
        os.environ["OPENAI_API_KEY"] = os.environ["ANTHROPIC_API_KEY"] = go.key(FIRST)

    async def _one_alone(self) -> None:
        """The first run, with nothing else going on; whatever it does, the others get their turn."""
        self._channel.say("started")
        police = self._police_task()
        await self._start(FIRST)
        while FIRST in self._active:
            await asyncio.sleep(0.01)
        police.cancel()
        self._ours.discard(police)
        self._done = 0
        self._channel.say("first", shared_client_closed=bool(self._client is not None and self._client.is_closed))

    async def _all(self) -> None:
        police = self._police_task()
        runs = len(self._job.samples) * self._job.group_size
        limit = min(runs, self._job.in_flight)
        self._ended = asyncio.Event()
        for run in range(runs):
            while len(self._active) >= limit:
                self._ended.clear()
                await self._ended.wait()
            await self._start(run)
        while self._active:
            self._ended.clear()
            await self._ended.wait()
        police.cancel()

    def _police_task(self) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._police())
        self._ours.add(task)
        return task

    async def _start(self, run: int) -> None:
        coroutine = self._one(run)
        task = asyncio.ensure_future(coroutine)
        now = time.monotonic()
        self._active[run] = Active(task, coroutine, now, looked=now)

    async def _one(self, run: int) -> None:
        self._watcher.begin(run)
        sample = self._job.samples[max(run, 0) // self._job.group_size]
        key = self._key.get(run, self._key.get(FIRST, ""))
        started = time.monotonic()
        if run in self._active:
            self._active[run].started = started
        row: dict[str, Any]
        try:
            value = await self._agent.run(sample, base_url=self._url, api_key=key, http_client=self._client)
            row = {"outcome": "returned", "reward": rewards.describe(value).as_dict()}
        except BaseException as error:  # noqa: BLE001  # whatever the agent raises is the result
            outcome = "exit" if isinstance(error, SystemExit) else "raised"
            row = {"outcome": outcome, **described(error)}
        if os.getpid() != self._process:
            os._exit(0)  # a fork that the agent forgot: it must not go on in our loop's copy
        self._note_end(run, started, row)

    def _note_end(self, run: int, started: float, row: dict[str, Any]) -> None:
        active = self._active.pop(run, None)
        if active is None:
            return  # it was cut, didn't heed it, and has been written off
        if active.cut:
            row = {**row, "outcome": "cut"}
        if self._closed_by is None and self._client is not None and self._client.is_closed:
            self._closed_by = run
        self._done += 1
        self._say_run(run, started, time.monotonic(), row)

    def _say_run(self, run: int, started: float, ended: float, row: dict[str, Any]) -> None:
        self._channel.say("run", run=run, started=started - self._began, ended=ended - self._began, **row)
        if (ended_event := getattr(self, "_ended", None)) is not None:
            ended_event.set()

    # -- the limit

    async def _police(self) -> None:
        """Cut what has stood still, or worked for itself, for as long as the limit allows.

        Waiting for a server that goes on answering somebody doesn't count: a queue is the server's, not the agent's.
        """
        while True:
            await asyncio.sleep(min(POLICE, PART * self._job.timeout))
            now = time.monotonic()
            answered = max(self._watcher.last_answer(), self._outside_answer)
            for run, active in list(self._active.items()):
                if active.cut:
                    if now - active.cut_at > HEED:
                        self._write_off(run, active)
                    continue
                at_model = self._watcher.state(run) != "" or self._outside > 0
                served = at_model and now - max(answered, active.started) < self._job.timeout
                if not served:
                    active.own += now - max(active.looked, self._watcher.last_end(run) if not at_model else 0.0)
                active.looked = now
                still = at_model and not served
                if active.own >= self._job.timeout or still or self._watcher.calls(run) > MAX_CALLS:
                    self._cut(run, active, now)

    def _cut(self, run: int, active: Active, now: float) -> None:
        waiting = awaiting.look(active.coroutine)
        self._channel.say(
            "cut",
            run=run,
            frames=awaiting.describe(waiting.key),
            kind=self._watcher.state(run) or waiting.kind,
            calls=self._watcher.calls(run),
        )
        active.cut, active.cut_at = True, now
        active.task.cancel()

    def _write_off(self, run: int, active: Active) -> None:
        """A run that doesn't heed its cancelling: the others go on without it."""
        self._active.pop(run, None)
        self._done += 1
        self._say_run(run, active.started, time.monotonic(), {"outcome": "cut", "ignored": True})

    def _take_outside(self, text: str) -> None:
        self._outside = int(text)
        self._outside_answer = time.monotonic()

    # -- what is told

    def _tell(self, tick: dict[str, Any]) -> None:
        """In the watching thread, for describing stacks takes a while, and the loop is the agent's."""
        self._channel.say("tick", **tick)
        started, now = time.thread_time(), time.monotonic()
        if now >= self._next_course:
            self._say_course(self._watch)
            self._next_course = now + max(COURSE, (time.thread_time() - started) / SHARE)

    def _say_course(self, watch: LoopWatch) -> None:
        """All that was seen of the loop until now; a later one takes the place of an earlier."""
        seconds, key = watch.blocked()
        started = time.monotonic() - self._began - seconds
        now = {"started": started, "seconds": seconds, "key": key, "waiting": watch.asleep}
        stalls = sorted([*list(watch.stalls), *([now] if key else [])], key=lambda stall: -stall["seconds"])[:50]
        waits = sorted(list(watch.waits.items()), key=lambda item: -item[1].run_seconds)[:100]
        profile = sorted(list(watch.profile.items()), key=lambda item: -item[1])[:200]
        self._channel.say(
            "course",
            stalls=[{**_without(stall, "key", "parts"), "frames": awaiting.describe(stall["key"])} for stall in stalls],
            stall_count=watch.stall_count,
            stall_seconds=watch.stall_seconds,
            loop={
                "idle": watch.idle,
                "computing": watch.computing,
                "blocked": watch.blocking,
                "starved": watch.starved,
            },
            waits=[
                {"kind": kind, "frames": awaiting.describe(key), **dataclasses.asdict(waited)}
                for (kind, key), waited in waits
            ],
            profile=[
                {"frames": awaiting.describe(key), "seconds": spent, "slept": watch.slept.get(key, 0.0)}
                for key, spent in profile
            ],
            course=list(watch.course),
        )

    async def _finish(self) -> None:
        """Close what is ours, and count what is left."""
        closed_by_run = self._closed_by
        if self._client is not None and not self._client.is_closed:
            with contextlib.suppress(Exception):
                await self._client.aclose()
        clients = self._watcher.clients()
        # Connections that were closed just now leave the loop at its next turns.
        for _ in range(3):
            await asyncio.sleep(0)
        held = holdings.count(self._ours, clients=self._watcher.open_clients())
        self._channel.say("held", held=held, clients=clients, shared_client_closed_by=closed_by_run)
        self._channel.say("finished")


def _without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in names}


def _with_numbers(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "keys": {int(run): key for run, key in value["keys"].items()}}
