"""``harness restart-ray``: restart our Ray cluster and no other."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.cli.options import json_option
from harness.settings import load_settings
from harness.stack import guard
from harness.stack.ray import others, restart, wait_for
from harness.stack.status import recall
from harness.stack.up import wait_ready


@click.command("restart-ray")
@json_option
def command(**flags: Any) -> None:
    """Restart Ray's head and workers; tasks and actors in them are lost, other clusters are not touched."""
    settings = load_settings(flags)
    client = guard.docker_fit()
    if settings.json_output:
        console.to_stderr()
    with guard.only_one(settings):
        plan, _ = recall(settings)
        before = others(plan)
        restarted = restart(client, settings)
        services = wait_ready(client, plan)
        missing = wait_for(plan, before)
    if settings.json_output:
        console.emit_json(
            {
                "restarted": [container.name for container in restarted],
                "services": [service.as_dict() for service in services],
                "missing": [node.as_dict() for node in missing],
            }
        )
        return
    if plan.shared:
        console.ok("Ray restarted: `dev` is its head, and shells that were open there have ended")
    else:
        console.ok(f"Ray restarted ({len(restarted)} container{'s' * (len(restarted) > 1)}); `dev` has joined again")
    for node in missing:
        console.warn(
            f"{node.host or node.ip} hasn't joined again yet", f"make status   # on {node.ip}, and make logs S=node"
        )
