"""``harness logs``: the containers' logs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import click

from harness import console, docker_engine
from harness.cli.options import json_option, setting_option
from harness.errors import StackDown, UsageError
from harness.settings import load_settings
from harness.stack import guard

LINES = 300


@click.command("logs")
@setting_option("s")
@setting_option("follow")
@json_option
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Show the logs of all services, or of S=; FOLLOW=1 goes on until Ctrl-C."""
    settings = load_settings(flags)
    client = guard.docker_fit()
    containers = docker_engine.containers(client, settings.project)
    services = sorted({container.service for container in containers})
    if not services:
        raise StackDown(f"The stack `{settings.project}` isn't up, so there are no logs.")
    if settings.s and settings.s not in services:
        raise UsageError(f"There is no service `{settings.s}`.", mend=f"make logs S={'|'.join(services)}")
    if settings.json_output:
        if settings.follow:
            raise UsageError("Logs that go on have no end, and JSON needs one.", mend="make logs JSON=1 FOLLOW=")
        shown = [one for one in containers if settings.s in ("", one.service)]
        console.emit_json({one.name: docker_engine.log_tail(client, one.id, LINES).splitlines() for one in shown})
        return
    arguments = ["docker", "compose", "-p", settings.project, "logs", "--tail", str(LINES)]
    if settings.follow:
        arguments.append("--follow")
    if settings.s:
        arguments.append(settings.s)
    ctx.exit(_show(arguments))


def _show(arguments: list[str]) -> int:
    """Run Compose; where no terminal shows it, without the code that clears a line, which Compose writes regardless."""
    environment = docker_engine.clean_environment()
    if sys.stdout.isatty():
        return subprocess.run(arguments, cwd="/", env=environment, check=False).returncode
    with subprocess.Popen(arguments, cwd="/", env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for text in process.stdout:
            sys.stdout.buffer.write(text.removeprefix(b"\x1b[2K"))
            sys.stdout.buffer.flush()
    return process.returncode
