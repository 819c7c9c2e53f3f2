"""The engine as a child process: started, signalled, watched, and never outlived."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from gateway.config import Config
from gateway.engines import command_of, environment_of

# The key is for the gateway's callers; an engine that knew it (vLLM reads VLLM_API_KEY) would ask the gateway for one.
_NOT_FOR_THE_ENGINE = ("API_KEY_FILE", "VLLM_API_KEY", "GATEWAY_HOST", "GATEWAY_PORT", "ENGINE_START")

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class EngineProcess:
    """One run of the engine, in a session of its own so that all its processes can be reached together."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._process: asyncio.subprocess.Process | None = None
        self.state = "starting"

    @property
    def pid(self) -> int | None:
        """The engine's process id, which is its session's too."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start it; its output is the container's output. Raises OSError when the command cannot be run."""
        command = command_of(self._config)
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_THE_ENGINE}
        environment.update(environment_of(self._config))
        self._process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
        )

    async def wait(self) -> int:
        """Wait for its end; the exit code as a shell would say it (128 + signal for a death by signal)."""
        assert self._process is not None, "start() comes first"
        code = await self._process.wait()
        code = code if code >= 0 else 128 - code
        self.state = f"gone (exit code {code})"
        self._kill_leftovers()
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Pass a signal on to the engine's first process; vLLM and llama.cpp tell their own children."""
        if self._process and self._process.returncode is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End every process of the engine at once."""
        self._kill_leftovers()

    def stopped_process(self) -> int | None:
        """The first process of the engine's session that is in state T (stopped by a signal)."""
        for pid, session, state, _ in _processes():
            if session == self.pid and state == "T":
                return pid
        return None

    def cpu_seconds(self) -> float:
        """Processor time that the engine's living processes have used so far, in user mode and in the kernel."""
        ticks = sum(used for _, session, _, used in _processes() if session == self.pid)
        return ticks / TICKS_PER_SECOND

    def _kill_leftovers(self) -> None:
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def _processes() -> list[tuple[int, int, str, int]]:
    """Process id, session id, state letter and processor ticks used of all that /proc shows."""
    found = []
    for folder in PROC.iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue  # it ended meanwhile
        # The command name in parentheses may hold anything; the fields are counted from behind it.
        fields = stat[stat.rindex(")") + 2 :].split()
        found.append((int(folder.name), int(fields[3]), fields[0], int(fields[11]) + int(fields[12])))
    return found
