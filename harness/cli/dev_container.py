"""``harness dev-container``: what VS Code runs on this machine before it opens the dev container."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.breakpoints.launch import filled
from harness.cli.options import setting_option
from harness.stack.devcontainer import prepare


@click.command("dev-container")
@setting_option("workspace")
@setting_option("yes")
def command(**flags: Any) -> None:
    """Bring the stack up as it was last asked for, and describe it for "Reopen in Container".

    Refuses where another folder's work would end by it; DRYDOCK_YES=1 ends that.
    """
    done = prepare(flags, filled)
    console.ok("the stack is up" + (f" ({', '.join(done.changed)})" if done.changed else "; nothing was changed"))
    console.note(f"its workspace is {done.workspace}; described in {done.described}")
