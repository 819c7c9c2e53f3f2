"""``harness down``: stop the stack; weights, images and volumes stay."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.cli.options import json_option
from harness.settings import load_settings
from harness.stack import guard
from harness.stack.down import down
from harness.stack.machines import worker


@click.command("down")
@json_option
def command(**flags: Any) -> None:
    """Stop and remove the containers; `make up` brings everything back."""
    settings = load_settings(flags)
    client = guard.docker_fit()
    with guard.only_one(settings):
        with console.step(f"taking `{settings.project}` down") as step:
            names = down(client, settings)
            if worker.is_worker(settings):
                worker.leave(client, settings)
            step.text = f"down: {', '.join(names)}" if names else "nothing was up"
    if settings.json_output:
        console.emit_json({"project": settings.project, "removed": names})
    console.note("weights, images, volumes and results stay; `make clean` removes them")
