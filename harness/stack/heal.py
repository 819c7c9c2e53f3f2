"""Mend containers that are no use: what was killed, stopped or wedged is kept as evidence, then started anew."""

from __future__ import annotations

import json
from typing import Any

import docker.errors

from harness import console, docker_engine
from harness.runs import RunFolder
from harness.settings import Settings
from harness.stack.observe import Service

# A stopped process can't act on SIGTERM; a healthy one needs little time.
STOP_SECONDS = 3


def heal(client: Any, settings: Settings, services: list[Service]) -> list[str]:
    """Get every broken service out of the way of ``docker compose up``; returns the names of those healed.

    A dead container is started again by Compose; one that is paused goes on; one that hangs is ended here; one whose
    network is gone is removed, for Compose would only start it and fail.
    """
    broken = [s for s in services if s.condition in ("exited", "paused", "stopped", "unhealthy") and s.expected]
    for service in broken:
        console.warn(f"{service.name}: {service.detail}; it is started again")
    hanging = [service for service in broken if service.condition != "paused"]
    if hanging:
        place = keep_evidence(client, settings, hanging)
        console.note(f"what it left is kept in {place}")
    for service in broken:
        for container in service.containers:
            found = client.containers.get(container.id)
            if container.status == "paused":
                found.unpause()
            elif container.running:
                found.stop(timeout=STOP_SECONDS)
    for container in docker_engine.cut_off(client, [one for service in services for one in service.containers]):
        client.containers.get(container.id).remove(force=True)
    return [service.name for service in broken]


def keep_evidence(client: Any, settings: Settings, services: list[Service]) -> str:
    """Save logs and state of containers that are about to be started anew; returns the folder."""
    with RunFolder.create(settings.runs_dir, "heal") as folder:
        for service in services:
            for container in service.containers:
                folder.write_text(f"{container.name}.log", docker_engine.log_tail(client, container.id, lines=5000))
        folder.write_text("services.json", json.dumps([service.as_dict() for service in services], indent=2))
    return str(folder.path)


def remove_unwanted(client: Any, services: list[Service]) -> None:
    """Remove containers of services that the plan no longer has, or more of them than it has."""
    for service in services:
        surplus = service.containers[service.expected :]
        for container in surplus:
            try:
                client.containers.get(container.id).remove(force=True, v=True)
            except docker.errors.NotFound:
                continue
        if surplus:
            console.note(
                f"{service.name}: {len(surplus)} container{'s' * (len(surplus) > 1)} removed, no longer asked for"
            )
