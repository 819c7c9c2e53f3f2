"""Restart our Ray cluster: its containers and no other Ray process on this machine (``ray stop`` would end all)."""

from __future__ import annotations

from typing import Any

from harness import console, docker_engine
from harness.docker_engine import Container
from harness.errors import StackDown
from harness.settings import Settings

STOP_SECONDS = 5
# At this the entry point of `dev` ends its node and joins again as soon as a head answers.
LEAVE = "SIGUSR1"


def restart(client: Any, settings: Settings) -> list[Container]:
    """Restart head and workers; ``dev`` joins again by itself and keeps its shells. Returns the restarted containers.

    Raises:
        StackDown: there is no ``ray-head``.
    """
    containers = docker_engine.containers(client, settings.project)
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
