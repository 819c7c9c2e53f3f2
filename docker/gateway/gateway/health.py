"""Healthy means that tokens come, from the moment of asking on.

A process that exists, a port that listens and a /health that answers 200 all outlive a hung model loop. So each check
demands fresh evidence within its deadline, and takes the first of:

- a token or a complete answer that passes through the gateway (a busy engine proves itself),
- a growing token counter of the engine's own (512 long answers without streaming show nothing for minutes),
- one token generated for the check itself (an idle engine).

One step of a busy CPU engine (the prompts of hundreds of requests at once) can take longer than the deadline. So an
engine with requests in flight that uses the processor is believed for some minutes; one that only waits is not.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Protocol

from gateway.progress import Progress

LOOK_EVERY = 0.1
COUNT_EVERY = 5  # looks; reading an engine's metrics costs it more than a look here
BUSY_GRACE = 0.5  # how long a busy engine may show progress by itself before it is asked for a token
COMPUTING_SHARE = 0.05  # of one core, over the time of the check
COMPUTING_LIMIT = 300.0  # how long computing without a token is believed; an endless loop computes too
STOPPED_FOR = 1.0  # a debugger may stop a process for an instant; this long is a stop


class EngineProcess(Protocol):
    """What is known of the engine's process."""

    @property
    def state(self) -> str:
        """'starting', 'ready', 'stopping' or 'gone (exit code N)'."""

    @property
    def pid(self) -> int | None:
        """Its process id, once it was started."""

    def stopped_process(self) -> int | None:
        """The id of a process of the engine that is stopped (SIGSTOP), if there is one."""

    def cpu_seconds(self) -> float:
        """Processor time that the engine's processes have used so far."""


class Generator(Protocol):
    """What the engine can be asked to prove that it works."""

    async def generate_one_token(self) -> None:
        """Let the engine generate one token. Raises EngineProbeError with the reason when it does not."""

    async def token_count(self) -> float | None:
        """The engine's own count of work done, or None where it has none or does not answer."""


class EngineProbeError(Exception):
    """The engine did not generate the token it was asked for; the text says why."""


@dataclass(frozen=True)
class Health:
    """The outcome of one check."""

    healthy: bool
    status: str  # 'healthy', 'starting' or 'unhealthy'
    reason: str


async def check_health(
    process: EngineProcess, generator: Generator, progress: Progress, *, seconds: float, look_every: float = LOOK_EVERY
) -> Health:
    """Wait up to `seconds` for a sign that the engine generates."""
    if process.state != "ready":
        status = "starting" if process.state == "starting" else "unhealthy"
        return Health(False, status, f"the engine is {process.state}")
    evidence = _Evidence(process, generator, progress)
    try:
        return await evidence.wait(seconds, look_every)
    finally:
        await evidence.close()


class _Evidence:
    """The signs gathered during one check."""

    def __init__(self, process: EngineProcess, generator: Generator, progress: Progress) -> None:
        self._process = process
        self._generator = generator
        self._progress = progress
        self._asked = progress.now()
        self._cpu_before = process.cpu_seconds()
        self._stopped_since: float | None = None
        self._counter_grew = False
        self._probe: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    async def wait(self, seconds: float, look_every: float) -> Health:
        self._watch = asyncio.create_task(self._watch_counter(look_every))
        while (passed := self._progress.now() - self._asked) < seconds:
            if verdict := self._verdict():
                return verdict
            if self._probe is None and (self._progress.in_flight == 0 or passed >= BUSY_GRACE):
                self._probe = asyncio.create_task(self._generator.generate_one_token())
            waiting = [task for task in (self._probe,) if task is not None and not task.done()]
            if waiting:
                await asyncio.wait(waiting, timeout=look_every)
            else:
                await asyncio.sleep(look_every)
        return self._verdict() or self._last_verdict(seconds)

    def _verdict(self) -> Health | None:
        if self._process.state != "ready":
            return Health(False, "unhealthy", f"the engine is {self._process.state}")
        if self._progress.seen_since(self._asked):
            return Health(True, "healthy", "tokens pass through")
        if self._counter_grew:
            self._progress.sign()
            return Health(True, "healthy", "the engine's token counters grow")
        if self._probe is not None and self._probe.done():
            error = self._probe.exception()
            if error is None:
                self._progress.sign()
                return Health(True, "healthy", "one token generated for this check")
            # Refused for now (a full queue, say): other signs may still come before the deadline.
            if self._progress.in_flight == 0:
                return Health(False, "unhealthy", f"the engine did not generate: {error}")
        return self._stopped_verdict()

    def _stopped_verdict(self) -> Health | None:
        process = self._process.stopped_process()
        now = self._progress.now()
        if process is None:
            self._stopped_since = None
            return None
        if self._stopped_since is None:
            self._stopped_since = now
        if now - self._stopped_since < STOPPED_FOR:
            return None
        return Health(False, "unhealthy", f"engine process {process} is stopped (SIGSTOP)")

    def _last_verdict(self, seconds: float) -> Health:
        """The verdict when no token came in time."""
        used = self._process.cpu_seconds() - self._cpu_before
        silent = self._progress.silent_for()
        in_flight = f"{self._progress.in_flight} requests in flight"
        if self._progress.in_flight and used >= COMPUTING_SHARE * seconds and silent < COMPUTING_LIMIT:
            reason = f"computing ({used:.1f} s of processor time in {seconds:.0f} s), no token for {silent:.0f} s"
            return Health(True, "healthy", f"{reason}; {in_flight}")
        return Health(
            False,
            "unhealthy",
            f"no token within {seconds:.0f} s: nothing passed through, the engine's own counters stand still, and one "
            f"token asked for did not come; {in_flight}, {used:.1f} s of processor time used",
        )

    async def _watch_counter(self, look_every: float) -> None:
        # The first reading is the base: a probe of our own that completes meanwhile is evidence just as well.
        base = await self._generator.token_count()
        while not self._counter_grew and base is not None:
            await asyncio.sleep(COUNT_EVERY * look_every)
            count = await self._generator.token_count()
            self._counter_grew = count is not None and count > base

    async def close(self) -> None:
        for task in (self._probe, self._watch):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
