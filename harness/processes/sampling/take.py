"""Samples every process that is meant, twice, and leaves none of them stopped."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from harness import __version__
from harness.processes.sampling import facts
from harness.processes.sampling.dumper import Dumped, Dumper, find_py_spy
from harness.processes.sampling.find import find
from harness.processes.sampling.model import NodeAnswer, ProcessEntry, SampleEntry, SampleRequest
from harness.processes.sampling.wake import wake
from harness.processes.stat import read_stat


def take(request: SampleRequest) -> NodeAnswer:
    """Sample what the request names in this PID namespace; what can't be sampled is in the answer with its reason."""
    started = time.monotonic()
    found = find(request)
    answer = NodeAnswer(
        host=facts.host(),
        boot_id=facts.boot_id(),
        pid_namespace=facts.pid_namespace(),
        processes=found.entries,
        left_out=found.left_out,
        environment={"drydock": __version__, "py_spy": find_py_spy() or "not installed"},
    )
    dumper = Dumper(seconds=request.dump_seconds, locals_=request.locals, native=request.native)
    unclean: set[int] = set()
    living = [entry for entry in found.entries if not entry.missing and not entry.error and entry.state != "Z"]
    first_sample = time.monotonic()
    try:
        for number in range(1, request.samples + 1):
            if number > 1:
                time.sleep(max(0.0, min(request.gap_seconds, started + request.timeout_seconds - time.monotonic())))
            _round(living, number, dumper, answer, first_sample, unclean)
            if time.monotonic() - started > request.timeout_seconds:
                answer.notes.append(f"broke off after {request.timeout_seconds:g} s; not every sample was taken")
                break
    finally:
        dumper.stop()
        _release(entry for entry in living if entry.pid in unclean)
    for entry in found.entries:
        _finish(entry)
    return answer


def _round(
    entries: list[ProcessEntry],
    number: int,
    dumper: Dumper,
    answer: NodeAnswer,
    first_sample: float,
    unclean: set[int],
) -> None:
    """One sample of each; pids whose dumper didn't end by itself go into ``unclean``, also when this is broken off."""
    pool = ThreadPoolExecutor(max_workers=max(1, min(len(entries), 2 * (os.cpu_count() or 2))))
    try:
        jobs = [(entry, pool.submit(_sample, entry, dumper, first_sample, unclean)) for entry in entries]
        for entry, job in jobs:
            sample, dumped = job.result()
            entry.samples.append(sample)
            if dumped is not None and dumped.content is not None:
                sample.file = f"{entry.pid}.json" if number == 1 else f"{entry.pid}.{number}.json"
                answer.dumps[sample.file] = dumped.content
    except BaseException:
        dumper.stop()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _sample(
    entry: ProcessEntry, dumper: Dumper, first_sample: float, unclean: set[int]
) -> tuple[SampleEntry, Dumped | None]:
    stat = read_stat(entry.pid)
    moving = facts.moving(entry.pid)
    at = round(time.monotonic() - first_sample, 4)
    if stat is None or moving is None or stat.start_ticks != entry.start_ticks:
        return SampleEntry(at=at, way="proc", error="it ended before it could be sampled"), None
    state = facts.state_of_any_thread(entry.pid, stat)
    dumped = dumper.dump(entry.pid, state)
    if dumped.unclean:
        unclean.add(entry.pid)
    return SampleEntry(
        way=dumped.way if dumped.content is not None else "proc",
        at=at,
        state=state,
        cpu_seconds=moving.cpu_seconds,
        read_bytes=moving.read_bytes,
        write_bytes=moving.write_bytes,
        switches=moving.switches,
        error=dumped.error,
    ), dumped


def _release(entries: Iterable[ProcessEntry]) -> None:
    """Let go on what a dumper that was ended has left stopped; what was stopped before stays so."""
    for entry in entries:
        before = entry.samples[0].state if entry.samples else entry.state
        stat = read_stat(entry.pid)
        if stat is None or stat.start_ticks != entry.start_ticks or before == "T":
            continue
        # D: frozen (`docker pause`) or asleep in the kernel, the dumper's stop still to come; waking takes that back.
        if facts.state_of_any_thread(entry.pid, stat) in ("T", "D"):
            try:
                wake(entry.pid)
            except OSError:
                entry.error = f"it was left stopped, and this user may not wake it: kill -CONT {entry.pid}"


def _finish(entry: ProcessEntry) -> None:
    """What is said of a process once all its samples are there."""
    if entry.missing:
        return
    last = entry.samples[-1] if entry.samples else None
    if last is not None and last.state:
        entry.state = last.state
    if not any(sample.file for sample in entry.samples):
        entry.wchan, entry.syscall = facts.kernel_place(entry.pid)
        if last is not None and not entry.error:
            entry.error = last.error
    elif entry.state == "D":
        entry.wchan, entry.syscall = facts.kernel_place(entry.pid)
