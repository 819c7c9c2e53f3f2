"""The simulated server as a process of its own, so that its work doesn't slow the agent's event loop.

It ends when its standard input is closed, which also happens when whoever started it dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import EnvironmentUnfit
from harness.openai_api.simulated.faults import Fault
from harness.openai_api.simulated.server import Behaviour, Met, SimulatedServer

_ROOT = str(Path(__file__).resolve().parents[3])
_START = f"import sys; sys.path.insert(0, {_ROOT!r}); from {__name__} import main; main()"


@dataclass
class Serving:
    """A simulated server that runs.

    Args:
        base_url: with ``/v1``.
        root: without it.
        keys: the key of each run.
        pid: of its process.
        met: the faults that calls have met; filled when the server has ended.
        calls: calls by run; filled when the server has ended.
        models: calls by the name of a model that it hasn't; filled when the server has ended.
        peak: the most calls at once; filled when the server has ended.
        died: the server ended before it was told to.
    """

    base_url: str
    keys: Mapping[int, str] = field(repr=False)
    pid: int
    met: list[Met] = field(default_factory=list)
    calls: dict[int, int] = field(default_factory=dict)
    models: dict[str, int] = field(default_factory=dict)
    peak: int = 0
    died: bool = False

    @property
    def root(self) -> str:
        """The address as Anthropic's SDK takes it."""
        return self.base_url.removesuffix("/v1")

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return self.base_url.removesuffix("/v1")


@asynccontextmanager
async def serving(behaviour: Behaviour, runs: Iterable[int]) -> AsyncIterator[Serving]:
    """Start a simulated server, and end it with the block.

    Args:
        behaviour: how it behaves.
        runs: indexes for which there shall be keys.

    Raises:
        EnvironmentUnfit: it didn't start.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _START,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A Ctrl-C is for us; the server ends with our end of its pipe.
        start_new_session=True,
        limit=1 << 26,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        job = {"behaviour": asdict(behaviour), "runs": list(runs)}
        process.stdin.write(json.dumps(job).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await process.stdin.drain()
        ready = await process.stdout.readline()
        if not ready:
            raise EnvironmentUnfit(
                "the simulated server didn't start", consequence="Nothing was checked.", mend="ulimit -a; df -h /tmp"
            )
        said = json.loads(ready)
        keys = {int(run): key for run, key in said["keys"].items()}
        server = Serving(f"http://127.0.0.1:{said['port']}/v1", keys, process.pid)
        yield server
        process.stdin.close()
        last = await process.stdout.readline()
        if last:
            course = json.loads(last)
            server.met = [Met(**met) for met in course["met"]]
            server.calls = {int(run): count for run, count in course["calls"].items()}
            server.models = course["models"]
            server.peak = course["peak"]
        else:
            server.died = True
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def main() -> None:
    """Serve as the first line of standard input says, until that is closed."""
    asyncio.run(_serve())


async def _serve() -> None:
    job: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    _raise_limit()
    given = job["behaviour"]
    behaviour = Behaviour(**{**given, "faults": tuple(Fault(**fault) for fault in given["faults"])})
    server = SimulatedServer(behaviour)
    async with server:
        keys = {run: server.open_run(run) for run in job["runs"]}
        _say({"port": server.port, "keys": keys})
        await asyncio.to_thread(sys.stdin.buffer.read)
        course = server.course
        met = [asdict(one) for one in course.met]
        _say({"met": met, "calls": course.calls, "models": course.models, "peak": course.peak})


def _say(value: Any) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()


def _raise_limit() -> None:
    """As many connections as the system lets a process have; the agent's own limit stays what it is."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
