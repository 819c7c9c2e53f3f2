"""``harness runs``: what was run, how it ended, where it lies."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.cli.options import json_option
from harness.runs import index
from harness.settings import load_settings


@click.command("runs")
@json_option
def command(**flags: Any) -> int:
    """List all runs, the newest first, and write the list as a page."""
    settings = load_settings(flags)
    rows = index.rows(settings.runs_dir)
    if settings.json_output:
        console.emit_json([row.as_dict() for row in rows])
        return 0
    if not rows:
        console.note(f"there are no runs in {settings.runs_dir} yet")
        console.mend("make check")
        return 0
    signs = {"ok": console.OK, "failed": console.BAD}
    cells = [[signs.get(row.outcome, console.NOTE), row.name, row.outcome, row.about] for row in rows]
    console.table(["", "RUN", "OUTCOME", "ABOUT"], cells)
    if (page := index.write_page(settings.runs_dir)) is not None:
        console.line()
        console.note(f"as a page: {page}")
    return 0
