"""``harness status``: what runs, how it is, and where to reach it."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.cli.options import json_option
from harness.settings import load_settings
from harness.stack import guard
from harness.stack.status import status
from harness.stack.summary import rows

SIGNS = {"ok": console.ok, "starting": console.note, "missing": console.bad}


@click.command("status")
@json_option
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Ask every service how it is; exit code 1 when something is not as it should be."""
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    state = status(guard.docker_fit(), settings)
    if settings.json_output:
        console.emit_json(state.as_dict())
        ctx.exit(0 if state.fine else 1)
    for service in state.services:
        SIGNS.get(service.condition, console.bad)(f"{service.name:<11} {service.condition:<9} {service.detail}")
    if state.unsampled:
        names = ", ".join(state.unsampled)
        console.warn(f"hang-dump inside dev can't see into {names}: its sampler is gone", "make up   # starts it again")
    if not state.up:
        console.mend("make up")
        ctx.exit(1)
    console.line()
    console.facts(rows(state.plan, state.names))
    if not state.fine:
        console.line()
        console.mend("make up   # heals what is broken; the broken container's log is kept in runs/")
        ctx.exit(1)
