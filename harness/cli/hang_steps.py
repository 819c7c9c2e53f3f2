"""What a dump's verdict offers to run next: about the same processes, and nothing that was done or can't work here."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Sequence

from harness.cli.next_steps import as_typed_here, assigned, through_make, typed
from harness.hang.model import Process
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
    steps = [with_server(step, entries) for step in steps]
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


# What shows more where one dump says nothing, the cheapest first.
LOOK_AGAIN = (
    "make hang-dump GAP=30   # two samples half a minute apart: who gets on slowly moves between them",
    "make hang-dump LOCALS=1   # the values of local variables: what it waits for, which item, which rank",
    "make hang-dump NATIVE=1   # the calls of C below Python, where they end in none of Python's",
)


def where_values_are(folder: str, entries: Sequence[ProcessEntry], laggards: Sequence[str]) -> str:
    """Where the values of ``LOCALS=1`` are to be seen; the command shows those of who is late, else of the first."""
    kept = [entry for entry in entries if any(sample.file for sample in entry.samples)]
    meant = next((entry for entry in kept if entry.id in laggards), kept[0] if kept else None)
    if meant is None:
        return "no stack was taken, and so no local variable"
    file = next(sample.file for sample in meant.samples if sample.file)
    return f'values of local variables: "locals" of each frame, python3 -m json.tool {folder}/{file} | less +/locals'


def with_server(step: str, processes: Iterable[ProcessEntry | Process]) -> str:
    """A step with the address of the one server of a dump; where there is none, or several, it says what is meant."""
    if "SERVER" not in step:
        return step
    servers = [one for one in processes if one.role == "server"]
    # A container's port needn't be one of this machine, and another machine's isn't.
    away = any(one.container or (one.host and one.host != host()) for one in servers)
    ports = {found[1] for one in servers if (found := _PORT.search(one.command))}
    if len(ports) == 1 and not away:
        return step.replace("SERVER", f"127.0.0.1:{ports.pop()}")
    return f"{step}   # SERVER: host:port of the client's base_url"


# How an engine is told its port.
_PORT = re.compile(r"--port[= ](\d{2,5})\b")


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
