"""What the page compares, as plain data: a laggard's stack beside a typical one, two samples, chains of awaits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from harness.hang.grouping import names
from harness.hang.model import Dump, Process, Sample, Thread
from harness.hang.verdict import GroupRow, Verdict

# More than these help nobody, and a page has to open.
_LAGGARDS, _SAMPLED, _FRAMES, _THREADS, _CHAINS = 3, 24, 80, 24, 40
_TOP = 3
_LINE = re.compile(r":\d+\)$")


def laggard_groups(verdict: Verdict) -> list[int]:
    """Numbers of the groups that somebody who is named belongs to."""
    named = set(verdict.laggards)
    found = dict.fromkeys(row.group for row in verdict.processes if row.id in named and row.group is not None)
    return [number for number in found if number is not None]


def typical(verdict: Verdict, odd: Sequence[int]) -> GroupRow | None:
    """The largest group that nobody of those who are named is in; ranks before others."""
    rest = [group for number, group in enumerate(verdict.groups) if number not in odd]
    return max(rest, key=lambda group: (group.role == "rank", len(group.ids)), default=None)


def side_by_side(verdict: Verdict) -> list[dict[str, Any]]:
    """Stacks of those who are named, each beside a typical one; outermost call first, the last common call marked."""
    odd = laggard_groups(verdict)
    usual = typical(verdict, odd)
    if usual is None:
        return []
    return [_pair(verdict.groups[number], usual) for number in odd[:_LAGGARDS]]


def _pair(odd: GroupRow, usual: GroupRow) -> dict[str, Any]:
    one, other = odd.stack[::-1], usual.stack[::-1]
    shared = 0
    for a, b in zip(one, other, strict=False):
        if _LINE.sub("", a) != _LINE.sub("", b):
            break
        shared += 1
        if a != b:  # one call, two lines: here they part
            break
    return {
        "sides": [
            {"who": group.who, "wait": group.wait, "lines": _lines(frames, shared)}
            for group, frames in ((odd, one), (usual, other))
        ],
        "parts_at": one[shared - 1] if shared else "",
    }


def _lines(frames: Sequence[str], shared: int) -> list[dict[str, Any]]:
    lines = [
        {"text": frame, "marked": number == shared - 1, "own": number >= shared} for number, frame in enumerate(frames)
    ]
    if len(lines) <= _FRAMES:
        return lines
    start = max(0, min(shared - _FRAMES // 2, len(lines) - _FRAMES))
    return lines[start : start + _FRAMES]


def over_time(verdict: Verdict, dump: Dump) -> list[dict[str, Any]]:
    """One of each group in its two samples: the innermost calls, and the CPU time between."""
    by_id = _first_of_each(dump)
    rows = []
    for group in verdict.groups[:_SAMPLED]:
        process = by_id.get((group.ids[0], group.role)) if group.ids else None
        if process is None or len(process.samples) < 2:
            continue
        first, last = process.samples[0], process.samples[-1]
        rows.append(
            {
                "who": group.who,
                "progress": group.progress or "–",
                "first": _top(first, group.stack),
                "last": _top(last, group.stack),
                "seconds": round(last.at - first.at, 2),
                "cpu": _difference(first.cpu_seconds, last.cpu_seconds),
                "switches": _difference(first.switches, last.switches),
            }
        )
    return rows


def threads_of(group: GroupRow, dump_by_id: dict[tuple[str, str], Process]) -> list[dict[str, Any]]:
    """All threads of one process of a group, the last sample's."""
    process = dump_by_id.get((group.ids[0], group.role)) if group.ids else None
    if process is None:
        return []
    return [
        {"name": thread.name or "thread", "marks": _marks(thread), "frames": _frames(thread)}
        for thread in process.threads[:_THREADS]
    ]


def first_of_each(dump: Dump) -> dict[tuple[str, str], Process]:
    """The first process of each id and role; children have their rank's id."""
    return _first_of_each(dump)


def await_chains(dump: Dump) -> list[dict[str, Any]]:
    """What the asyncio tasks of each process await; equal chains once, with how many tasks there are in each."""
    found = []
    for owner, tasks in dump.tasks.items():
        chains: dict[tuple[str, ...], list[str]] = {}
        for task in tasks:
            lines = tuple(str(frame) for frame in task.chain)
            chains.setdefault((*lines, f"… {task.waiting_on}" if task.waiting_on else ""), []).append(task.name)
        ordered = sorted(chains.items(), key=lambda item: -len(item[1]))[:_CHAINS]
        found.append(
            {
                "owner": owner,
                "count": len(tasks),
                "chains": [
                    {"many": len(tasks_), "tasks": ", ".join(tasks_[:6]), "lines": [line for line in lines if line]}
                    for lines, tasks_ in ordered
                ],
            }
        )
    return found


def who_is(ids: Iterable[str]) -> str:
    """Ids in few words."""
    return names(ids, most=12)


def _first_of_each(dump: Dump) -> dict[tuple[str, str], Process]:
    found: dict[tuple[str, str], Process] = {}
    for process in dump.processes:
        found.setdefault((process.id, process.role), process)
    return found


def _top(sample: Sample, stack: Sequence[str]) -> list[str]:
    """The innermost calls of the thread that decided, as far as it can be found again; else of the main thread."""
    outermost = stack[-1:] if stack else []
    best = None
    for thread in sample.threads:
        frames = [str(frame) for frame in thread.stack.frames]
        if any(frame in frames for frame in outermost):
            best = frames
            break
    if best is None and sample.threads:
        main = next((thread for thread in sample.threads if thread.is_main), sample.threads[0])
        best = [str(frame) for frame in main.stack.frames]
    return (best or [])[:_TOP]


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else round(after - before, 2)


def _marks(thread: Thread) -> str:
    return ", ".join(
        word for word, is_so in (("runs", thread.active is True), ("holds the interpreter's lock", thread.holds_gil))
        if is_so
    )  # fmt: skip


def _frames(thread: Thread) -> list[str]:
    frames = [str(frame) for frame in thread.stack.frames]
    return frames if len(frames) <= _FRAMES else [*frames[:_FRAMES], f"… {len(frames) - _FRAMES} more"]
