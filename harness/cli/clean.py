"""``harness clean``: remove everything that is ours."""

from __future__ import annotations

import sys

import click

from harness import console, docker_engine
from harness.settings import load_settings
from harness.stack import guard
from harness.stack.clean import clean, inventory


@click.command("clean")
@click.option("--yes", "yes", is_flag=True, default=None, help="Don't ask.")
def command(yes: bool | None) -> None:
    """Remove our containers, volumes, images, build cache and weights; results in runs/ stay."""
    settings = load_settings({"yes": yes})
    client = guard.docker_fit(docker_engine.REMOVAL_SECONDS)
    with guard.only_one(settings):
        found = inventory(client, settings)
        for text in found.lines():
            console.note(text)
        if sys.stdin.isatty() and not settings.yes:
            click.confirm("Remove all of that?", abort=True)
        clean(client, settings)
    console.ok("nothing of ours is left in Docker")
    console.note("results in runs/ and the hub cache that other tools share were left as they are")
