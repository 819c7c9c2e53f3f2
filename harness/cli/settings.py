"""``harness settings``: each value and where it came from."""

from __future__ import annotations

import click

from harness import console
from harness.cli.options import json_option
from harness.settings import environment_names, load_settings, settings_fields


@click.command("settings")
@json_option
def command(json_output: bool | None) -> None:
    """Show each setting, its value and where the value came from."""
    settings = load_settings({"json_output": json_output})
    rows = [
        {
            "name": name,
            "value": settings.shown(field),
            "origin": settings.origin(field),
            "meaning": settings_fields()[field].metadata["description"],
        }
        for field, name in environment_names().items()
    ]
    if settings.json_output:
        console.emit_json(rows)
        return
    # Those that somebody has set first: why the wrong thing runs is among them.
    rows.sort(key=lambda row: row["origin"] == "default")
    for row in rows:
        value = f"={row['value']}" if row["value"] else "="
        origin = f"  [{row['origin']}]" if row["origin"] != "default" else ""
        console.line(f"{row['name']}{value}{origin}   # {row['meaning']}")
    console.line()
    console.note("set one with `make VERB NAME=value`, in the environment, or in drydock.env beside the Makefile")
