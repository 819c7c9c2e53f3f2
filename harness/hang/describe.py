"""What goes with a verdict: the cause in words, next steps, groups, the merged stacks, a row for each process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Any

from harness.hang.causes import CAUSES
from harness.hang.grouping import Node, names, tree
from harness.hang.groups import Group, in_words, members
from harness.hang.model import Frame, Process
from harness.hang.scene import Scene
from harness.hang.verdict import GroupRow, ProcessRow, Verdict


def describe(verdict: Verdict, scene: Scene) -> None:
    """Add words, next steps, groups, tree and processes."""
    about = CAUSES[verdict.cause]
    verdict.title, verdict.means, verdict.elsewhere = about.title, about.means, about.elsewhere
    verdict.next = _next_steps(verdict, scene, about.next)
    verdict.notes = list(scene.dump.notes)
    if not scene.sampled_twice and scene.groups and verdict.state == "hung":
        verdict.notes.append("One sample each: a second one would tell slow from stuck.")
    if scene.recorded is not None:
        verdict.recorder = [row.as_dict() for row in scene.recorded.rows]
    order = sorted(scene.groups, key=lambda group: -len(group))
    coarse: dict[tuple[str, tuple[Frame, ...]], int] = {}
    group_of: dict[int, int] = {}
    for number, group in enumerate(order):
        functions = tuple(Frame(frame.function, frame.file) for frame in group.wait.clean)
        verdict.groups.append(_group_row(group, coarse.setdefault((group.role, functions), len(coarse))))
        group_of |= {id(process): number for process in group.members}
    verdict.tree = _tree(order)
    for process in [*scene.dump.processes, *(p for p in scene.gone if p.id in scene.inferred)]:
        number_or_none = group_of.get(id(process))
        verdict.processes.append(_process_row(process, number_or_none))


def _tree(order: list[Group]) -> list[dict[str, Any]]:
    """The merged stacks with who is in each call; a set of groups is put into words once."""
    words: dict[tuple[int, ...], tuple[str, int]] = {}

    def in_words(node: Node) -> dict[str, Any]:
        # A recursive call puts a group into a node twice.
        key = tuple(dict.fromkeys(node.groups))
        if key not in words:
            inside = members(order[number] for number in key)
            words[key] = (who_all(inside), len(inside))
        who, number = words[key]
        return {
            "frame": str(node.frame),
            "who": who,
            "count": number,
            "children": [*map(in_words, node.children.values())],
        }

    return [in_words(root) for root in tree(group.wait.clean for group in order)]


def who_all(processes: list[Process]) -> str:
    """Who they are, children apart from those to whom they belong."""
    children = [process for process in processes if process.role == "child"]
    rest = [process for process in processes if process.role != "child"]
    return ", ".join(in_words(some) for some in (rest, children) if some)


def _next_steps(verdict: Verdict, scene: Scene, steps: Iterable[str]) -> list[str]:
    """Fill in whom the commands are about; what tells two candidates apart comes first."""
    by_id = {process.id: process for group in scene.groups for process in reversed(group.members)}
    who = verdict.laggards[0] if verdict.laggards else ""
    subject = by_id.get(who)
    if verdict.cause == "data-worker":
        # Its worker is what to look into, where one was dumped.
        stuck = [group for group in scene.children if not group.idle]
        subject = next((child for group in stuck for child in group.members if child.owner == who), subject)
    if subject is None and not who:
        subject = next((process for group in scene.peers for process in group.members), None)
    wanted = list(steps)
    if verdict.confidence == "undecided":
        wanted = tell_apart(verdict.candidates) + wanted
        for other in verdict.candidates[1:]:
            wanted += CAUSES[other].next
    pid = _pid_for(subject, who)
    values = {
        "who": names([who]) if who else "the laggard",
        "pid": pid,
        "rank": str(subject.rank) if subject and subject.rank is not None else "",
    }
    if scene.dump.tasks:
        wanted = [step for step in wanted if "TASKS=1" not in step]  # that was done
    wanted = _on_locks(scene, verdict, wanted)
    wanted = [f"docker unpause {name}" for name in _paused(scene, verdict)] + wanted
    if verdict.gap is not None:
        wanted.insert(0, f"make hang-dump GAP={verdict.gap}   # looks again when who sleeps has woken up")
    filled = [step.format(**values) for step in wanted if not ("{pid}" in step and not pid)]
    return list(dict.fromkeys(filled))[:6]


def tell_apart(candidates: Sequence[str]) -> list[str]:
    """What tells some causes apart, said by one of each two."""
    return [CAUSES[one].apart[other] for one, other in permutations(candidates, 2) if other in CAUSES[one].apart]


def _pid_for(subject: Process | None, who: str) -> str:
    """The number under which whoever reads this sees the process; "" where there is none."""
    if subject is None:
        return "" if who else "PID"
    if subject.here is not None:
        return str(subject.here or "")
    return str(subject.pid or "PID")


def _paused(scene: Scene, verdict: Verdict) -> list[str]:
    if verdict.cause != "stopped":
        return []
    return [name for name, reason in scene.dump.unreachable.items() if "paused" in reason]


def _on_locks(scene: Scene, verdict: Verdict, steps: list[str]) -> list[str]:
    """A lock of the kernel's ends with its holder: somebody has it, and the file is not to be removed."""
    if verdict.cause != "stale-lock" or not any(group.on_file_lock for group in scene.groups):
        return steps
    holder = "fuser -v FILE   # who has it: that process is what to look into; removing the file frees nobody"
    return [holder if step.startswith("fuser") else step for step in steps]


def _group_row(group: Group, coarse: int) -> GroupRow:
    return GroupRow(
        who=group.who,
        ids=group.ids,
        role=group.role,
        kind=group.kind,
        wait=str(group.wait),
        progress=group.progress,
        state=group.state,
        stack=[str(frame) for frame in group.wait.clean],
        coarse=coarse,
    )


def _process_row(process: Process, group: int | None) -> ProcessRow:
    note = process.error
    if process.missing:
        note = note or "expected, not found"
    elif process.exit_code is not None:
        note = f"ended with exit code {process.exit_code}"
    elif process.state == "Z":
        note = "zombie"
    elif group is None and not note:
        note = next((sample.error for sample in process.samples if sample.error), "no stack")
    return ProcessRow(
        process.id, process.role, process.pid, process.rank, process.host, process.container, process.state, group, note
    )
