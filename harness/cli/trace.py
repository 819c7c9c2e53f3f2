"""``harness trace``: log points in running code."""

from __future__ import annotations

from typing import Any

import click

from harness.breakpoints import tracing
from harness.cli.delegated import hand_on
from harness.cli.options import json_option, setting_option
from harness.settings import load_settings

PASSED_ON = ("at", "condition", "log", "hits", "actor", "role", "pid", "timeout", "json_output")


@click.command("trace")
@setting_option("at")
@setting_option("condition")
@setting_option("log")
@setting_option("hits")
@setting_option("actor")
@setting_option("role")
@setting_option("pid")
@setting_option("timeout")
@json_option
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Note values at the line AT of running processes, N times, without stopping them or editing their code.

    Each hit is a line of JSON on standard output. Exit code 1: fewer than N came within TIMEOUT seconds.
    """
    settings = load_settings(flags)
    hand_on(ctx, settings, "trace", PASSED_ON)
    ctx.exit(tracing.run(settings))
