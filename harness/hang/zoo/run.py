"""Runs a program of the zoo: starts its processes, waits until they hang, and ends all of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from harness.errors import DrydockError
from harness.hang.zoo.program import Program
from harness.processes.leaving import end_with_parent, leaving_on_signals
from harness.processes.sampling import facts
from harness.processes.stat import parse_stat
from harness.processes.tree import descendants_of, read_stats

# So many looks at an unmoving thread make a hang; one look lasts _LOOK seconds.
_LOOK, _STILL = 0.1, 10


class ProgramFailed(DrydockError):
    """A program of the zoo did not come to the point where it hangs."""

    mend = "see the log above; make hang-demo lists the programs"


class Running:
    """A program that runs; see ``running``."""

    def __init__(self, program: Program, python: str, folder: Path, blind: bool = False) -> None:
        self.program, self.folder = program, folder
        self._python, self._file = python, program.path.resolve()
        if blind:
            self._file = folder / "main.py"
            shutil.copy(program.path, self._file)
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._port, self._own_port = _free_port(), _free_port()

    @property
    def names(self) -> dict[int, str]:
        """The number of each process that was started, and what the truth calls it."""
        return {process.pid: name for name, process in self._started.items()}

    @property
    def pids(self) -> list[int]:
        """Of the processes that were started."""
        return list(self.names)

    def start(self) -> None:
        """Start every process."""
        for name in self.program.processes:
            self._start(name, [name], {})
            # A server has to listen before somebody asks it; it may be ready to hang only when it has been asked.
            self._wait(f"{name}'s ready", lambda name=name: self._is_ready(name) or self._listens(name))  # type: ignore[misc]
        for rank in range(self.program.ranks):
            self._start(f"rank{rank}", [], self._place(rank))
        if not self._started:
            self._start("driver", [], {})

    def wait_for_hang(self, seconds: float = 180) -> None:
        """Wait until everybody is ready, and, where it hangs, until nobody gets on any more.

        Raises:
            ProgramFailed: it ended or took longer.
        """
        self._wait("every process's ready", lambda: all(map(self._is_ready, self._started)), seconds)
        if self.program.state == "done":
            self._wait("everybody's end", lambda: not any(map(_runs, self.pids)), seconds)
        if self.program.state == "hung":
            watched = [p.pid for name, p in self._started.items() if name not in self.program.computes]
            self._wait("everybody to stand still", _Stillness(watched), seconds)
            if not any(map(_runs, self.pids)):
                logs = "\n".join(f"{name}: {self.log(name)[-500:]}" for name in self._started)
                raise ProgramFailed(f"{self.program.name}: it ended instead of hanging.\n{logs}")

    def end(self) -> None:
        """End everything that was started, and what that started."""
        roots = self.pids
        # Again and again: what is being forked right now is seen the next time.
        for _ in range(50):
            living = [pid for pid in [*roots, *descendants_of(roots, read_stats())] if _runs(pid)]
            # Parents first: a pool starts another worker for one that has ended.
            for pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for process in self._started.values():
                process.poll()
            if not living:
                break
            # Whose parent is gone belongs to somebody else: kept in mind.
            roots = list(dict.fromkeys([*roots, *living]))
            time.sleep(0.02)

    def log(self, name: str) -> str:
        """What a process has printed so far."""
        try:
            return (self.folder / f"{name}.log").read_text(errors="replace")
        except OSError:
            return ""

    def _start(self, name: str, arguments: Sequence[str], more: dict[str, str]) -> None:
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        outside = {key: value for key, value in os.environ.items() if key not in self._place(0) and key != "PYTHONPATH"}
        environment = {**outside, "OMP_NUM_THREADS": "1", "HANG_FOLDER": str(scratch), "HANG_PORT": str(self._own_port)}
        # As a training script does it; Ray's and torch's own words stay out of the way.
        environment |= {"PYTHONUNBUFFERED": "1", "RAY_USAGE_STATS_ENABLED": "0", **more}
        with (self.folder / f"{name}.log").open("wb") as output:
            self._started[name] = subprocess.Popen(
                [self._python, str(self._file), *arguments],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def _place(self, rank: int) -> dict[str, str]:
        size = str(self.program.ranks)
        return {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self._port),
        }  # fmt: skip

    def _is_ready(self, name: str) -> bool:
        # Looked at first, and not asked for its exit code: a dump shall see it as its parent left it, a zombie.
        ended = os.waitid(os.P_PID, self._started[name].pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        if "ready" in self.log(name).splitlines():
            return True
        if ended:
            raise ProgramFailed(f"{self.program.name}: {name} ended before it was ready.\n{self.log(name)[-2000:]}")
        return False

    def _listens(self, name: str) -> bool:
        return bool(facts.listening([self._started[name].pid]))

    def _wait(self, what: str, come: Callable[[], bool], seconds: float = 180) -> None:
        until = time.monotonic() + seconds
        while not come():
            if time.monotonic() > until:
                logs = "\n".join(f"{name}: {self.log(name)[-500:]}" for name in self._started)
                raise ProgramFailed(f"{self.program.name}: waited {seconds:.0f} s for {what}.\n{logs}")
            time.sleep(_LOOK)


class _Stillness:
    """Whether nobody's main thread got on for a while."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids, self._last, self._looks = pids, None, 0  # type: tuple[Sequence[int], object, int]

    def __call__(self) -> bool:
        now = [_main_thread(pid) for pid in self._pids]
        self._looks = self._looks + 1 if now == self._last else 0
        self._last = now
        return self._looks >= _STILL


def _main_thread(pid: int) -> object:
    """State and CPU time of the main thread: joining a group polls, and a thread of gloo's that polls doesn't count."""
    try:
        stat = parse_stat(Path(f"/proc/{pid}/task/{pid}/stat").read_bytes())
    except (OSError, ValueError):
        return None
    # A computing rank must not look still between two ticks of its clock.
    return (stat.state, stat.cpu_seconds) if stat.state != "R" else time.monotonic()


def _runs(pid: int) -> bool:
    stat = read_stats([pid]).get(pid)
    return stat is not None and not stat.is_zombie


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(program: Program, python: str, *, blind: bool = False, keep_logs: Path | None = None) -> Iterator[Running]:
    """The program, hanging; ended, and its folder removed, whatever happens meanwhile.

    Args:
        python: an interpreter that has what it needs.
        blind: run a copy called ``main.py``, so that no name on a stack or a command line tells what it is about.
        keep_logs: a folder for what its processes printed.

    Raises:
        ProgramFailed: it did not come to hang.
    """
    # Short: a Unix socket's path in there has 107 characters at most.
    folder = Path(tempfile.mkdtemp(prefix="hang-"))
    one = Running(program, python, folder, blind)
    try:
        with leaving_on_signals():
            one.start()
            one.wait_for_hang()
            yield one
    finally:
        one.end()
        if keep_logs is not None:
            keep_logs.mkdir(parents=True, exist_ok=True)
            for log in folder.glob("*.log"):
                shutil.copy(log, keep_logs)
        shutil.rmtree(folder, ignore_errors=True)
