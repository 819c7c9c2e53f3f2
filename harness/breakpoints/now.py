"""Who is paused now: gather, number and decide in one go."""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness.breakpoints import decide, gather, numbers, started
from harness.breakpoints.model import Paused, Worker
from harness.errors import NothingPaused, RayNotReachable
from harness.settings import Settings


def paused_now(settings: Settings) -> list[Paused]:
    """All threads that wait, and all processes that a debugger holds.

    Raises:
        RayNotReachable: the cluster can't be asked, and nothing beside it waits.
    """
    unreachable = None
    try:
        found = gather.workers(gather.dashboard(), paused_only=True)
    except RayNotReachable as error:
        found, unreachable = [], error
    found += started.processes({worker.pid for worker in found})
    if unreachable is not None and not found:
        raise unreachable
    return decide.paused(found, numbers.of(found, _folder(settings)))


def meant(settings: Settings, session: int = 0, pid: int = 0) -> Paused:
    """The one that ``SESSION=`` or ``PID=`` names; a PID may be that of any process, also one that only runs.

    Raises:
        NothingPaused: there is none.
    """
    try:
        lines = paused_now(settings)
    except Exception:
        if not pid:
            raise
        lines = []  # no cluster is needed for a process of this machine
    try:
        return decide.chosen(lines, session, pid)
    except NothingPaused:
        if not pid:
            raise
    return Paused(number=pid, worker=_running(pid), state="runs")


def session_or_pid(settings: Settings, number: int) -> Paused:
    """What a person means by a number at the debugger's prompt: a session, else any process.

    Raises:
        NothingPaused: there is neither.
    """
    for line in paused_or_none(settings):
        if line.number == number:
            return line
    return meant(settings, pid=number)


def paused_or_none(settings: Settings) -> list[Paused]:
    """The same, none where there is no cluster: a process of this machine needs none."""
    try:
        return paused_now(settings)
    except RayNotReachable:
        return []


def _running(pid: int) -> Worker:
    try:
        workers = gather.workers(gather.dashboard(), paused_only=False)
    except Exception:  # noqa: BLE001  # no cluster, or one that doesn't answer: it may be a process of this machine
        workers = []
    for worker in workers:
        if worker.pid == pid:
            return worker
    return gather.asked([Worker(ip="127.0.0.1", pid=pid, role="process")])[0]


def _folder(settings: Settings) -> Path:
    """Where numbers are kept: with the stack's state, in a container under /tmp."""
    from harness.places import in_container

    return Path(tempfile.gettempdir()) / "drydock-breakpoints" if in_container() else settings.state_dir
