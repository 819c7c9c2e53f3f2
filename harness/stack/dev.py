"""Run something in the ``dev`` container, as from a terminal or without one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from harness import docker_engine
from harness.docker_engine import Container
from harness.errors import StackDown
from harness.settings import Settings

WITH_ENV = "/opt/drydock/with-env"


def dev_container(client: Any, settings: Settings) -> Container:
    """The running ``dev`` container.

    Raises:
        StackDown: there is none.
    """
    for container in docker_engine.containers(client, settings.project):
        if container.service == "dev" and container.running:
            return container
    raise StackDown(f"The stack `{settings.project}` isn't up: no running `dev` container.")


def execute(
    client: Any,
    settings: Settings,
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    detach: bool = False,
    workdir: str = "/workspace",
) -> int:
    """Run a command in ``dev`` with the server's and the cluster's addresses and keys set; returns its exit code.

    The terminal, if there is one, is handed through. Values travel in the environment of ``docker exec``, not on its
    command line, where every user of this machine could read them.
    """
    container = dev_container(client, settings)
    arguments = ["docker", "exec", "--workdir", workdir]
    for name in environment or {}:
        arguments += ["--env", name]
    if detach:
        arguments.append("--detach")
    else:
        arguments.append("--interactive")
        if sys.stdin.isatty() and sys.stdout.isatty():
            arguments.append("--tty")
    done = subprocess.run(
        [*arguments, container.id, WITH_ENV, *command], env={**os.environ, **(environment or {})}, check=False
    )
    return done.returncode
