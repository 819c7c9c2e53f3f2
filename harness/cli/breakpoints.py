"""``harness breakpoints``: who is paused."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.breakpoints import show, watch
from harness.breakpoints.now import paused_now
from harness.cli.delegated import hand_on
from harness.cli.options import json_option, setting_option
from harness.settings import load_settings


@click.command("breakpoints")
@setting_option("watch")
@json_option
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Say who waits at a `breakpoint()` or after an uncaught exception: name, node, PID, line, since when.

    WATCH=1 goes on and tells of each new one until Ctrl-C.
    """
    settings = load_settings(flags)
    hand_on(ctx, settings, "breakpoints", ("watch", "json_output"))
    if settings.watch:
        watch.forever(settings)
    found = paused_now(settings)
    if settings.json_output:
        console.emit_json({"paused": [line.as_dict() for line in found]})
    else:
        show.lines(found, workspace=str(settings.workspace))
