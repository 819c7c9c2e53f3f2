"""Take the stack down (everything comes back with `up`), or remove all that is ours."""

from __future__ import annotations

import subprocess
from typing import Any

import docker.errors

from harness import docker_engine
from harness.docker_engine import PROJECT_LABEL
from harness.errors import ComposeFailed
from harness.settings import Settings
from harness.stack import beside, samplers

# On a machine under load the engine kills a container and doesn't hear of its end in time ("tried to kill container,
# but did not receive an exit event"); Compose gives up then, and a moment later the container has ended.
TRIES = 3


def down(client: Any, settings: Settings) -> list[str]:
    """Stop and remove the containers and the network; returns the containers' names.

    Compose finds them by its labels, so this works without the files and settings that they were made with.
    Volumes, weights, images and results stay.

    Raises:
        ComposeFailed: a container could not be removed.
    """
    names = [container.name for container in docker_engine.containers(client, settings.project)]
    beside.remove_left(client, settings.project)
    samplers.remove(client, settings.project)
    # A paused container can't be stopped on every engine that we support.
    for container in client.containers.list(
        filters={"label": f"{PROJECT_LABEL}={settings.project}", "status": "paused"}
    ):
        container.unpause()
    _compose_down(settings.project)
    (settings.state_dir / "applied").unlink(missing_ok=True)
    return names


def _compose_down(project: str) -> None:
    for attempt in range(1, TRIES + 1):
        done = subprocess.run(
            ["docker", "compose", "-p", project, "down", "--remove-orphans", "--timeout", "5"],
            cwd="/",  # else Compose would read a compose.yaml that lies around, and miss its variables
            capture_output=True,
            text=True,
            env=docker_engine.clean_environment(),
            check=False,
        )
        if done.returncode == 0:
            return
        if attempt == TRIES:
            raise ComposeFailed(
                f"docker compose down gave up (exit code {done.returncode}).",
                logs=done.stderr[-2000:],
                mend="make doctor",
            )


def remove_volumes(client: Any, settings: Settings) -> list[str]:
    """Remove the project's volumes; returns their names."""
    removed = []
    for volume in client.volumes.list(filters={"label": f"{PROJECT_LABEL}={settings.project}"}):
        volume.remove(force=True)
        removed.append(volume.name)
    return removed


def remove_networks(client: Any, settings: Settings) -> None:
    """Remove networks that a cut-short `down` left."""
    for network in client.networks.list(filters={"label": f"{PROJECT_LABEL}={settings.project}"}):
        try:
            network.remove()
        except docker.errors.APIError:
            continue  # somebody's own container is attached to it; then it isn't only ours
