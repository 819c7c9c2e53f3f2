"""``harness status``: what runs, how it is, and where to reach it."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.cli.options import json_option
from harness.settings import Settings, load_settings
from harness.stack import guard
from harness.stack.machines import worker
from harness.stack.status import status
from harness.stack.summary import rows

SILENT = "   (can't be reached; Ray hasn't given it up yet)"
SIGNS = {"ok": console.ok, "starting": console.note, "silent": console.warn, "missing": console.bad}


@click.command("status")
@json_option
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Ask every service how it is; exit code 1 when something is not as it should be."""
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    client = guard.docker_fit()
    if worker.is_worker(settings):
        ctx.exit(_of_worker(client, settings))
    state = status(client, settings)
    if settings.json_output:
        console.emit_json(state.as_dict())
        ctx.exit(0 if state.fine else 1)
    for service in state.services:
        SIGNS.get(service.condition, console.bad)(f"{service.name:<11} {service.condition:<9} {service.detail}")
    for node in state.nodes:
        sign = console.ok if node.state == "alive" else console.bad
        sign(f"  node {node.ip:<15} {node.state:<9} {node.host}{SILENT if node.state == 'silent' else ''}")
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


def _of_worker(client: Any, settings: Settings) -> int:
    """A machine that is a node of another's cluster; returns the exit code."""
    state = worker.state(client, settings)
    if settings.json_output:
        console.emit_json(state.as_dict())
    else:
        say = console.ok if state.fine else console.bad
        say(f"node of {state.head:<21} {state.condition:<10} {state.detail}")
        if not state.fine:
            console.mend("make logs S=node   # it joins again by itself, unless its container has ended: make worker …")
    return 0 if state.fine else 1
