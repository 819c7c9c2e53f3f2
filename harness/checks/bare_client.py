"""The bare client: makes the calls that an agent has made once more, with nothing around them.

It runs in a process of its own, and says what it would take anybody to make these calls at this server now: what an
agent waits beyond that is the agent's. Its calls are seen by the same observer, so that both are measured alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_ROOT = str(Path(__file__).resolve().parents[2])
_START = f"import sys; sys.path.insert(0, {_ROOT!r}); from {__name__} import main; main()"


@dataclass(frozen=True)
class Job:
    """What to do.

    Args:
        base_url: with the path that OpenAI's routes are under.
        bodies: file of requests, as the ``LoadObserver`` keeps them.
        in_flight: calls at once.
        calls: how many to make; where there are fewer requests they are made again.
        seconds: to go on at most; calls under way then are broken off.
    """

    base_url: str
    api_key: str = field(repr=False)
    bodies: str
    in_flight: int
    calls: int
    seconds: float = 600.0


@dataclass
class Bare:
    """What came of it.

    Args:
        rows: a row for each call, as the observer tells them.
        seconds: from the first call to the end of the last, or to when it was broken off.
        done: calls that were answered.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    done: int = 0
    problem: str = ""


async def repeat(job: Job, *, tell: Callable[[int], None] = lambda _done: None) -> Bare:
    """Run the bare client; what it can't do is told as its problem, for it is no reason to fail."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _START,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        limit=1 << 24,
    )
    bare = Bare()
    errors = asyncio.ensure_future(_tail(process.stderr))
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(ConnectionError):
            process.stdin.write(json.dumps({**asdict(job)}).encode() + b"\n")
            await process.stdin.drain()
        async for line in process.stdout:
            said = json.loads(line)
            if "seconds" in said and "run" not in said:
                bare.seconds, bare.done = said["seconds"], said["done"]
            else:
                bare.rows.append(said)
                tell(len(bare.rows))
        await process.wait()
        if process.returncode:
            bare.problem = (await errors).strip().rpartition("\n")[2][:300] or f"exit code {process.returncode}"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        errors.cancel()
        await asyncio.gather(errors, return_exceptions=True)
    return bare


async def _tail(stream: asyncio.StreamReader | None) -> str:
    kept = b""
    while stream is not None and (chunk := await stream.read(65536)):
        kept = (kept + chunk)[-20_000:]
    return kept.decode("utf-8", "replace")


def main() -> None:
    """Make the calls that the first line of standard input asks for."""
    job = Job(**json.loads(sys.stdin.buffer.readline()))
    asyncio.run(_make(job))


async def _make(job: Job) -> None:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

    from harness.openai_api.load_observer import LoadObserver

    _raise_limit()
    base_path = job.base_url.partition("://")[2].partition("/")[2]
    requests = [(_below(path, base_path), body) for path, body in _requests(job.bodies)]
    if not requests:
        return
    observer = LoadObserver(_say, ours="")
    observer.install()
    # Both ways of giving a key: OpenAI's routes read one, Anthropic's the other.
    client = AsyncOpenAI(
        base_url=job.base_url, api_key=job.api_key or "none", default_headers={"x-api-key": job.api_key or "none"}
    )
    numbers = iter(range(job.calls))
    done = 0

    async def work() -> None:
        nonlocal done
        for number in numbers:
            path, body = requests[number % len(requests)]
            observer.begin(number)
            if body.get("stream"):
                stream = await client.post(path, body=body, cast_to=object, stream=True, stream_cls=_stream_class())
                async for _ in stream:
                    pass
            else:
                cast_to: Any = ChatCompletion if path.endswith("/chat/completions") else object
                await client.post(path, body=body, cast_to=cast_to)
            done += 1

    started = time.monotonic()
    observer.zero(started)
    workers = [asyncio.ensure_future(work()) for _ in range(min(job.in_flight, job.calls))]
    _, late = await asyncio.wait(workers, timeout=job.seconds)
    seconds = time.monotonic() - started
    for worker in late:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    _say({"seconds": seconds, "done": done})
    await client.close()


def _requests(file: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What was kept, as it went out; an agent may send what is no JSON, and its process may end in mid-write."""
    with open(file, "rb") as lines:
        for line in lines:
            with contextlib.suppress(ValueError):
                path, body = json.loads(line)
                yield path, body


def _stream_class() -> Any:
    from openai import AsyncStream

    return AsyncStream[object]


def _below(path: str, base_path: str) -> str:
    """A request's path as the client takes it, below its base URL; absolute where it isn't below."""
    whole = path.lstrip("/")
    return "/" + whole.removeprefix(base_path).lstrip("/") if base_path else "/" + whole


def _say(row: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(row) + "\n")


def _raise_limit() -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
