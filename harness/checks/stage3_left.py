"""Judgement on what many runs leave behind in their process; pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from harness.checks.findings import Finding, Place
from harness.checks.stage3_ends import Case

# Growth from which memory is told, for each run; below it lies what the allocator does anyway.
GREW_BYTES, GREW_OBJECTS = 32 * 1024, 20
# What is cached or imported once, by whichever run comes first: of few runs it looks like much a run.
ONCE_OBJECTS = 5000
# So many runs to one pool of threads mean that they share it: it grows to its bound, and then no more.
_RUNS_A_POOL = 4


def left_behind(case: Case) -> Iterable[Finding]:
    """Nothing is left of runs that have ended."""
    data, load = case.rows.data, case.load
    if len(load.held) < 2:
        return
    runs = max(1, len(case.rows.runs))
    before, after = data.before, data.after
    grown = per_run(list((Counter(after.threads) - Counter(before.threads)).elements()), runs)
    open_clients = sum(place.never_closed for place in data.clients)
    parts: list[str] = []
    for count, what in (
        (open_clients, "HTTP clients never closed"),
        (after.sockets - before.sockets, "sockets"),
        (after.descriptors - after.sockets - before.descriptors + before.sockets, "other file descriptors"),
        (len(after.tasks) - len(before.tasks), "tasks"),
        (len(grown), "threads"),
        (len(load.trace.left_processes), "processes"),
    ):
        if count > 0:
            parts.append(f"{count} {what}")
    memory, objects = (after.rss - before.rss) / runs, (after.objects - before.objects) / runs
    grew = f"memory {size(after.rss - before.rss)} more, {size(memory)} a run"
    if memory > GREW_BYTES and objects - ONCE_OBJECTS / runs > GREW_OBJECTS:
        parts.append(f"{size(memory)} of memory and {objects:.0f} objects a run")
    facts = {"before": before.model_dump(), "after": after.model_dump(), "bytes_a_run": round(memory)}
    if not parts:
        yield Finding(id="load.left", title="nothing left behind", status="pass", detail=grew, facts=facts)
        return
    place = next((place for place in data.clients if place.never_closed and place.file), None)
    named = [name for name in after.tasks if name][:3] + grown[:3] + load.trace.left_processes[:2]
    detail = f"{', '.join(parts)} were left by {runs} runs"
    yield Finding(
        id="load.left",
        title="nothing left behind",
        status="warn",
        detail=detail + (f" ({'; '.join(named)})" if named else ""),
        consequence="A worker makes thousands of runs: this adds up until memory, threads or descriptors run out.",
        mend="close clients, await or cancel tasks, join threads and wait for processes before run returns",
        place=Place(file=place.file, line=place.line, source=place.source) if place else None,
        facts=facts,
    )


def per_run(threads: Sequence[str], runs: int) -> list[str]:
    """Those threads that more runs would leave more of: a pool that the runs share has a bound, and stays.

    Args:
        threads: their names. A pool numbers its own, so that two pools of one prefix show by a number twice.
    """
    pools: dict[str, list[str]] = defaultdict(list)
    for name in threads:
        if numbered := re.fullmatch(r"(.+)_\d+", name):
            pools[numbered[1]].append(name)
    count = sum(max(Counter(names).values()) for names in pools.values())
    shared = {name for names in pools.values() for name in names} if count * _RUNS_A_POOL <= runs else set()
    return [name for name in threads if name not in shared]


def size(count: float) -> str:
    """Bytes, for people."""
    return f"{count / 1e6:.1f} MB" if abs(count) >= 1e6 else f"{count / 1024:.1f} KiB"
