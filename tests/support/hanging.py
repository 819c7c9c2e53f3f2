"""Starts programs that hang, waits until they do, and has the real command look at them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.processes.stat import parse_stat
from harness.processes.tree import descendants_of, read_stats
from tests.support.harness import CLONE, HARNESS, Ended, free_port, wait_for

PROGRAMS = CLONE / "tests/scenarios/hang_dump/programs.py"


@dataclass
class Job:
    """Processes of one program, a rank each.

    Args:
        folder: for their output.
        python: the interpreter that runs them.
    """

    folder: Path
    python: str = sys.executable
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, name: str, world: int = 1, *, prefix: tuple[str, ...] = (), **environment: str) -> Job:
        """Start all ranks and wait until each says "ready"; with ``world=1`` it is no rank at all."""
        port = free_port()
        for rank in range(world):
            place = {
                "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            }  # fmt: skip
            plain = {key: value for key, value in os.environ.items() if key not in place and key != "PYTHONPATH"}
            self.run(name, f"rank{rank}", {**plain, **(place if world > 1 else {}), **environment}, prefix)
        self.wait_ready()
        return self

    def run(self, name: str, log: str, environment: dict[str, str], prefix: tuple[str, ...] = ()) -> None:
        """Start one process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{log}.log").open("wb") as output:
            self.processes.append(
                subprocess.Popen(
                    [*prefix, self.python, str(PROGRAMS), name],
                    env={**environment, "OMP_NUM_THREADS": "1"},
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )

    def launch(self, options: list[str], name: str) -> None:
        """Start a launcher with the program; the job's folder is on its command line, to be found by."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "rank0.log").open("wb") as output:
            self.processes.append(
                subprocess.Popen(
                    [self.python, *options, str(PROGRAMS), name, str(self.folder)],
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )

    def settle_all(self) -> Job:
        """Wait until nobody below the launcher gets on any more."""
        return self._settle([pid for pid in self.everything() if pid not in self.pids])

    def log(self, rank: int) -> str:
        """What a rank has printed so far."""
        return (self.folder / f"rank{rank}.log").read_text(errors="replace")

    def wait_ready(self, seconds: float = 120) -> None:
        """Wait until each has said "ready"."""
        logs = [self.folder / f"rank{rank}.log" for rank in range(len(self.processes))]
        wait_for("every rank's ready", lambda: all("ready" in path.read_text() for path in logs), seconds)

    def settle(self, busy: tuple[int, ...] = ()) -> Job:
        """Wait until nobody's main thread gets on any more; ``busy`` ranks are expected to compute on."""
        return self._settle([process.pid for rank, process in enumerate(self.processes) if rank not in busy])

    def _settle(self, watched: list[int]) -> Job:
        wait_still(watched)
        return self

    @property
    def pids(self) -> list[int]:
        """Of the ranks themselves."""
        return [process.pid for process in self.processes]

    def everything(self) -> list[int]:
        """Of the ranks and all below them."""
        return [*self.pids, *descendants_of(self.pids, read_stats())]

    def end(self) -> None:
        """End everything that was started."""
        for pid in reversed(self.everything()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.processes:
            process.wait()


def wait_still(pids: list[int]) -> None:
    """Wait until no main thread of these gets on any more."""
    seen: list[object] = []

    def still() -> bool:
        now = [_main_thread(pid) for pid in pids]
        seen.append(now)
        return len(seen) > 8 and all(entry == now for entry in seen[-8:])

    wait_for("every rank to stand still", still)


def _main_thread(pid: int) -> object:
    """State and CPU time of the main thread: joining a group polls, and a thread of gloo's that polls doesn't count."""
    try:
        stat = parse_stat(Path(f"/proc/{pid}/task/{pid}/stat").read_bytes())
    except (OSError, ValueError):
        return None
    # A computing rank must not look still between two ticks of its clock.
    return (stat.state, stat.cpu_seconds) if stat.state != "R" else time.monotonic()


@dataclass
class Dump:
    """What the command said, and what it wrote."""

    ended: Ended
    verdict: dict[str, Any]
    folder: Path

    @property
    def manifest(self) -> dict[str, Any]:
        """The dump's manifest."""
        found: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        return found

    def entry(self, identity: str) -> dict[str, Any]:
        """One process's entry in the manifest, children left out."""
        found = [e for e in self.manifest["processes"] if e.get("id") == identity and e.get("role") != "child"]
        assert len(found) == 1, f"{len(found)} entries {identity} in {json.dumps(self.manifest, indent=1)}"
        entry: dict[str, Any] = found[0]
        return entry


def hang_dump(runs: Path, *arguments: str, timeout: float = 120, **environment: str) -> Dump:
    """Run ``harness hang-dump --json`` to its end."""
    ended = harness(runs, "hang-dump", "--json", *arguments, timeout=timeout, **environment)
    verdict = ended.json()
    assert "state" in verdict, str(ended)
    return Dump(ended, verdict, Path(verdict["folder"]))


def harness(runs: Path, *arguments: str, timeout: float = 120, **environment: str) -> Ended:
    """Run ``harness ARGUMENTS`` to its end."""
    started = time.monotonic()
    done = subprocess.run(
        [str(HARNESS), *arguments],
        env={**os.environ, "NO_COLOR": "1", "RUNS": str(runs), "GAP": "1", **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        check=False,
    )
    return Ended(arguments, done.returncode, done.stdout, done.stderr, time.monotonic() - started)
