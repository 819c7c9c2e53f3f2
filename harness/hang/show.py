"""Puts a verdict on the terminal: a few lines first, then groups and the merged tree, then every process."""

from __future__ import annotations

import re
from typing import Any

from harness import console
from harness.hang.grouping import names
from harness.hang.verdict import GroupRow, Verdict
from harness.printable import printable

_FEW_GROUPS, _FEW_FRAMES, _FEW_PROCESSES, _FEW_NOTES, _FEW_THREADS = 8, 8, 24, 6, 4
# Where a thread of anybody's waits, which doesn't tell whose it is.
_STANDARD = re.compile(
    r"\((?:threading|queue|selectors|socket|ssl|subprocess|concurrent/.*|multiprocessing/.*|asyncio/.*)\.py:|\.so|\(\)$"
)
# A flag can't be typed after make.
_MORE = "harness hang-dump --all shows them, and so does the page"
# What goes with a verdict that decides nothing, for it shares its exit code with a clean bill of health.
NOT_SHOWN = (
    "exit code 0 means here: no hang was shown. It doesn't mean that nothing hangs; `state` in --json tells them apart"
)
_HEADS = {
    "hung": (console.bad, "Hung"),
    "slow": (console.warn, "Slow, not stuck"),
    "idle": (console.ok, "Idle"),
    "done": (console.ok, "Ended"),
    "unknown": (console.note, "Unknown"),
}


def show(verdict: Verdict, everything: bool = False) -> None:
    """Print a verdict.

    Args:
        everything: whole stacks of all groups, and every process.
    """
    _summary(verdict)
    _groups(verdict, everything)
    _tree(verdict)
    _recorder(verdict)
    _processes(verdict, everything)
    _notes(verdict)


def _summary(verdict: Verdict) -> None:
    say, word = _HEADS[verdict.state]
    if verdict.state == "slow" and "python-loop" in verdict.candidates:
        word = "Slow, or in a loop without end"
    say(f"{word}: {_what(verdict)}")
    if verdict.laggards:
        _line(f"  who        {names(verdict.laggards, most=12)}")
    if verdict.means and verdict.cause not in ("none", "unknown"):
        _line(f"  means      {verdict.means}")
    for number, text in enumerate(verdict.evidence):
        _line(f"  {'because' if number == 0 else '':<10} {text}")
    if verdict.elsewhere and verdict.state in ("hung", "slow") and verdict.cause != "none":
        _line(f"  mistake    may sit elsewhere. {verdict.elsewhere}")
    if verdict.runners_up and verdict.confidence != "certain":
        others = [
            f"{cause} {score:.2f}" for cause, score in verdict.runners_up.items() if cause not in verdict.candidates
        ]
        if others:
            _line(f"  considered {', '.join(others)}")
    for step in verdict.next:
        console.mend(printable(step))


def _what(verdict: Verdict) -> str:
    if verdict.confidence == "undecided" and len(verdict.candidates) == 2:
        return f"undecided between {verdict.candidates[0]} and {verdict.candidates[1]}"
    if verdict.cause in ("none", "unknown"):
        return verdict.title
    return f"{verdict.title} ({verdict.cause}, {verdict.confidence})"


def _count(number: int, what: str, more: str = "s") -> str:
    return f"{number} {what}{more if number != 1 else ''}"


def _groups(verdict: Verdict, everything: bool) -> None:
    if not verdict.groups:
        return
    console.line()
    coarse = len({group.coarse for group in verdict.groups})
    same = f", {coarse} by function" if coarse != len(verdict.groups) else ""
    console.heading(f"{_count(len(verdict.groups), 'group')} of equal stacks{same}")
    shown = verdict.groups if everything else verdict.groups[:_FEW_GROUPS]
    for group in shown:
        _group(group, everything)
    if len(shown) < len(verdict.groups):
        console.note(f"{len(verdict.groups) - len(shown)} more groups; {_MORE}")


