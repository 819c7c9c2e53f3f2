"""Runs a driver in the framework's interpreter, follows it, and ends all that it has started; judges nothing.

The driver has a session of its own and a mark in its environment, by which its descendants are found whatever they do:
AReaL's workers, and the ``tee`` and shell around each, outlive a controller that fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from harness.agent.capture import Capture, Lines
from harness.agent.runner import command_line, family
from harness.checks.stage4.data import Rolled
from harness.checks.stage4.doors import AgentDoor, EngineDoor
from harness.checks.stage4.job import HERE, Setup, environment, write_job
from harness.checks.stage4.reasons import Reason, reasons_of
from harness.checks.stage4.stall import Look, stalled
from harness.openai_api.calls import Call
from harness.openai_api.recording.exchange import Exchange

TICK_SECONDS = 0.5
# A log that says why nothing comes is believed after this long: the worker may say more.
BELIEVED_SECONDS = 2.0
LEAVE_SECONDS = 30.0
LOG_TAIL = 128 * 1024
_DRIVERS = {"areal": "driver.py", "verl": "verl_driver.py"}


@dataclass
class Gathered:
    """A batch, and what was kept of it beside what is judged.

    Args:
        exchanges: session and call of the agents, as they went over the wire.
        dump: of a hang; None where nothing hung.
    """

    rolled: Rolled
    exchanges: list[tuple[str, Exchange]] = field(default_factory=list)
    dump: Any = None


async def gather(setup: Setup, gathered: Gathered, *, tell: Callable[[Rolled], None]) -> None:
    """Run one batch through the framework.

    Args:
        setup: what to do.
        gathered: gets what is seen, also where this is broken off.
        tell: called twice a second with what is known so far.
    """
    rolled = gathered.rolled
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"drydock-{setup.asked.framework.key}-") as folder:
        door = EngineDoor(setup.endpoint, take=rolled.engine.append)
        try:
            async with door, _Doors(gathered, setup.record) as doors:
                job = write_job(setup, Path(folder), door.port)
                async with _Driver.start(setup, job, rolled, doors) as driver:
                    await driver.follow(door, tell)
                    if rolled.stall and not setup.debugged:
                        tell(rolled)
                        gathered.dump = await asyncio.to_thread(_dump, driver.process.pid, rolled)
        finally:
            rolled.apart = _proxy_logs(Path(folder))
            rolled.notes = _notes(Path(folder) / "notes.jsonl")
            rolled.seconds = time.monotonic() - began


class _Doors:
    """Ports in front of AReaL's proxies, opened when their addresses are known."""

    def __init__(self, gathered: Gathered, record: bool) -> None:
        self._gathered, self._record = gathered, record
        self._open: list[AgentDoor] = []

    async def __aenter__(self) -> _Doors:
        return self

    async def __aexit__(self, *_: object) -> None:
        for door in self._open:
            await door.__aexit__()

    async def open(self, addresses: list[str]) -> list[str]:
        """A port for each address."""
        keep = self._gathered.exchanges

        def took(session: str, call: Call) -> None:
            self._gathered.rolled.agents.append((session, call))

        def recorded(session: str, exchange: Exchange) -> None:
            keep.append((session, exchange))

        for address in addresses:
            door = AgentDoor(address, took=took, recorded=recorded if self._record else None)
            await door.__aenter__()
            self._open.append(door)
        return [door.origin for door in self._open]

    @property
    def served(self) -> int:
        """Calls that came in."""
        return sum(sum(door.counts.values()) for door in self._open)


