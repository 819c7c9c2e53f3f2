"""One cheap look at a program: what /proc and its files say; no process is stopped or read for it."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.processes.sampling.gpu import utilisation
from harness.processes.stat import read_stat

# Files whose growth is a step by itself: TensorBoard's and W&B's own records.
_STEP_FILES = ("tfevents", ".wandb")
# Of a log that grew a lot between two looks, the end is what counts.
_MOST_READ = 1 << 20


@dataclass(frozen=True)
class Look:
    """A program at one moment.

    Attributes:
        at: seconds on a clock that only goes forward.
        cpu: CPU seconds so far, by process.
        logs: size of each log file.
        step: what the step counter shows; None where there is no counter, "" where it hasn't shown anything yet.
        gpu: the busiest GPU in per cent; None where there is none.
    """

    at: float
    cpu: dict[int, float] = field(default_factory=dict)
    logs: dict[str, int] = field(default_factory=dict)
    step: str | None = None
    gpu: float | None = None


class Looker:
    """Takes looks; remembers how far each log was read for the step counter.

    Args:
        logs: patterns of log files beside those that the processes' own output goes to.
        step: a regular expression for a line of a log, or a pattern of TensorBoard's or W&B's files; "": none.
    """

    def __init__(self, logs: Sequence[str] = (), step: str = "") -> None:
        self._logs, self._step = logs, step
        self._expression = re.compile(step) if step and not _is_step_file(step) else None
        self._read: dict[str, int] = {}
        self._last = ""

    def look(self, pids: Iterable[int], at: float) -> Look:
        """Look at these processes; those that have ended meanwhile are left out."""
        cpu = {pid: found.cpu_seconds for pid in pids if (found := read_stat(pid)) is not None and not found.is_zombie}
        logs = dict(sorted(_sizes([*_outputs(cpu), *_matching(self._logs)]).items()))
        busy = utilisation()
        return Look(at, cpu, logs, self._shown(logs), max((busy[pid] for pid in cpu if pid in busy), default=None))

    def _shown(self, logs: dict[str, int]) -> str | None:
        if not self._step:
            return None
        if self._expression is None:
            return repr(sorted(_sizes(_matching([self._step])).items()))
        for path, size in logs.items():
            start = self._read.get(path, 0)
            # A shorter file was begun anew.
            start = max(0 if size < start else start, size - _MOST_READ)
            self._read[path] = size
            if size > start and (found := _last_match(self._expression, path, start)):
                self._last = found
        return self._last


def _is_step_file(step: str) -> bool:
    return any(part in step for part in _STEP_FILES)


def _last_match(expression: re.Pattern[str], path: str, start: int) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(start)
            text = file.read(_MOST_READ).decode("utf-8", "replace")
    except OSError:
        return ""
    return next((match[0] for match in reversed(list(expression.finditer(text)))), "")


def _outputs(pids: Iterable[int]) -> list[str]:
    """Files that standard output and error of these processes go to."""
    return list(dict.fromkeys(path for pid in pids for number in (1, 2) if (path := _regular(pid, number))))


def _regular(pid: int, number: int) -> str:
    link = f"/proc/{pid}/fd/{number}"
    try:
        return os.readlink(link) if stat.S_ISREG(os.stat(link).st_mode) else ""
    except OSError:
        return ""


def _matching(patterns: Iterable[str]) -> list[str]:
    return [path for pattern in patterns for path in glob.glob(os.path.expanduser(pattern), recursive=True)]


def _sizes(paths: Iterable[str]) -> dict[str, int]:
    found = {}
    for path in paths:
        try:
            found[path] = os.stat(path).st_size
        except OSError:
            continue
    return found
