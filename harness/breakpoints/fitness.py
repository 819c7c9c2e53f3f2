"""Whether debugging would work: gathers what the cluster, its processes and this one say of it, as plain data."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import psutil

from harness.breakpoints import gather
from harness.breakpoints.ask import NoAgent, ask
from harness.breakpoints.inside import AGENT_PORTS
from harness.breakpoints.inside import fitness as inside
from harness.breakpoints.model import Worker
from harness.errors import RayNotReachable
from harness.ray_cluster.address import RayUnreachable
from harness.ray_cluster.state import Dashboard

ASK_SECONDS = 4.0
RELAY = "http://127.0.0.1:8265"


@dataclass(frozen=True)
class Process:
    """A worker or driver, and what it says of itself (inside/fitness.py); None where it can't be asked."""

    worker: Worker
    says: Mapping[str, Any] | None = None
    problem: str = ""

    @property
    def name(self) -> str:
        """What people call it, and where it is."""
        return f"{self.worker.name} ({self.worker.ip} {self.worker.pid})"


@dataclass(frozen=True)
class Scene:
    """All that is known.

    Attributes:
        url: the dashboard that was asked.
        problem: why it can't be; "" where it answers.
        session: the cluster's session; one a start.
        here: what this process says of itself; versions here are what the others are held against.
        relay: in `dev`: why its relay doesn't give the dashboard, "" where it does; None elsewhere.
        strangers: processes of this node that have joined another cluster, by PID and session.
        host: this machine's or container's own name.
        files: path to checksum of what the processes have loaded, as it is here; None where there is no such file.
    """

    url: str
    problem: str = ""
    session: str = ""
    here: Mapping[str, Any] = field(default_factory=dict)
    processes: tuple[Process, ...] = ()
    relay: str | None = None
    strangers: tuple[tuple[int, str], ...] = ()
    host: str = field(default_factory=socket.gethostname)
    files: Mapping[str, int | None] = field(default_factory=dict)


def scene(environ: Mapping[str, str] = os.environ, *, in_dev: bool = False) -> Scene:
    """Ask everybody; whoever doesn't answer is part of the scene."""
    board = gather.dashboard(environ)
    # On a shared cluster there is none: `dev` is in the machine's network, whose other users it would let in.
    relay = _through_relay() if in_dev and not environ.get("DRYDOCK_SHARE") else None
    here = inside.of_this_process()
    try:
        session = str((board.get("/api/version", seconds=ASK_SECONDS) or {}).get("session_name") or "")
        found = gather.workers(board, paused_only=False)
    except RayUnreachable as error:
        return Scene(board.url, problem=error.reason, here=here, relay=relay, strangers=_strangers(""))
    except RayNotReachable as error:
        return Scene(board.url, problem=error.what, here=here, relay=relay, strangers=_strangers(""))
    processes = _asked(found)
    loaded = {str(name) for process in processes for name, _ in (process.says or {}).get("files", ())}
    return Scene(
        url=board.url,
        session=session,
        here=here,
        processes=processes,
        relay=relay,
        strangers=_strangers(session),
        files={name: checksum for name, checksum in inside.files(sorted(loaded))},
    )


def _asked(workers: Iterable[Worker]) -> tuple[Process, ...]:
    workers = list(workers)
    with ThreadPoolExecutor(max_workers=max(min(gather.ASKED_AT_ONCE, len(workers)), 1)) as pool:
        return tuple(pool.map(_one, workers))


def _one(worker: Worker) -> Process:
    if worker.problem:
        return Process(worker, problem=worker.problem)
    try:
        return Process(worker, ask(worker.ip, worker.pid, {"ask": "fitness"}, timeout=ASK_SECONDS))
    except NoAgent as error:
        return Process(worker, problem=str(error))


def _through_relay() -> str:
    """What an editor's extension sees, without a token; "" where all is well."""
    try:
        Dashboard(RELAY).get("/api/version", seconds=ASK_SECONDS)
    except RayUnreachable as error:
        return error.reason
    return ""


def _strangers(session: str) -> tuple[tuple[int, str], ...]:
    """Processes of this node with the hook that are in another session; those that can't be asked are left out."""
    found = []
    for ip, pid in _listeners():
        try:
            theirs = str(ask(ip, pid, {"ask": "fitness"}, timeout=ASK_SECONDS).get("session") or "")
        except NoAgent:
            continue
        if theirs and theirs != session:
            found.append((pid, theirs))
    return tuple(found)


def _listeners() -> list[tuple[str, int]]:
    """Address and PID of what listens on a port of ours on this node."""
    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return []
    return sorted(
        {
            (str(c.laddr.ip), c.pid)
            for c in connections
            if c.status == psutil.CONN_LISTEN and c.pid and c.laddr and c.laddr.port in AGENT_PORTS
        }
    )
