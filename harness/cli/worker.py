"""``harness worker``: make this machine a node of another machine's cluster."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.cli.options import json_option, setting_option
from harness.settings import load_settings
from harness.stack.machines.worker import join_cluster


@click.command("worker")
@setting_option("head")
@setting_option("token_file")
@setting_option("workspace")
@json_option
def command(**flags: Any) -> None:
    """Join the cluster at HEAD=host:port; the head was brought up with SHARE=. `make down` leaves it again."""
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    joined = join_cluster(settings)
    if settings.json_output:
        console.emit_json({**joined.__dict__, "seconds": round(joined.seconds, 2)})
        return
    console.ok(f"a node of {joined.head} since {joined.seconds:.1f} s, as {joined.address}: {joined.nodes} nodes")
    console.note(f"image {joined.image}; `make status` shows how it is, `make down` leaves the cluster")
