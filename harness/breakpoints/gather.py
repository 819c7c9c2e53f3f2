"""Reads the cluster: Ray's table of workers, its tasks, and what the processes say of themselves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from harness.breakpoints.ask import NoAgent, ask
from harness.breakpoints.model import Worker
from harness.errors import RayNotReachable
from harness.ray_cluster.address import RayUnreachable, token
from harness.ray_cluster.state import Dashboard

DASHBOARD_PORT = 8265
ASKED_AT_ONCE = 32


def dashboard(environ: Mapping[str, str] = os.environ) -> Dashboard:
    """The dashboard of the cluster that ``RAY_API_SERVER_ADDRESS`` or ``RAY_ADDRESS`` names, else of this machine."""
    if url := environ.get("RAY_API_SERVER_ADDRESS", "").strip():
        return Dashboard(url.rstrip("/"), token(environ))
    host = environ.get("RAY_ADDRESS", "").removeprefix("ray://").rpartition(":")[0] or "127.0.0.1"
    return Dashboard(f"http://{host}:{DASHBOARD_PORT}", token(environ))


def workers(board: Dashboard, *, paused_only: bool) -> list[Worker]:
    """All living workers and drivers, or only those that ever listened for a debugger; each is asked for its status.

    Raises:
        RayNotReachable: the dashboard can't be asked.
    """
    return asked(listed(board, paused_only=paused_only))


def listed(board: Dashboard, *, paused_only: bool = False) -> list[Worker]:
    """The same as Ray's tables have them; none is asked.

    Raises:
        RayNotReachable: the dashboard can't be asked.
    """
    try:
        rows = [row for row in board.list("workers") if _living(row)]
        if paused_only:
            rows = [row for row in rows if row.get("debugger_port") or row.get("num_paused_threads")]
        tasks = _running_tasks(board) if rows else {}
        actors = _living_actors(board) if rows else {}
    except RayUnreachable as error:
        raise RayNotReachable(f"The Ray cluster can't be asked: {error.reason}.") from None
    return [_worker(row, tasks, actors) for row in rows]


def asked(found: Iterable[Worker]) -> list[Worker]:
    """The same, with what each says of itself."""
    found = list(found)
    if not found:
        return []
    with ThreadPoolExecutor(max_workers=min(ASKED_AT_ONCE, len(found))) as pool:
        return list(pool.map(_with_status, found))


def _with_status(worker: Worker) -> Worker:
    try:
        status = ask(worker.ip, worker.pid, {"ask": "status"})
    except NoAgent as error:
        return replace(worker, problem=str(error))
    address = (status.get("debugger") or {}).get("address")
    return replace(
        worker,
        status=status,
        actor=status.get("actor") or worker.actor,
        debugger_port=int(address[1]) if address else worker.debugger_port,
    )


def _living(row: Mapping[str, Any]) -> bool:
    return bool(row.get("is_alive")) and row.get("worker_type") in ("WORKER", "DRIVER") and bool(row.get("pid"))


def _worker(
    row: Mapping[str, Any], tasks: Mapping[str, str], actors: Mapping[tuple[str, int], tuple[str, str]]
) -> Worker:
    actor, name = actors.get((str(row.get("node_id")), int(row["pid"])), ("", ""))
    return Worker(
        ip=str(row.get("ip") or ""),
        pid=int(row["pid"]),
        worker_id=str(row.get("worker_id") or ""),
        node_id=str(row.get("node_id") or ""),
        role=str(row["worker_type"]).lower(),
        debugger_port=int(row.get("debugger_port") or 0),
        paused_threads=int(row.get("num_paused_threads") or 0),
        actor=actor,
        actor_name=name,
        task=tasks.get(str(row.get("worker_id")), ""),
    )


def _living_actors(board: Dashboard) -> dict[tuple[str, int], tuple[str, str]]:
    """Node and PID to the class and the name of the actor that lives there."""
    return {
        (str(row.get("node_id")), int(row["pid"])): (str(row.get("class_name") or ""), str(row.get("name") or ""))
        for row in board.list("actors", state=("=", "ALIVE"))
        if row.get("pid")
    }


def _running_tasks(board: Dashboard) -> dict[str, str]:
    """Worker to the name of the task that runs in it; of several the one that was started last."""
    running = board.list("tasks", state=("=", "RUNNING"))
    running.sort(key=lambda task: float(task.get("start_time_ms") or 0))
    return {str(task["worker_id"]): str(task.get("name") or "") for task in running if task.get("worker_id")}
