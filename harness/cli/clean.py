"""``harness clean``: remove everything that is ours."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click

from harness import console, docker_engine
from harness.cli.options import json_option
from harness.settings import load_settings
from harness.stack import guard
from harness.stack.clean import clean, inventory


@click.command("clean")
@click.option("--yes", "yes", is_flag=True, default=None, help="Don't ask.")
@json_option
def command(**flags: Any) -> None:
    """Remove our containers, volumes, images, build cache and weights; results in runs/ stay."""
    settings = load_settings(flags)
    client = guard.docker_fit(docker_engine.REMOVAL_SECONDS)
    with guard.only_one(settings):
        found = inventory(client, settings)
        for text in found.lines():
            console.note(text)
        if sys.stdin.isatty() and not settings.yes:
            click.confirm("Remove all of that?", abort=True)
        clean(client, settings)
    if settings.json_output:
        console.emit_json({"project": settings.project, "removed": asdict(found)})
    console.ok("nothing of ours is left in Docker")
    console.note("results in runs/ and the hub cache that other tools share were left as they are")
