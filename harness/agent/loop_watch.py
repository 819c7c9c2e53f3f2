"""Watches an event loop from a thread beside it: what blocks it, what it does, what runs wait for; in the child.

Every few milliseconds the thread looks at the loop's own frame. A callback that is still the same one at the next look
keeps everything else waiting, and its stack says where it is: computing, or blocked in a system call. A look that
comes late itself means that the interpreter's lock was held. On a machine that is too busy the loop's thread may just
have got no processor; its CPU time and its state tell that apart, and it doesn't count.
"""

from __future__ import annotations

import resource
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from harness.agent import awaiting
from harness.agent.awaiting import Key

LOOK = 0.02
# A callback of the loop that lasts longer is counted as blocking it, and beyond the second figure told one by one.
BLOCKS = 0.05
STALL = 0.1
KEPT_STALLS = 200
KEPT_STACKS = 3000
KEPT_PARTS = 50
# Looking at all runs may take this part of the time.
SHARE = 0.01

State = Callable[[int], str]
"""What a run's calls say: ``model``, ``connection``, or nothing where it has no call under way."""


@dataclass
class Waited:
    """Time that runs have spent at one place."""

    run_seconds: float = 0.0
    most: int = 0
    detail: str = ""


class LoopWatch:
    """Looks until it is stopped.

    Args:
        thread: of the loop.
        began: zero of all times, on the monotonic clock.
        runs: index and coroutine of each run under way.
        state: what a run's calls say.
        counts: runs that are done.
        tell: called every half second with what a person wants to see.
    """

    def __init__(
        self,
        thread: threading.Thread,
        began: float,
        *,
        runs: Callable[[], Iterable[tuple[int, Any]]] = tuple,
        state: State = lambda _run: "",
        done: Callable[[], int] = lambda: 0,
        tell: Callable[[dict[str, Any]], None] = lambda _tick: None,
    ) -> None:
        self._ident, self._native = thread.ident, thread.native_id
        self._began, self._runs, self._state, self._done, self._tell = began, runs, state, done, tell
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._main, name="drydock-loop-watch", daemon=True)
        self._clock = _cpu_clock(thread)
        self._callback: FrameType | None = None
        self._since = self._last = time.monotonic()
        self._cpu = self._clock()
        self._current: dict[Key, float] = {}
        self._slept: dict[Key, float] = {}
        self._waiting = self._counted = 0.0
        self._held = False
        self._next_runs = self._next_tell = 0.0
        self._last_runs = time.monotonic()
        self.stalls: list[dict[str, Any]] = []
        self.stall_count = 0
        self.stall_seconds = 0.0
        # What the loop's thread did all the time; starved: it could have gone on, and got no processor.
        self.idle = self.computing = self.blocking = self.starved = 0.0
        self.profile: dict[Key, float] = {}
        # Of that, asleep in a system call.
        self.slept: dict[Key, float] = {}
        self.waits: dict[tuple[str, Key], Waited] = {}
        self.course: list[dict[str, Any]] = []

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; what was seen stands."""
        self._stopped.set()
        self._thread.join(5)
        self._close()

    def parts(self) -> list[dict[str, Any]]:
        """Where stalls were spent: at each stack the seconds asleep in a system call, and those computing."""
        spent: dict[tuple[Key, bool], float] = {}
        for stall in list(self.stalls):
            for key, seconds, slept in stall["parts"]:
                for waiting, part in ((True, slept), (False, seconds - slept)):
                    if part > 0:
                        spent[key, waiting] = spent.get((key, waiting), 0.0) + part
        longest = sorted(spent.items(), key=lambda item: -item[1])[:KEPT_STALLS]
        return [
            {"seconds": seconds, "waiting": waiting, "frames": awaiting.describe(key)}
            for (key, waiting), seconds in longest
        ]

    def blocked(self) -> tuple[float, Key]:
        """For how long the present callback has kept the loop, and where it is."""
        if self._callback is None or not self._current:
            return 0.0, ()
        return self._counted, max(self._current, key=lambda key: self._current[key])

    @property
    def asleep(self) -> bool:
        """Whether the present callback has spent most of its time asleep in a system call."""
        return self._waiting > self._counted / 2

    def _main(self) -> None:
        while not self._stopped.wait(LOOK):
            now = time.monotonic()
            self._look(now)
            if now >= self._next_runs:
                self._look_at_runs(now)
            if now >= self._next_tell:
                self._next_tell = now + 0.5
                seconds, key = self.blocked()
                here = self.course[-1] if self.course else {"active": 0, "at_model": 0, "queued": 0}
                self._tell({**here, "done": self._done(), "blocked": seconds, "stack": awaiting.describe(key)})

    def _look(self, now: float) -> None:
        passed, self._last = now - self._last, now
        cpu = self._clock()
        used, self._cpu = min(cpu - self._cpu, passed), cpu
        callback, key = _callback_of(sys._current_frames().get(self._ident or 0))
        same = callback is not None and callback is self._callback
        if not same:
            self._close()
            self._callback, self._since = callback, now
        if callback is None:
            self.idle += passed - used
            self.computing += used
            return
        sleeping = used < 0.2 * passed and self._is_sleeping()
        self.computing += used
        if sleeping:
            self.blocking += passed - used
        else:
            self.starved += passed - used
        if same:
            self._count(key, passed if sleeping else used, waiting=sleeping)
        elif passed > LOOK + 0.08 and used > 0.5 * passed:
            # Nobody could look while the interpreter's lock was held; it is let go where the call that held it ends.
            self._since, self._held = now - used, True
            self._count(key, used, waiting=False)
        else:
            self._note(key, used)

    def _count(self, key: Key, seconds: float, *, waiting: bool) -> None:
        self._counted += seconds
        if waiting:
            self._waiting += seconds
            self._slept[key] = self._slept.get(key, 0.0) + seconds
            if key in self.slept or len(self.slept) < KEPT_STACKS:
                self.slept[key] = self.slept.get(key, 0.0) + seconds
        self._current[key] = self._current.get(key, 0.0) + seconds
        self._note(key, seconds)

    def _note(self, key: Key, seconds: float) -> None:
        if key in self.profile or len(self.profile) < KEPT_STACKS:
            self.profile[key] = self.profile.get(key, 0.0) + seconds

    def _close(self) -> None:
        """The present callback has come to its end."""
        if self._counted >= BLOCKS:
            self.stall_seconds += self._counted
        if self._counted >= STALL:
            self.stall_count += 1
            self.stalls.append(
                {
                    "started": self._since - self._began,
                    "seconds": self._counted,
                    "key": max(self._current, key=lambda key: self._current[key]),
                    "waiting": self._waiting > self._counted / 2,
                    "held_lock": self._held,
                    "parts": [(key, spent, self._slept.get(key, 0.0)) for key, spent in self._current.items()][
                        :KEPT_PARTS
                    ],
                }
            )
            if len(self.stalls) > 2 * KEPT_STALLS:
                self.stalls = sorted(self.stalls, key=lambda stall: -stall["seconds"])[:KEPT_STALLS]
        self._callback, self._current, self._slept = None, {}, {}
        self._counted, self._waiting, self._held = 0.0, 0.0, False

    def _is_sleeping(self) -> bool:
        try:
            with open(f"/proc/self/task/{self._native}/stat", "rb", buffering=0) as file:
                text = file.read(1024)
        except OSError:
            return True
        return text.rpartition(b") ")[2][:1] in (b"S", b"D")

    def _look_at_runs(self, now: float) -> None:
        started = time.thread_time()
        weight, self._last_runs = now - self._last_runs, now
        seen: dict[tuple[str, Key], int] = {}
        details: dict[tuple[str, Key], str] = {}
        active = at_model = queued = 0
        for run, coroutine in self._runs():
            active += 1
            kind = self._state(run)
            if kind == "model":
                at_model += 1
                seen["model", ()] = seen.get(("model", ()), 0) + 1
                continue
            waiting = awaiting.look(coroutine)
            kind = kind or waiting.kind
            queued += kind in QUEUED
            place = (kind, waiting.key)
            seen[place] = seen.get(place, 0) + 1
            details[place] = waiting.detail
        for place, count in seen.items():
            waited = self.waits.get(place)
            if waited is None:
                waited = Waited()
                if len(self.waits) < KEPT_STACKS:
                    self.waits[place] = waited
            waited.run_seconds += count * weight
            waited.most = max(waited.most, count)
            waited.detail = details.get(place, "") or waited.detail
        self.course.append(
            {
                "t": now - self._began,
                "active": active,
                "at_model": at_model,
                "queued": queued,
                "done": self._done(),
                "rss": rss(),
            }
        )
        if len(self.course) > 4000:
            del self.course[::2]
        took = time.thread_time() - started
        self._next_runs = now + max(LOOK, took / SHARE)


# Waits in which a run is not at work in any sense: it stands in line.
QUEUED = ("connection", "loop", "lock", "semaphore", "queue", "condition", "thread")


def _callback_of(frame: FrameType | None) -> tuple[FrameType | None, Key]:
    """The frame by which the loop's present callback is known, and the stack above it; None where the loop is idle."""
    stack: list[FrameType] = []
    while frame is not None:
        stack.append(frame)
        frame = frame.f_back
    stack.reverse()
    for number, item in enumerate(stack):
        code = item.f_code
        if code.co_name == "_run" and code.co_filename.endswith("asyncio/events.py"):
            return item, tuple((f.f_code, f.f_lineno) for f in stack[number + 1 :])
    # A loop written in C has no such frame: what lies above Python's own way into it is the callback.
    inside = [
        number
        for number, item in enumerate(stack)
        if item.f_code.co_name in ("run_until_complete", "run_forever", "run") and "asyncio" in item.f_code.co_filename
    ]
    if not inside or any(item.f_code.co_name == "_run_once" for item in stack):
        return None, ()
    above = stack[inside[-1] + 1 :]
    return (above[0], tuple((f.f_code, f.f_lineno) for f in above)) if above else (None, ())


def _cpu_clock(thread: threading.Thread) -> Callable[[], float]:
    """CPU seconds of a thread; where the system has no such clock, wall time, which takes all of it for computing."""
    try:
        clock = time.pthread_getcpuclockid(thread.ident or 0)
    except (AttributeError, OSError):
        return time.monotonic
    return lambda: time.clock_gettime(clock)


def rss() -> int:
    """Bytes of memory that this process has; 0 where the system doesn't say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0
