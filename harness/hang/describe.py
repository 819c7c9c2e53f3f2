"""What goes with a verdict: the cause in words, next steps, groups, the merged stacks, a row for each process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Any

from harness.hang.causes import CAUSES
from harness.hang.grouping import Node, names, tree
from harness.hang.groups import Group, in_words, members
from harness.hang.model import Frame, Process
from harness.hang.scene import Scene
from harness.hang.verdict import GroupRow, ProcessRow, Verdict

# A frame of compiled code whose name is in no table of symbols.
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+$")
# In these functions a thread stands until a debugger lets it go on.
_AT_BREAKPOINT = {
    "block_until_configuration_done": "pydevd",
    "do_wait_suspend": "pydevd",
    "_do_wait_suspend": "pydevd",
    "wait_for_client": "debugpy",
    "interaction": "pdb",
}
_DEBUGGER = re.compile(r"(?:^|/)(?:_?pydevd\w*|debugpy|pdb|bdb|cmd|rpdb|ray/util/debugpy)(?:/|\.py$)")


def describe(verdict: Verdict, scene: Scene) -> None:
    """Add words, next steps, groups, tree and processes."""
    about = CAUSES[verdict.cause]
    verdict.title, verdict.means, verdict.elsewhere = about.title, about.means, about.elsewhere
    verdict.next = _next_steps(verdict, scene, about.next)
    _as_pool(verdict, scene)
    _tell_of_breakpoints(verdict, scene)
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

    return [in_words(root) for root in tree(plain(group.wait.clean) for group in order)]


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


def _as_pool(verdict: Verdict, scene: Scene) -> None:
    """Whose workers aren't a DataLoader's has a pool of processes, and no `num_workers` to set."""
    loader = any(group.kind == "dataloader" or _loads(group) for group in scene.groups)
    if verdict.cause != "data-worker" or loader:
        return
    verdict.title = "a worker of a pool is stuck"
    verdict.means = "A process waits for a result that the processes of its pool don't deliver."
    verdict.elsewhere = (
        "In what was locked when the worker was forked, or in the function that the pool runs. "
        'multiprocessing.get_context("spawn"), or forking before threads start, avoids the first.'
    )
    verdict.evidence = [
        text.replace("for its data workers", "for the workers of its pool") for text in verdict.evidence
    ]
    verdict.next = [step for step in verdict.next if "num_workers" not in step]
    verdict.next.append('multiprocessing.get_context("spawn").Pool(…)   # does it hang with that, too?')


def _loads(group: Group) -> bool:
    return any(
        "torch/utils/data/" in frame.file
        for process in group.members[:1]
        for thread in process.threads
        for frame in thread.stack.frames
    )


def _tell_of_breakpoints(verdict: Verdict, scene: Scene) -> None:
    """Who stands at a breakpoint waits for a person, whatever else waits for it."""
    standing: list[tuple[Group, Frame | None, str]] = []
    for group in scene.groups:
        # They stand alike; a hundred thousand needn't be looked at.
        threads = group.members[0].threads if group.members else ()
        place = next((found for thread in threads if (found := breakpoint_of(thread.stack.frames))), None)
        if place is not None:
            standing.append((group, *place))
    if not standing:
        return
    told = [f"{group.who} at {short(frame)}" if frame else group.who for group, frame, _ in standing[:4]]
    more = f" and {len(standing) - 4} more" if len(standing) > 4 else ""
    verdict.evidence.insert(0, f"At a breakpoint, until somebody lets them go on: {', '.join(told)}{more}.")
    steps = ["make breakpoints   # who stands there, and how to get at them"]
    if all(debugger == "pdb" for *_, debugger in standing):
        steps = ["type `c` where it was started: pdb reads that terminal, and nothing else lets it go on"]
    verdict.next[:0] = steps


def breakpoint_of(frames: Sequence[Frame]) -> tuple[Frame | None, str] | None:
    """The line of the user's at which a thread waits for a debugger, and for which; None where it waits for none."""
    for number, frame in enumerate(frames):
        debugger = _AT_BREAKPOINT.get(frame.function)
        if debugger and _DEBUGGER.search(frame.file) and debugger in frame.file:
            # Further out may be a debugger as well, which has started the program.
            outside = (one for one in frames[number:] if not one.is_native and not _DEBUGGER.search(one.file))
            return next(outside, None), debugger
    return None


def short(frame: Frame) -> str:
    """A place in few letters."""
    return f"{frame.file.rpartition('/')[2]}:{frame.line}"


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
        stack=[str(frame) for frame in plain(group.wait.clean)],
        coarse=coarse,
        threads=_beside(group),
    )


def _beside(group: Group) -> list[tuple[str, list[str]]]:
    """The threads of a group's first process beside the one that decides; equal ones together."""
    alike: dict[tuple[Frame, ...], list[str]] = {}
    for thread in group.members[0].threads if group.members else ():
        decides = thread is group.standing.thread or (thread.is_main and group.standing.thread.is_main)
        if not decides and thread.stack.frames:
            alike.setdefault(plain(thread.stack.frames), []).append(thread.name or "thread")
    return [(few(threads), [str(frame) for frame in frames]) for frames, threads in alike.items()]


def few(threads: Sequence[str]) -> str:
    """Names of threads that stand alike, in few words."""
    some = list(dict.fromkeys(threads))
    return ", ".join(some[:3]) + (f" and {len(some) - 3} more" if len(some) > 3 else "")


def plain(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """A stack without bare addresses, which differ with each start and say nothing; all where that is all."""
    named = tuple(frame for frame in frames if not _ADDRESS.match(frame.name))
    return named or frames


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
