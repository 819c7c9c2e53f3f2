"""``harness down``: stop the stack; weights, images and volumes stay."""

from __future__ import annotations

import click

from harness import console
from harness.settings import load_settings
from harness.stack import guard
from harness.stack.down import down


@click.command("down")
def command() -> None:
    """Stop and remove the containers; `make up` brings everything back."""
    settings = load_settings()
    client = guard.docker_fit()
    with guard.only_one(settings):
        with console.step(f"taking `{settings.project}` down") as step:
            names = down(client, settings)
            step.text = f"down: {', '.join(names)}" if names else "nothing was up"
    console.note("weights, images, volumes and results stay; `make clean` removes them")
