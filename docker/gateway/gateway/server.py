"""Runs the whole: engine, readiness, HTTP server, signals, exit code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator

import uvicorn
import uvloop

from gateway.aiohttp_upstream import AiohttpUpstream
from gateway.app import Gateway
from gateway.config import Config
from gateway.engine_process import EngineProcess
from gateway.health import EngineProbeError

_LOG = logging.getLogger("gateway")

READY_EVERY = 0.2
BACKLOG = 2048
CANNOT_START = 126
ENGINE_GONE = 1
FORWARDED = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
STOPPING = (signal.SIGTERM, signal.SIGINT)

_VERSION_PROGRAM = """
import sys
from importlib.metadata import PackageNotFoundError, version
for name in sys.argv[1:]:
    try:
        print(version(name))
        break
    except PackageNotFoundError:
        pass
"""


def run(config: Config) -> int:
    """Serve until told to stop or until the engine ends; the exit code is the engine's."""
    _raise_file_limit()
    return int(uvloop.run(_run(config)))


async def _run(config: Config) -> int:
    process = EngineProcess(config)
    version = _engine_version(config)
    async with AiohttpUpstream(config.engine_url) as upstream:
        gateway = Gateway(config, process, upstream, engine_version=version)
        server = _Server(_uvicorn_config(gateway))
        try:
            # Before the engine is started, so that a port that cannot be had leaves no engine behind.
            listener = socket.create_server((config.host, config.port), backlog=BACKLOG)
            await process.start()
        except OSError as error:
            _LOG.error("cannot start on port %d with %s: %s", config.port, config.engine_python, error)
            return CANNOT_START
        stop = asyncio.Event()
        _listen_for_signals(process, stop)
        ended = asyncio.create_task(process.wait())
        served = asyncio.create_task(server.serve([listener]))
        ready = asyncio.create_task(_announce_when_ready(config, process, gateway, version))
        stopped = asyncio.create_task(_stop_in_time(config, process, stop))
        await asyncio.wait((ended, served), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            process.kill()
            await ended
            await served  # raises what ended the server
            return CANNOT_START
        code = ended.result()
        if not stop.is_set():
            _LOG.error(
                "the %s engine ended by itself with exit code %d, and so ends this container", config.engine, code
            )
            # vLLM's server leaves with 0 after its model process crashed; the container must not look like a success.
            code = code or ENGINE_GONE
        for task in (ready, stopped):
            task.cancel()
        server.should_exit = True
        await served
        return code


async def _announce_when_ready(config: Config, process: EngineProcess, gateway: Gateway, version: str) -> None:
    """Open the door once the engine has generated its first token, and say so on one line."""
    started = time.monotonic()
    while not await _generates(gateway):
        await asyncio.sleep(READY_EVERY)
    await gateway.engine_is_ready()
    process.state = "ready"
    names = ", ".join(gateway.names.all)
    seconds = time.monotonic() - started
    _LOG.info("ready: %s %s serves %s on port %d after %.1f s", config.engine, version, names, config.port, seconds)


async def _generates(gateway: Gateway) -> bool:
    if not await gateway.client.is_up():
        return False
    try:
        await gateway.client.generate_one_token()
    except EngineProbeError as error:
        _LOG.warning("the engine is up but did not generate: %s", error)
        return False
    return True


async def _stop_in_time(config: Config, process: EngineProcess, stop: asyncio.Event) -> None:
    """Once asked to stop, give the engine its time, then kill it (a stopped process does not even hear SIGTERM)."""
    await stop.wait()
    process.state = "stopping"
    await asyncio.sleep(config.stop_seconds)
    _LOG.warning("the engine did not stop within %.0f s and is killed", config.stop_seconds)
    process.kill()


def _listen_for_signals(process: EngineProcess, stop: asyncio.Event) -> None:
    def stopping(number: signal.Signals) -> None:
        _LOG.info("%s received, stopping the engine", number.name)
        stop.set()
        process.send_signal(number)

    loop = asyncio.get_running_loop()
    for number in STOPPING:
        loop.add_signal_handler(number, stopping, number)
    for number in FORWARDED:
        loop.add_signal_handler(number, process.send_signal, number)


class _Server(uvicorn.Server):
    """uvicorn without signal handlers of its own: signals are for the engine, whose end ends the server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _uvicorn_config(gateway: Gateway) -> uvicorn.Config:
    return uvicorn.Config(
        gateway.app,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        # Longer than SDK clients keep idle connections (5 s), so that it is never the server that closes under them.
        timeout_keep_alive=75,
        # Requests in flight when the engine ended have their error by then.
        timeout_graceful_shutdown=2,
        server_header=False,
    )


def _engine_version(config: Config) -> str:
    """The version of the engine's package, asked of the Python it runs on."""
    command = [config.engine_python, "-c", _VERSION_PROGRAM, *config.start.distributions]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        return answer.stdout.strip() or "unknown"
    return "unknown"


def _raise_file_limit() -> None:
    """Each request in flight takes two sockets; the usual soft limit of 1024 ends at 512 of them."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
