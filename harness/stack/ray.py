"""Restart our Ray cluster: its containers and no other Ray process on this machine (``ray stop`` would end all)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from harness import console, docker_engine
from harness.docker_engine import Container
from harness.errors import StackDown
from harness.settings import Settings
from harness.stack.machines import sharing, worker
from harness.stack.machines.sharing import Node
from harness.stack.plan import Plan
from harness.stack.status import recall

STOP_SECONDS = 5
# At this the entry point of `dev` ends its node and joins again as soon as a head answers.
LEAVE = "SIGUSR1"
# A node on another machine notices after 20 s that its head is gone (docker/dev/entrypoint.sh); then its Ray starts.
REJOIN_SECONDS = 300.0
POLL_SECONDS = 1.0


def restart(client: Any, settings: Settings) -> list[Container]:
    """Restart head and workers; ``dev`` joins again by itself and keeps its shells. Returns the restarted containers.

    On a shared cluster ``dev`` is the head, and nodes on other machines join again by themselves.

    Raises:
        StackDown: there is no head here.
    """
    if worker.is_worker(settings):
        head = worker.head_of(settings)
        raise StackDown(
            f"This machine has no cluster of its own: it is a node of {head}.",
            consequence="Nothing was restarted.",
            mend=f"make restart-ray   # on {head.partition(':')[0]}; for this node alone: make down, then make worker",
        )
    containers = docker_engine.containers(client, settings.project)
    if recall(settings)[0].shared:
        heads = [one for one in containers if one.service == "dev"]
        if not heads:
            raise StackDown(f"The stack `{settings.project}` isn't up: no `dev` container, which is its head.")
        return [_restarted(client, one) for one in heads]
    ray = [c for c in containers if c.service in ("ray-head", "ray-worker")]
    if not any(container.service == "ray-head" for container in ray):
        raise StackDown(f"The stack `{settings.project}` isn't up: no `ray-head` container.")
    # Workers first go and last come: a worker whose head is gone would only fill its log.
    for container in sorted(ray, key=lambda c: c.service, reverse=True):
        client.containers.get(container.id).stop(timeout=STOP_SECONDS)
    for container in containers:
        if container.service == "dev" and container.running:
            client.containers.get(container.id).kill(signal=LEAVE)
    for container in sorted(ray, key=lambda c: c.service):
        with console.step(f"starting {container.name}"):
            client.containers.get(container.id).start()
    return ray


def _restarted(client: Any, container: Container) -> Container:
    with console.step(f"restarting {container.name}"):
        client.containers.get(container.id).restart(timeout=STOP_SECONDS)
    return container


def others(plan: Plan) -> list[Node]:
    """Nodes of a shared cluster that are in reach on other machines; they join a restarted head by themselves."""
    if not plan.shared:
        return []
    found = sharing.nodes(plan.expected, node_manager=plan.ports.node_manager)
    return [node for node in found if node.state == "alive" and node.ip != plan.settings.share]


def wait_for(plan: Plan, before: Iterable[Node]) -> list[Node]:
    """Wait until these have joined again; returns those that haven't, which is no reason to fail."""
    wanted = {node.ip: node for node in before}
    if not wanted:
        return []
    deadline = time.monotonic() + min(plan.settings.wait, REJOIN_SECONDS)
    with console.step("waiting for other machines to join again") as step:
        while True:
            missing = [node for ip, node in wanted.items() if ip not in {one.ip for one in others(plan)}]
            step.text = f"{len(wanted) - len(missing)} of {len(wanted)} other machines have joined again"
            if not missing or time.monotonic() > deadline:
                return missing
            step.update(", ".join(node.host or node.ip for node in missing))
            time.sleep(POLL_SECONDS)
