"""What a dump of a program's processes says, in the words of its truth."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from harness.hang.folder import ProcessEntry
from harness.hang.verdict import Verdict
from harness.hang.zoo.program import Program

_FURTHEST = 16


def laggards(
    verdict: Verdict, entries: Sequence[ProcessEntry], names: Mapping[int, str], program: Program
) -> list[str]:
    """Whom the verdict names, called as the truth calls them.

    Args:
        entries: all processes of the dump.
        names: number of each process that was started, and its name.
    """
    return sorted({_called(one, entries, names, program.laggards) for one in verdict.laggards})


def _called(id_: str, entries: Sequence[ProcessEntry], names: Mapping[int, str], wanted: Sequence[str]) -> str:
    entry = next((entry for entry in entries if entry.id == id_), None)
    if entry is None or id_.startswith("rank"):
        return id_
    if entry.pid in names:
        return names[entry.pid]
    if entry.command.startswith("ray::"):
        return next((word for word in wanted if re.search(rf"\b{re.escape(word)}\b", entry.command)), entry.command)
    by_pid = {each.pid: each for each in entries if each.pid}
    above: ProcessEntry | None = entry
    for _ in range(_FURTHEST):
        if above is None or above.ppid in names:
            break
        above = by_pid.get(above.ppid)
    return f"{names[above.ppid]}/child" if above is not None else id_