def _group(group: GroupRow, everything: bool) -> None:
    marks = [mark for mark in (group.role, group.progress, group.state and f"state {group.state}") if mark]
    _line(f"{group.who}  [{', '.join(marks)}]")
    frames = group.stack if everything else group.stack[:_FEW_FRAMES]
    for frame in frames:
        _line(f"    {frame}")
    if len(frames) < len(group.stack):
        _line(f"    … {len(group.stack) - len(frames)} more")
    _threads(group, everything)


def _threads(group: GroupRow, everything: bool) -> None:
    """The other threads of one of them: where each is, or its whole stack."""
    if not group.threads:
        return
    one = f" of {group.ids[0]}" if len(group.ids) > 1 else ""
    if everything:
        for name, stack in group.threads:
            _line(f"  thread {name}{one}")
            for frame in stack:
                _line(f"    {frame}")
        return
    some = [f"{name} in {_telling(stack)}" for name, stack in group.threads[:_FEW_THREADS]]
    left = len(group.threads) - len(some)
    _line(f"  other threads{one}: {'; '.join(some)}" + (f"; {left} more" if left > 0 else ""))


def _telling(stack: list[str]) -> str:
    """The innermost call that no library of Python's own makes."""
    return next((frame for frame in stack if not _STANDARD.search(frame)), stack[0])


def _tree(verdict: Verdict) -> None:
    """The merged stacks from the outside in; a way on which nobody leaves is one line."""
    if len(verdict.groups) < 2:
        return
    console.line()
    console.heading("merged, outermost call first")
    for root in verdict.tree:
        _branch(root, 0)


def _branch(node: dict[str, Any], depth: int) -> None:
    way = [node["frame"]]
    while len(node["children"]) == 1 and node["children"][0]["count"] == node["count"]:
        node = node["children"][0]
        way.append(node["frame"])
    text = way[0] if len(way) == 1 else f"{way[0]} … {way[-1]}" if len(way) > 2 else f"{way[0]} > {way[1]}"
    _line(f"{'  ' * depth}{text}   {node['who']}")
    for child in node["children"]:
        _branch(child, depth + 1)


def _recorder(verdict: Verdict) -> None:
    if verdict.recorder:
        console.line()
        console.heading("Flight Recorder: the operation in question")
        columns = ["ranks", "group", "sequence", "operation", "sizes", "dtypes"]
        console.table(columns, [[printable(str(row[column])) for column in columns] for row in verdict.recorder])


def _processes(verdict: Verdict, everything: bool) -> None:
    rows = verdict.processes
    if not everything:
        # What needs no second look is left out where there is much.
        rows = rows if len(rows) <= _FEW_PROCESSES else [row for row in rows if row.note or row.id in verdict.laggards]
        rows = rows[:_FEW_PROCESSES]
    if not rows:
        return
    console.line()
    console.heading(_count(len(verdict.processes), "process", "es"))
    table = []
    for row in rows:
        group = "" if row.group is None else verdict.groups[row.group].wait
        where = row.container or row.host
        pid = str(row.pid) if row.pid else ""
        child = row.role == "child" and row.id.startswith("rank")
        called = f"{row.id}'s child {pid}" if child else row.id
        table.append([printable(cell, 120) for cell in (called, row.role, pid, where, row.state, row.note or group)])
    console.table(["id", "role", "pid", "where", "state", "waits in"], table)
    if len(rows) < len(verdict.processes):
        console.note(f"{len(verdict.processes) - len(rows)} more; {_MORE}")


def _notes(verdict: Verdict) -> None:
    if verdict.notes:
        console.line()
    for text in verdict.notes[:_FEW_NOTES]:
        console.note(printable(text, 400))
    if len(verdict.notes) > _FEW_NOTES:
        console.note(f"{len(verdict.notes) - _FEW_NOTES} more notes; --json has them")


def _line(text: str) -> None:
    console.line(printable(text))
