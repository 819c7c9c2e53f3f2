"""Every node of a Ray cluster, also of one that Drydock didn't start; and Ray's own view of it.

One task pinned to each node carries the sampler there. It asks for no CPU, so that it also starts where all are taken.
Nodes that share their processes with another, or with this place, are sampled once.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from harness.hang.ways import Unreachable, Way
from harness.hang.ways.parcel import build
from harness.processes.sampling import facts
from harness.processes.sampling.dumper import find_py_spy
from harness.processes.sampling.model import NodeAnswer, SampleRequest, plain, unpack
from harness.ray_cluster import Dashboard, Node, RayUnreachable, Session, token
from harness.ray_cluster.driver import TITLE
from harness.ray_cluster.session import Outcome
from harness.ray_cluster.state import Kind

STATE_SECONDS = 8.0
_MOST_ROWS = 2_000
# Before the deadline of whoever asked, so that the reason arrives in time.
_EARLIER = 3.0
# Numbers and containers of this machine.
_NOT_HANDED_ON = frozenset({"pids", "within"})


def find(address: str, *, here: bool = False) -> list[Way]:
    """The nodes of the cluster at an address, and Ray's own state.

    Args:
        here: this PID namespace is sampled anyway, by this process.

    Raises:
        BadSetting: the address names no cluster for sure.
    """
    name = f"Ray at {address}"
    try:
        session = Session(address)
    except RayUnreachable as error:
        return [Closed(name, error.reason)]
    job = _Job(session, here)
    alive_hosts = {node.host for node in session.nodes if node.alive}
    ways: list[Way] = [state(f"http://{session.dashboard}" if session.dashboard else "")]
    for node in session.nodes:
        if node.alive:
            ways.append(RayNode(node, job))
        elif node.host not in alive_hosts:
            ways.append(Closed(node.name, f"Ray has given it up: {node.death or 'no reason is told'}"))
    return ways


def state(url: str, key: str | None = None) -> Way:
    """Ray's own view of a cluster, by its dashboard.

    Args:
        key: the cluster's token; None for the one that Ray's own clients would use here.
    """
    return RayState(Dashboard(url, token() if key is None else key))


class Closed:
    """A way that is known to lead nowhere."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self._reason = reason

    def sample(self, request: SampleRequest, deadline: float) -> NodeAnswer:  # noqa: ARG002
        """Say so."""
        raise Unreachable(self._reason)


class RayNode:
    """One node."""

    def __init__(self, node: Node, job: _Job) -> None:
        self.name = node.name
        self._node, self._job = node, job

    def sample(self, request: SampleRequest, deadline: float) -> NodeAnswer:
        """Have it sampled by the cluster's job, which the first that asks starts."""
        outcome = self._job.outcome_of(self._node.id, request, deadline)
        if outcome.answer is None:
            if outcome.same_as is None:
                raise Unreachable(outcome.error)
            return NodeAnswer(host=self._node.host)
        try:
            answer = unpack(outcome.answer)
        except ValueError as error:
            raise Unreachable(str(error)) from None
        answer.environment["ray_node"] = self._node.id
        return answer

    def stop(self) -> None:
        """Have the cluster end the whole job; samplers wake what they held."""
        self._job.stop()


class _Job:
    """What all nodes of a cluster have in common: one driver, which ends with the last answer."""

    def __init__(self, session: Session, here: bool) -> None:
        self._session, self._here = session, here
        self._outcomes: dict[str, Outcome] = {}
        self._arrived = threading.Condition()
        self._started = False
        self._failed = ""

    def outcome_of(self, node: str, request: SampleRequest, deadline: float) -> Outcome:
        """Wait for a node's outcome."""
        with self._arrived:
            if not self._started:
                self._started = True
                arguments = (request, deadline - _EARLIER)
                threading.Thread(target=self._run, args=arguments, name="ray nodes", daemon=True).start()
            self._arrived.wait_for(
                lambda: node in self._outcomes or self._failed, timeout=max(0.0, deadline - time.monotonic())
            )
            return self._outcomes.get(node) or Outcome(error=self._failed or "it didn't answer in time")

    def stop(self) -> None:
        """End the driver, and with it what it has started."""
        self._session.close()

    def _run(self, request: SampleRequest, deadline: float) -> None:
        reason = "the cluster gave no answer for it"
        try:
            program = find_py_spy()
            own = [(facts.boot_id(), facts.pid_namespace(), os.geteuid())] if self._here else []
            self._session.run(
                build(),
                json.dumps(plain(request, _NOT_HANDED_ON)),
                self._outcomes,
                self._arrived,
                program=Path(program) if program else None,
                seconds=max(1.0, deadline - time.monotonic()),
                skip=own,
            )
        except RayUnreachable as error:
            reason = error.reason
        finally:
            self._session.close()
        with self._arrived:
            self._failed = reason
            self._arrived.notify_all()


class RayState:
    """Ray's actors, tasks that haven't ended, nodes and placement groups, as files of the dump."""

    def __init__(self, dashboard: Dashboard) -> None:
        self.name = f"Ray's dashboard at {dashboard.url or '?'}"
        self._dashboard = dashboard

    def sample(self, request: SampleRequest, deadline: float) -> NodeAnswer:  # noqa: ARG002
        """Ask for the tables; what isn't given is noted and left out."""
        answer = NodeAnswer()
        if not self._dashboard.url:
            answer.notes.append("the Ray cluster has no dashboard, so nothing is known of its actors and tasks")
            return answer
        unfinished: dict[str, Any] = {"state": ("!=", "FINISHED")}
        tables: dict[Kind, dict[str, Any]] = {"actors": {}, "tasks": unfinished, "nodes": {}, "placement_groups": {}}
        for kind, filters in tables.items():
            try:
                rows = self._dashboard.list(kind, limit=_MOST_ROWS, seconds=STATE_SECONDS, **filters)
            except RayUnreachable as error:
                # Not Unreachable: no process is missing from the dump because of it.
                answer.notes.append(f"Ray's view is incomplete: {error.reason}")
                break
            # The dump's own tasks aren't part of what hangs.
            rows = [row for row in rows if not str(row.get("name", "")).startswith(f"{TITLE} ")]
            answer.dumps[f"ray-{kind.replace('_', '-')}.json"] = json.dumps(rows, indent=1, default=str).encode()
        return answer