class _Driver:
    """The driver's process and the pipes to it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        control: int,
        mark: str,
        setup: Setup,
        rolled: Rolled,
        doors: _Doors,
        folder: Path,
    ) -> None:
        self.process, self._control, self._mark = process, control, mark
        self._setup, self.rolled, self._doors = setup, rolled, doors
        self._folder = folder
        self.exited = asyncio.ensure_future(asyncio.to_thread(process.wait))
        self._transports: list[asyncio.ReadTransport] = []
        self._readers: list[Capture | Lines] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def start(cls, setup: Setup, job: Path, rolled: Rolled, doors: _Doors) -> AsyncIterator[_Driver]:
        """Start it; it and all that it has started end with the block."""
        event_read, event_write = os.pipe()
        control_read, control_write = os.pipe()
        mark = secrets.token_hex(16)
        try:
            process = subprocess.Popen(
                [
                    setup.python,
                    "-u",
                    str(HERE / _DRIVERS[setup.asked.framework.key]),
                    str(job),
                    str(event_write),
                    str(control_read),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(event_write, control_read),
                env=environment(os.environ, setup, mark, job.parent),
                cwd=setup.cwd or Path.cwd(),
                start_new_session=True,
            )
        except BaseException:
            os.close(event_read)
            os.close(control_write)
            raise
        finally:
            os.close(event_write)
            os.close(control_read)
        driver = cls(process, control_write, mark, setup, rolled, doors, job.parent)
        try:
            await driver._connect(event_read)
            yield driver
        finally:
            await driver._end()

    async def _connect(self, event_read: int) -> None:
        loop = asyncio.get_running_loop()
        assert self.process.stdout is not None
        for pipe, reader in (
            (os.fdopen(event_read, "rb", buffering=0), Lines(self._take)),
            (self.process.stdout, Capture(self.rolled.output)),
        ):
            transport, protocol = await loop.connect_read_pipe(lambda reader=reader: reader, pipe)  # type: ignore[misc]
            self._transports.append(transport)
            self._readers.append(protocol)

    def _take(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return
        self.rolled.events.append(event)
        if event["event"] == "proxies":
            task = asyncio.ensure_future(self._lead_through_doors(event["addresses"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._news.set()

    async def _lead_through_doors(self, addresses: list[str]) -> None:
        answer = json.dumps({"addresses": await self._doors.open(addresses)}).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):
            os.write(self._control, answer)

    async def follow(self, door: EngineDoor, tell: Callable[[Rolled], None]) -> None:
        """Wait for its end, or for a reason to end it."""
        rolled, setup = self.rolled, self._setup
        moved, before = time.monotonic(), (-1, -1, -1)
        began = phase_began = time.monotonic()
        phase = ""
        blamed: tuple[float, Reason] | None = None
        while not self.exited.done():
            self._news.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), TICK_SECONDS)
            tell(rolled)
            now = time.monotonic()
            seen = (len(rolled.all("progress")) + len(rolled.all("phase")), door.served + len(rolled.engine),
                    self._doors.served + len(rolled.agents))  # fmt: skip
            if seen != before:
                moved, before = now, seen
            if rolled.event("done") is not None:
                await self._leave()
                return
            if rolled.phase != phase:
                phase, phase_began = rolled.phase, now
            if setup.debugged:
                continue
            if rolled.event("batch") is None and phase == "rollout":
                rolled.stall = _look(rolled, now - moved, setup.patience)
                if rolled.stall:
                    return
            elif phase in ("workers", "proxy"):
                log = _all_logs(rolled, self._folder)
                fatal = next((one for one in reasons_of(rolled.asked.framework, log) if one.fatal), None)
                blamed = blamed or ((now, fatal) if fatal else None)
                if blamed is not None and now - blamed[0] >= BELIEVED_SECONDS and now - phase_began > BELIEVED_SECONDS:
                    rolled.early = blamed[1].code
                    return
            if rolled.event("batch") is None and phase != "rollout" and now - began > setup.start_seconds:
                rolled.cut = phase
                return
            if rolled.event("batch") is not None and now - moved > LEAVE_SECONDS + setup.patience:
                rolled.cut = "end"
                return

    async def _leave(self) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self.exited), LEAVE_SECONDS)

    async def _end(self) -> None:
        """End the driver and all that it has started, and gather the rest of what it said."""
        # Where we are broken off, waiting for it is broken off as well, and a signal may hit the very start of that.
        orderly = self.process.returncode is not None
        if not orderly:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        left = family(self.process.pid, self._mark)
        if orderly:
            self.rolled.left = [command_line(process) for process in left]
        for _ in range(3):
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            # One that was just starting another had time to do so.
            left = family(self.process.pid, self._mark)
            if not left:
                break
        self.rolled.exit_status = await asyncio.to_thread(self.process.wait)
        await asyncio.gather(self.exited, *self._tasks, return_exceptions=True)
        ends = [asyncio.ensure_future(reader.ended.wait()) for reader in self._readers]
        await asyncio.wait(ends, timeout=5.0)
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        for transport in self._transports:
            transport.close()
        os.close(self._control)


def _look(rolled: Rolled, quiet: float, patience: float) -> Any:
    progress = rolled.event("progress")
    if progress is None:
        return None
    look = Look(progress["enqueued"], progress["running"], progress["capacity"], quiet)
    return stalled(look, patience)


def _proxy_logs(folder: Path) -> str:
    """What AReaL's proxies printed; the ends of it."""
    parts = []
    for file in sorted((folder / "logs").rglob("proxy-*.log")):
        with contextlib.suppress(OSError), file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - LOG_TAIL))
            parts.append(log.read().decode("utf-8", "replace"))
    return "\n".join(parts)


def _all_logs(rolled: Rolled, folder: Path) -> str:
    return f"{rolled.output.text()}\n{_proxy_logs(folder)}"


def _notes(file: Path) -> list[dict[str, Any]]:
    notes = []
    if file.exists():
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                notes.append(json.loads(line))
    return notes


def _dump(pid: int, rolled: Rolled) -> Any:
    """A hang dump of the driver and all that it has started; its verdict goes into what was gathered."""
    from harness.errors import DrydockError
    from harness.hang.collect import collect
    from harness.hang.decide import diagnose
    from harness.hang.ways import here
    from harness.processes.sampling.model import SampleRequest

    try:
        collected = collect(here.find(), SampleRequest(pids=[pid], gap_seconds=1.0))
        verdict = diagnose(collected.dump)
    except DrydockError as error:
        rolled.verdict = {"cause": "", "error": error.what}
        return None
    rolled.verdict = verdict.as_dict()
    return collected
