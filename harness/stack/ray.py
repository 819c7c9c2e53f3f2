"""Restart our Ray cluster: its containers and no other Ray process on this machine (``ray stop`` would end all)."""

from __future__ import annotations

from typing import Any

from harness import console, docker_engine
from harness.docker_engine import Container
from harness.errors import StackDown
from harness.settings import Settings
from harness.stack.status import recall

STOP_SECONDS = 5
# At this the entry point of `dev` ends its node and joins again as soon as a head answers.
LEAVE = "SIGUSR1"


def restart(client: Any, settings: Settings) -> list[Container]:
    """Restart head and workers; ``dev`` joins again by itself and keeps its shells. Returns the restarted containers.

    On a shared cluster ``dev`` is the head, and nodes on other machines join again by themselves.

    Raises:
        StackDown: there is no ``ray-head``.
    """
    containers = docker_engine.containers(client, settings.project)
    if recall(settings)[0].shared and (heads := [one for one in containers if one.service == "dev"]):
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
