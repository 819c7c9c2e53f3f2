"""What a dump's verdict offers to run next: about the same processes, and nothing that was done or can't work here."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence

from harness.cli.next_steps import as_typed_here, assigned, through_make, typed
from harness.processes.gdb import why_not
from harness.processes.sampling.dumper import find_py_spy
from harness.processes.sampling.facts import host
from harness.processes.sampling.model import ProcessEntry
from harness.settings import Settings

# Whom a dump is about.
TARGETS = ("pids", "containers", "match", "via", "hosts", "remote", "ray_address")
_SWITCHES = ("locals", "native", "tasks")


def fitting(
    steps: Sequence[str],
    settings: Settings,
    entries: Sequence[ProcessEntry],
    *,
    everything: bool = False,
    tasks_work: Callable[[Sequence[ProcessEntry]], bool] | None = None,
) -> list[str]:
    """A verdict's steps as they are typed here.

    Args:
        entries: what was sampled.
        everything: all of Python's processes were asked for.
        tasks_work: whether await chains can be had of one of them; looked at where a step asks for these.
    """
    repeated = typed(settings, TARGETS)
    if everything and not repeated and through_make():
        repeated = {"match": "."}  # a flag can't be typed after make
    kept: list[str] = []
    for step in steps:
        wanted = assigned(step)
        if step.startswith("make hang-dump") and _is_done(wanted, settings):
            continue
        if step.startswith("make check") and repeated:
            continue  # it asks the server of our own stack, and this dump may be about anybody's
        if "tasks" in wanted and not (tasks_work or can_take_tasks)(entries):
            continue
        kept.append(_with_py_spy(as_typed_here(step, repeated)))
    return list(dict.fromkeys(kept))


def _is_done(wanted: dict[str, str], settings: Settings) -> bool:
    """Whether this very dump had all of that; a plain one it is itself."""
    if not set(wanted) <= {*_SWITCHES, "gap"}:
        return False
    return all(
        settings.gap >= float(value) if name == "gap" else getattr(settings, name) for name, value in wanted.items()
    )


def can_take_tasks(entries: Sequence[ProcessEntry]) -> bool:
    """Whether ``TASKS=1`` can get at one of them: never in another container or on another machine."""
    near = [entry for entry in entries if not entry.container and entry.host == host() and entry.python]
    if any(_version(entry.python) >= (3, 14) for entry in near):
        return True
    gdb = shutil.which("gdb")
    return gdb is not None and any(_version(entry.python) >= (3, 10) for entry in near) and not why_not(gdb)


def _version(text: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _with_py_spy(step: str) -> str:
    """py-spy where the wheel's requirement put it, if no shell would find it."""
    if not step.startswith("py-spy ") or shutil.which("py-spy"):
        return step
    program = find_py_spy()
    return f"{os.path.relpath(program) if program else 'py-spy'}{step.removeprefix('py-spy')}"
