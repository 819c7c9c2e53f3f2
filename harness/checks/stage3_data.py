"""What stage 3 keeps in the folder of a run, beside ``result.json``: the shape of its raw data.

All times are seconds since the first run began; in-process clocks are monotonic. In ``stage3/``:

=================  ==============================================================================
``runs.jsonl``     a ``RunRow`` a line, in the order in which the runs ended
``calls.jsonl``    a ``CallRow`` a line, in the order in which the calls ended
``bare.jsonl``     the same for the bare client that repeats the calls; ``run`` is then a counter
``load.json``      one ``LoadData``: what was asked, stalls, waits, profile, course, resources
``stdout.txt`` …   what the agent printed: its beginning and its end
=================  ==============================================================================

A file that has nothing to say is absent. ``StageResult.figures`` of stage 3 holds the summary (``Figures``).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Outcome = Literal["returned", "raised", "exit", "cut", "lost"]
"""returned: with whatever reward. raised: an exception. exit: sys.exit within the run. cut: not done after TIMEOUT.
lost: under way when its process ended."""

WaitKind = Literal[
    "model",
    "connection",
    "loop",
    "lock",
    "semaphore",
    "condition",
    "event",
    "queue",
    "thread",
    "process",
    "sleep",
    "socket",
    "other",
]
"""What a run waits for. model: an answer of the server. connection: a free connection of its HTTP client. loop: its
turn in the event loop. lock … queue: that thing of asyncio's. thread, process: a place in a pool, or its result."""


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True)


class RunRow(_Row):
    """One run of the agent."""

    run: int = Field(description="index, from 0")
    group: int = Field(description="runs of one group work on the same sample")
    line: int = Field(description="line of the sample in the data file")
    started: float
    ended: float | None = Field(default=None, description="None for a run that was lost")
    outcome: Outcome
    error: str = Field(default="", description="type of the exception")
    message: str = Field(default="", description="its text, cut")
    file: str = Field(default="", description="the user's innermost frame: where it raised, or waited when it was cut")
    at: int = Field(default=0, description="line in that file")
    reward: float | None = Field(default=None, description="as a number; None for what is no finite number")
    reward_type: str = Field(default="", description="type of what was returned")
    reward_shown: str = Field(default="", description="what was returned, as text")
    reward_problem: str = Field(default="", description="of a dict of rewards: what no framework takes")
    calls: int = 0
    failed_calls: int = Field(default=0, description="calls without a whole answer of status < 400; retries count")
    model_seconds: float = Field(default=0.0, description="with at least one call on its way to the model")
    queued_seconds: float = Field(default=0.0, description="with calls that wait for a connection of the client")
    own_seconds: float = Field(default=0.0, description="the rest: whatever the agent itself does or waits for")
    prompt_tokens: int = 0
    completion_tokens: int = 0
    faults: tuple[str, ...] = Field(default=(), description="faults of the simulated server that it met, in order")


class CallRow(_Row):
    """One call to the model."""

    run: int
    number: int = Field(description="counts from 1 within the run")
    path: str
    started: float = Field(description="the client was asked")
    sent: float | None = Field(default=None, description="a connection was had and the request went out")
    ended: float
    first_token: float | None = Field(default=None, description="seconds from the start to the first output, streams")
    status: int | None = None
    failure: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    sync: bool = Field(default=False, description="made by a blocking client")
    thread: str = Field(default="", description="name of the thread where that isn't the event loop's")
    elsewhere: str = Field(default="", description="origin, where that isn't the server that the agent was given")
    fault: str = Field(default="", description="what the simulated server did to it")

    @property
    def ok(self) -> bool:
        """Whether a whole answer came with a status of success."""
        return not self.failure and self.status is not None and self.status < 400


class StackFrame(_Row):
    """One frame."""

    file: str
    line: int
    function: str
    source: str = ""
    own: bool = Field(default=False, description="the user's, not a library's")


class Stack(_Row):
    """A stack and the time spent in it; a flame graph is drawn from these."""

    frames: tuple[StackFrame, ...] = Field(description="outermost first")
    seconds: float = Field(description="of the event loop's thread")
    slept: float = Field(default=0.0, description="of these, asleep in a system call")


