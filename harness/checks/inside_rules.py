"""Judgements on what a run does inside its process: whether it blocks the event loop, what it leaves behind; pure.

Both are rules of the lint as well, which sees them in the source. What a run shows is sure where the source isn't:
a call that blocks behind a library, an attribute that a helper sets.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from harness.checks.findings import Finding, Place
from harness.checks.gather import Gathered
from harness.checks.lint.contract_rules import STATE_ON_SELF
from harness.checks.lint.loop_rules import BLOCKING_CALL
from harness.checks.lint.program import Program
from harness.checks.scaling import is_machinery

# Seconds at one line, within callbacks that hold the loop up, from which it is told: asleep in a system call, and
# computing. What happens once, at first use, takes some tenths of a second.
BLOCKS, COMPUTES = 0.1, 1.0

# What has nothing to wait for: asleep in there is a thread that waits for the interpreter's lock, or for a page of a
# program that another has pushed out of memory.
_MODULES = frozenset(
    {"typing.py", "typing_extensions.py", "inspect.py", "functools.py", "dataclasses.py", "copy.py", "enum.py"}
)
_PACKAGES = re.compile(r"/(?:json|re)/\w+\.py$|/pydantic/")

# Where the standard library forks and waits until the child runs its own program.
_STARTS = frozenset({("subprocess.py", "_execute_child"), ("popen_fork.py", "_launch"), ("util.py", "spawnv_passfds")})


def judge(run: Gathered, program: Program | None) -> list[Finding]:
    """What was seen, without what a comment in the source takes out."""
    inside = run.trace.event("inside")
    if inside is None:
        return []
    return [*_stalls(inside["stalls"], program), *_state(inside["changed"], program)]


def _stalls(stalls: list[dict[str, Any]], program: Program | None) -> Iterator[Finding]:
    """One finding for what sleeps and one for what computes, each at the line that took the most."""
    for waiting, limit in ((True, BLOCKS), (False, COMPUTES)):
        lines: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
        for stall in stalls:
            own = [frame for frame in stall["frames"] if frame["own"]]
            sleeps = stall["waiting"] and not _only_computes(stall["frames"][-1])
            if sleeps is not waiting or not _is_the_agents(stall["frames"], program):
                continue
            # What an SDK computes for a call, most of it at its first use, is the same for anybody.
            if waiting or not is_machinery(frame["file"] for frame in stall["frames"] if not frame["own"]):
                lines[own[-1]["file"], own[-1]["line"]].append(stall)
        totals = {line: sum(stall["seconds"] for stall in at) for line, at in lines.items()}
        kept = [line for line, seconds in totals.items() if seconds >= limit]
        if not kept:
            continue
        worst = max(kept, key=lambda line: totals[line])
        frames = max(lines[worst], key=lambda stall: float(stall["seconds"]))["frames"]
        stack = tuple(_place(frame) for frame in frames if frame["own"])
        inner = frames[-1]
        at = "" if inner["own"] else f" in {inner['function']} ({'/'.join(inner['file'].split('/')[-2:])})"
        how = "stood still" if waiting else "computed"
        more = f"; {len(kept) - 1} other lines as well" if len(kept) > 1 else ""
        yield BLOCKING_CALL.finding(
            f"the event loop {how} for {totals[worst]:.2f} s{at}{more}",
            status="fail" if waiting else "warn",
            mend=None if waiting else "await asyncio.to_thread(function, …), or a pool of processes",
            id=BLOCKING_CALL.id if waiting else "run.computes",
            place=stack[-1],
            stack=stack,
            facts={"seconds": round(totals[worst], 3), "lines": len(kept)},
        )


def _is_the_agents(frames: list[dict[str, Any]], program: Program | None) -> bool:
    """Below a line of the user's, and neither an import, which happens once, nor the start of a process."""
    own = [frame for frame in frames if frame["own"]]
    if not own or any("importlib" in frame["file"] for frame in frames) or _starts_a_process(frames[-1]):
        return False
    return program is None or not program.ignores_where(BLOCKING_CALL.code, own[-1]["file"], own[-1]["line"])


def _only_computes(frame: dict[str, Any]) -> bool:
    """Whether a frame is of a module without any call that blocks."""
    file = frame["file"]
    return not frame["own"] and (file.rpartition("/")[2] in _MODULES or bool(_PACKAGES.search(file)))


def _starts_a_process(frame: dict[str, Any]) -> bool:
    """Whether it waits for a child that has yet to get a processor and to exec: how long says how busy the machine is.

    ``asyncio.create_subprocess_exec`` waits there as well; waiting for what the child *does* has frames of its own.
    """
    return not frame["own"] and (frame["file"].rpartition("/")[2], frame["function"]) in _STARTS


def _state(changed: list[dict[str, str]], program: Program | None) -> Iterator[Finding]:
    if not changed or (program is not None and _ignores_state(program)):
        return
    shown = ", ".join(f"self.{one['name']} from {one['before']} to {one['after']}" for one in changed[:3])
    more = f", and {len(changed) - 3} more" if len(changed) > 3 else ""
    yield STATE_ON_SELF.finding(f"the run changed {shown}{more}", facts={"changed": changed[:50]})


def _ignores_state(program: Program) -> bool:
    """Whether a comment takes the rule out somewhere; at which line an attribute was set nobody saw."""
    return any(STATE_ON_SELF.code in codes for module in program.modules.values() for codes in module.ignored.values())


def _place(frame: dict[str, Any]) -> Place:
    return Place(file=frame["file"], line=frame["line"], function=frame["function"], source=frame["source"])
