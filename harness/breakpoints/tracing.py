"""The verb `trace`: what is asked for, what it costs, the hits as they come, and what was odd."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import console
from harness.breakpoints import gather, inject, now, trace
from harness.breakpoints.model import Paused, Worker
from harness.errors import NothingTraced, RayNotReachable
from harness.settings import Settings

# What the cost is told for: this many hits a second.
RATE = 10


def run(settings: Settings) -> int:
    """Trace as the settings say; returns the exit code.

    Raises:
        UsageError: the line or an expression can't be read.
        NothingTraced: no process has such a line.
    """
    request = trace.parsed(settings.at, settings.condition, settings.log, settings.hits, settings.timeout)
    console.to_stderr()  # standard output is the hits'
    workers, later = _workers(settings)
    place = f"{request.file}:{request.line}"
    if later and not workers:
        console.warn(f"{later.nobody().what} Waits until one comes, {request.seconds:g} s at most.")
    where = f"{len(workers)} processes" + (", and in those that come later" if later else "")
    console.note(f"{place} in {where}, until {request.hits} hits; Ctrl-C ends it")
    told_costs: set[str] = set()

    def armed(told: dict[str, Any]) -> None:
        if told.get("how") and told["how"] not in told_costs:
            told_costs.add(told["how"])
            console.note(cost(told))

    result = trace.run(request, workers, hit=_print, armed=armed, later=later)
    if later and not (result.armed or result.refused):
        raise later.nobody()
    return _conclude(request, result, lambda: now.paused_or_none(settings))


def cost(told: dict[str, Any]) -> str:
    """What the log point costs the traced process, measured in it a moment ago."""
    each = float(told.get("pass_seconds") or 0)
    return (
        f"cost: each time the line is reached {each * 1e6:.1f} µs and what your expressions take "
        f"({each * RATE:.3%} of a core at {RATE} a second); other lines nothing ({told['how']}); "
        f"finding the line took {float(told.get('seconds') or 0) * 1e3:.0f} ms"
    )


class _Later:
    """Lists those in the cluster that are meant, as often as it is called."""

    def __init__(self, settings: Settings) -> None:
        self._board = gather.dashboard()
        self._meant = {"actor": settings.actor, "role": settings.role}
        self._found: list[Worker] = []

    def first(self) -> list[Worker]:
        """Those that are there now; raises where the cluster can't be asked."""
        self._found = gather.workers(self._board, paused_only=False)
        return trace.matching(self._found, **self._meant)

    def __call__(self) -> list[Worker]:
        try:
            self._found = gather.listed(self._board)
        except RayNotReachable:
            return []  # a busy head; the next look may do better
        return trace.matching(self._found, **self._meant)

    def nobody(self) -> NothingTraced:
        """What to say where none was there."""
        return trace.nobody(self._found, **self._meant)


def _workers(settings: Settings) -> tuple[list[Worker], _Later | None]:
    if settings.pid:
        found = _one(settings.pid)
        if found.status is None:
            inject.agent(found, found.problem)
        return [found], None
    later = _Later(settings)
    return later.first(), later


def _one(pid: int) -> Worker:
    here = gather.asked([Worker(ip="127.0.0.1", pid=pid, role="process")])[0]
    if here.status is not None:
        return here
    try:
        every = gather.workers(gather.dashboard(), paused_only=False)
    except Exception:  # noqa: BLE001  # no cluster: then it is a process of this machine
        return here
    return next((worker for worker in every if worker.pid == pid), here)


def _print(hit: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(hit, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _conclude(request: trace.Request, result: trace.Result, paused: Callable[[], list[Paused]] = list) -> int:
    """Say what came of it; returns the exit code.

    Args:
        paused: lists who stands at a breakpoint; asked where less came than was wanted.
    """
    with_line = [told for _, told in result.armed if told.get("functions") or told.get("running")]
    if not with_line and not result.hits:
        raise _no_such_line(request, result)
    for problem in sorted({problem for _, problem in result.refused}):
        console.warn(f"not traced: {problem}")
    for text in sorted(set(result.failed)):
        console.warn(f"in the traced code: {text}")
    running = sum(int(told.get("running") or 0) for told in with_line)
    if running and not result.hits:
        console.warn(
            f"The function was under way {running} times when this began; before Python 3.12 such a call isn't seen, "
            "only the next one.",
            "make attach PID=… TUI=1   # and `break` there, which reaches calls under way",
        )
    if result.hits < request.hits:
        why = f"within {request.seconds:g} s" if result.timed_out else "before all its processes ended"
        passed = "" if not result.ends else f" ({sum(int(end['passed']) for end in result.ends)} passes)"
        console.bad(f"{result.hits} of {request.hits} hits {why}{passed}")
        if result.timed_out:
            _say_who_stands(paused())
        return 1
    console.ok(f"{result.hits} hits; the log points are off again")
    return 0


def _say_who_stands(paused: list[Paused]) -> None:
    """Whoever is paused keeps its share of the cluster, so that what would reach the line may not even be started."""
    waiting = [line for line in paused if line.state == "waits"]
    if not waiting:
        return
    places = dict.fromkeys(f"{line.file.rpartition('/')[2]}:{line.line}" for line in waiting if line.file)
    at = f" at a breakpoint ({', '.join(list(places)[:3])})" if places else " at a breakpoint"
    processes = len({(line.worker.ip, line.worker.pid) for line in waiting})
    subject = "1 process stands" if processes == 1 else f"{processes} processes stand"
    keep = "keeps its" if processes == 1 else "keep their"
    console.warn(
        f"{subject}{at} and {keep} CPUs and GPUs: what is to reach the line may wait for them.", "make breakpoints"
    )


def _lines_of(file: str) -> int:
    """How many lines a file has; 0 where it can't be read here."""
    try:
        return len(Path(file).read_bytes().splitlines())
    except OSError:
        return 0


def _no_such_line(request: trace.Request, result: trace.Result) -> NothingTraced:
    place = f"{request.file}:{request.line}"
    files = sorted({file for _, told in result.armed for file in told.get("files", ())})
    if any(told.get("ambiguous") for _, told in result.armed):
        names = ", ".join(files[:5])
        return NothingTraced(
            f"AT={place} means several files: {names}.", mend=f"make trace AT={files[0]}:{request.line}"
        )
    # Each process names its own; one that has loaded less of the file has only what is further away.
    every = {line for _, told in result.armed for line in told.get("near", ())}
    near = sorted(every, key=lambda line: (abs(line - request.line), line))[:3]
    if near:
        end = _lines_of(files[0])
        ends = f", and ends at line {end}" if end and request.line > end else ""
        return NothingTraced(
            f"{files[0]} has no code at line {request.line}{ends}; nearest: {', '.join(map(str, sorted(near)))}.",
            consequence="Nothing was traced. Lines outside of functions aren't among them: they have run already.",
            mend=f"make trace AT={request.file}:{near[0]}",
        )
    if result.refused:
        return NothingTraced(f"No process could be asked: {result.refused[0][1]}.")
    return NothingTraced(
        f"No process has loaded {request.file}.",
        consequence="Nothing was traced.",
        mend="check the name; a module that isn't imported yet is found once it is",
    )
