"""``harness ports``: what a firewall between several machines has to let through."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.cli.options import json_option
from harness.settings import load_settings
from harness.stack.ray_ports import table
from harness.stack.status import recall


@click.command("ports")
@json_option
def command(**flags: Any) -> None:
    """All is TCP. The last column says what whoever connects has to know."""
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    plan, _ = recall(settings)
    rows = table(plan.ports, plan.settings.port)
    if settings.json_output:
        console.emit_json({"rows": [row.as_dict() for row in rows]})
        return
    console.facts([[row.ports, f"to {row.to:<10}  asks for {row.asks:<18}  {row.what}"] for row in rows])
    console.line()
    console.note("let these through between the machines, and from nowhere else: Ray's traffic isn't encrypted")
