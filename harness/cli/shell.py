"""``harness shell``: a shell in the dev container."""

from __future__ import annotations

import click

from harness.errors import UsageError
from harness.settings import load_settings
from harness.stack import guard
from harness.stack.dev import execute


@click.command("shell")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Open a shell in `dev`, with the server's and the cluster's addresses and keys set."""
    settings = load_settings()
    if settings.json_output:
        raise UsageError("A shell has no answer in JSON.", mend="make shell JSON=")
    ctx.exit(execute(guard.docker_fit(), settings, ["bash"]))