class Stall(_Row):
    """The event loop ran one callback for so long that everything else stood still."""

    started: float
    seconds: float
    frames: tuple[StackFrame, ...] = Field(description="where it was for most of that time, outermost first")
    waiting: bool = Field(default=False, description="blocked in a system call rather than computing")
    held_lock: bool = Field(default=False, description="the interpreter's lock was held, so no thread could run")


class Wait(_Row):
    """Where runs waited, from samples of all runs' await stacks."""

    kind: WaitKind
    frames: tuple[StackFrame, ...] = Field(description="outermost first")
    run_seconds: float = Field(description="summed over runs")
    detail: str = Field(default="", description="of a lock or semaphore: what it is")
    most: int = Field(default=0, description="the most runs that were seen here at once")


class Course(_Row):
    """How many were at work at a time: for a chart of in-flight runs against those asked for."""

    t: float
    active: int = Field(description="runs that have begun and not ended")
    at_model: int = Field(description="of them: with a call on its way")
    queued: int = Field(description="of them: waiting for a connection, the loop's turn, a lock or a pool")
    done: int
    rss: int = Field(default=0, description="bytes of memory of the agent's process")


class Resources(_Row):
    """What the agent's process holds."""

    rss: int = 0
    objects: int = Field(default=0, description="Python objects that the garbage collector knows")
    descriptors: int = 0
    sockets: int = Field(default=0, description="of the descriptors")
    threads: tuple[str, ...] = ()
    tasks: tuple[str, ...] = Field(default=(), description="names of asyncio tasks, with where they wait")
    processes: int = 0
    clients: int = Field(default=0, description="HTTP clients that are open")


class ClientPlace(_Row):
    """HTTP clients that the agent made in its runs, by the place in its code."""

    file: str = ""
    line: int = 0
    source: str = ""
    made: int = 0
    never_closed: int = 0
    seconds: float = Field(default=0.0, description="of CPU time, to make all of them")
    limit: int | None = Field(default=None, description="connections that each allows at once")


class Asked(_Row):
    """What was asked for."""

    runs: int
    in_flight: int
    groups: int
    group_size: int
    server: Literal["real", "simulated"]
    model: str = Field(default="", description="its name, as runs are given it")
    latency: float = 0.0
    faults: str = ""
    seed: int = 0
    timeout: float = 0.0


class LoopTime(_Row):
    """What the event loop's thread did, in seconds of the whole time."""

    idle: float = Field(default=0.0, description="nothing was to be done")
    computing: float = 0.0
    blocked: float = Field(default=0.0, description="in a system call, within a callback")
    starved: float = Field(default=0.0, description="it could have gone on, and got no processor")


class LoadData(BaseModel):
    """``stage3/load.json``."""

    asked: Asked
    began: str = Field(default="", description="time of day of the first run, ISO 8601 with the zone")
    wall: float = Field(default=0.0, description="from the first run's start to the last one's end")
    alone: float | None = Field(default=None, description="seconds of the first call, made with nothing else going on")
    stalls: tuple[Stall, ...] = Field(default=(), description="the longest")
    stall_count: int = 0
    stall_seconds: float = 0.0
    loop: LoopTime = LoopTime()
    waits: tuple[Wait, ...] = Field(default=(), description="the most run-seconds first")
    profile: tuple[Stack, ...] = Field(default=(), description="what the loop's thread did while it wasn't idle")
    course: tuple[Course, ...] = ()
    before: Resources = Resources()
    after: Resources = Resources()
    clients: tuple[ClientPlace, ...] = ()
    faults: dict[str, int] = Field(default_factory=dict, description="faults that the simulated server made, by kind")


class Figures(BaseModel):
    """``StageResult.figures`` of stage 3."""

    runs: int = 0
    ended: int = 0
    failed: int = 0
    wall_seconds: float = 0.0
    runs_per_second: float = 0.0
    calls: int = 0
    calls_per_second: float = 0.0
    tokens_per_second: float | None = None
    latency: dict[str, float] = Field(default_factory=dict, description="of runs, seconds: p50, p95, p99, max")
    call_latency: dict[str, float] = Field(default_factory=dict, description="of calls once they are sent, seconds")
    in_flight_asked: int = 0
    in_flight_peak: int = 0
    in_flight_mean: float = 0.0
    bare: dict[str, Any] = Field(default_factory=dict, description="the bare client: calls, rate, latency")
    verdict: str = Field(default="", description="scales, serialises, slower or undecided")
    style: str = Field(default="", description="asyncio, threads, blocking, processes")
