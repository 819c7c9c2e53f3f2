"""Who is paused, under which number, and what suffers from it; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.breakpoints.model import Paused, Worker
from harness.errors import NothingPaused


def paused(found: Iterable[Worker], numbers: Mapping[str, int]) -> list[Paused]:
    """A line for each thread that waits and for each process that a debugger holds.

    Args:
        numbers: the number of each worker by ``key_of``.
    """
    lines = []
    for worker in found:
        number = numbers.get(key_of(worker), 0)
        threads: list[Mapping[str, Any]] = list((worker.status or {}).get("paused") or [])
        delays = tuple(delayed(worker, threads))
        for thread in threads:
            lines.append(
                Paused(
                    number=number,
                    worker=worker,
                    file=str(thread.get("file") or ""),
                    line=int(thread.get("line") or 0),
                    function=str(thread.get("function") or ""),
                    thread=str(thread.get("thread") or ""),
                    since=thread.get("since"),
                    exception=thread.get("exception"),
                    delays=delays,
                )
            )
        if worker.begins:
            file, at, function = worker.place or ("", 0, "before its first line")
            lines.append(Paused(number=number, worker=worker, file=file, line=at, function=function))
        elif not threads and worker.attached:
            lines.append(Paused(number=number, worker=worker, state="attached", delays=delays))
        elif not threads and worker.paused_threads > 0:
            # Ray says so, and the process can't be asked where.
            lines.append(Paused(number=number, worker=worker, delays=delays))
    return sorted(lines, key=lambda line: (line.number, line.since or 0.0))


def key_of(worker: Worker) -> str:
    """What a worker is remembered by."""
    return worker.worker_id or f"{worker.ip}:{worker.pid}"


def numbered(found: Iterable[Worker], before: Mapping[str, int]) -> dict[str, int]:
    """A number for each worker: the one it had, else the smallest that is free; those that are gone are forgotten."""
    present = [key_of(worker) for worker in found]
    numbers = {key: number for key, number in before.items() if key in present}
    for key in present:
        if key not in numbers:
            numbers[key] = next(n for n in range(1, len(numbers) + 2) if n not in numbers.values())
    return numbers


def chosen(lines: list[Paused], session: int, pid: int = 0) -> Paused:
    """The one meant by ``SESSION=`` or ``PID=``; without either the only one.

    Raises:
        NothingPaused: there is none, or several and none was named.
    """
    if not lines:
        raise NothingPaused(
            "Nothing is paused.",
            consequence="There is nothing to attach to.",
            mend="make breakpoints WATCH=1   # waits for the next one\nmake attach PID=NUMBER   # a worker that runs",
        )
    if pid:
        matching = [line for line in lines if line.worker.pid == pid]
    elif session:
        matching = [line for line in lines if line.number == session]
    else:
        matching = lines if len({line.number for line in lines}) == 1 else []
    if not matching:
        there = ", ".join(f"{line.number} ({line.worker.name})" for line in lines)
        what = f"No process {pid} is paused." if pid else f"There is no session {session or '(none was named)'}."
        raise NothingPaused(what, consequence=f"Paused are: {there}.", mend=f"make attach SESSION={lines[0].number}")
    return matching[0]


def delayed(worker: Worker, threads: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """What stands still, or will run into a time-out, while a worker is paused."""
    status = worker.status or {}
    threads = list(threads)
    if any(thread.get("event_loop") for thread in threads):
        yield "its event loop stands still: every other call to this actor waits too"
    elif worker.role == "driver":
        yield "the driver: nothing new is submitted meanwhile"
    seconds = status.get("collective_timeout")
    if seconds and int(status.get("world_size") or 1) > 1:
        others = int(status["world_size"]) - 1
        yield (
            f"{others} other rank{'s' if others > 1 else ''} of torch.distributed ({status.get('backend')}) "
            f"give up after {_short(float(seconds))} in a collective"
        )
    for module, text in _KNOWN_LIMITS.items():
        if module in (status.get("frameworks") or ()):
            yield text


# Time-outs of frameworks that a paused worker makes fire, with the setting that raises them.
_KNOWN_LIMITS = {
    "areal": "AReaL gives up a request after rollout.request_timeout (3600 s), a start after setup_timeout (300 s)",
    "verl": "verl's collectives give up after actor_rollout_ref.nccl_timeout (600 s)",
}


def _short(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
