"""``harness logs``: the containers' logs."""

from __future__ import annotations

import subprocess
from typing import Any

import click

from harness import docker_engine
from harness.cli.options import setting_option
from harness.errors import StackDown, UsageError
from harness.settings import load_settings
from harness.stack import guard


@click.command("logs")
@setting_option("s")
@setting_option("follow")
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Show the logs of all services, or of S=; FOLLOW=1 goes on until Ctrl-C."""
    settings = load_settings(flags)
    client = guard.docker_fit()
    services = sorted({container.service for container in docker_engine.containers(client, settings.project)})
    if not services:
        raise StackDown(f"The stack `{settings.project}` isn't up, so there are no logs.")
    if settings.s and settings.s not in services:
        raise UsageError(f"There is no service `{settings.s}`.", mend=f"make logs S={'|'.join(services)}")
    arguments = ["docker", "compose", "-p", settings.project, "logs", "--tail", "300"]
    if settings.follow:
        arguments.append("--follow")
    if settings.s:
        arguments.append(settings.s)
    ctx.exit(subprocess.run(arguments, cwd="/", env=docker_engine.clean_environment(), check=False).returncode)
