"""``harness up``: bring the stack up, or say that it is."""

from __future__ import annotations

import shlex
from typing import Any

import click

from harness import console
from harness.cli.already import ending
from harness.cli.options import json_option, setting_option
from harness.settings import load_settings
from harness.stack import external
from harness.stack.remembering import notes
from harness.stack.status import gone_back
from harness.stack.summary import describe, rows
from harness.stack.up import up


@click.command("up")
@setting_option("model")
@setting_option("engine")
@setting_option("workspace")
@setting_option("workers")
@setting_option("debug")
@json_option
def command(**flags: Any) -> None:
    """Bring the stack up; twice is fine, and a broken stack is healed."""
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    for text in notes(settings):
        console.note(text)
    back = gone_back(settings)
    result = up(settings)
    # Once it is so: of an `up` that was refused nothing went back.
    for name, value in back.items():
        console.warn(f"{name} went back to its default; the up before had {name}={value}")
        console.mend(f"make up {name}={shlex.quote(value)}   # or a line in drydock.env, to keep it")
    silent = external.silence(result.plan) if result.plan.external else ""
    if silent:
        console.warn(f"your own server can't be used as it is: {silent}")
        console.mend("make check STAGE=1   # once it runs; the stack itself is up")
    if settings.json_output:
        facts = describe(result.plan, result.names)
        services = [service.as_dict() for service in result.services]
        console.emit_json(
            {
                "changed": result.changed,
                "awaited": result.awaited,
                "server_silent": silent or None,
                "seconds": round(result.seconds, 2),
                **facts,
                "services": services,
            }
        )
        return
    ending(result.changed, result.awaited, result.seconds, rows(result.plan, result.names))
