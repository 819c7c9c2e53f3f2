"""``harness run``: run a command in the dev container and keep its output and exit codes."""

from __future__ import annotations

from typing import Any

import click

from harness.cli.options import json_option, setting_option
from harness.errors import UsageError
from harness.settings import environment_name, load_settings
from harness.stack import guard
from harness.stack.dev import execute


@click.command("run")
@setting_option("cmd")
@setting_option("background")
@setting_option("grace")
@json_option
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Run CMD in `dev` as a driver of our Ray cluster; its output and every exit code go to runs/.

    The exit code is the command's own. BACKGROUND=1 returns as soon as it runs.
    """
    settings = load_settings(flags)
    if not settings.cmd.strip():
        raise UsageError("There is no command to run.", mend="make run CMD='python train.py'")
    passed_on = ("cmd", "background", "grace", "json_output")
    environment = {
        environment_name(field): settings.shown(field) for field in passed_on if settings.origin(field) != "default"
    }
    ctx.exit(execute(guard.docker_fit(), settings, ["harness", "supervise"], environment=environment))
