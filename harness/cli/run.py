"""``harness run``: run a command in the dev container and keep its output and exit codes."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.cli.options import setting_option
from harness.errors import UsageError
from harness.settings import load_settings
from harness.stack import guard
from harness.stack.dev import execute


@click.command("run")
@setting_option("cmd")
@setting_option("background")
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Run CMD in `dev` as a driver of our Ray cluster; its output and every exit code go to runs/."""
    settings = load_settings(flags)
    if not settings.cmd.strip():
        raise UsageError("There is no command to run.", mend="make run CMD='python train.py'")
    client = guard.docker_fit()
    code = execute(
        client, settings, ["harness", "supervise"], environment={"CMD": settings.cmd}, detach=settings.background
    )
    if settings.background and code == 0:
        console.ok("running in the background")
        console.mend("ls -t runs | head -1   # its folder: stdout.log while it runs, result.json when it ends")
    ctx.exit(code)
