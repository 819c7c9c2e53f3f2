"""``harness runs``: what was run, how it ended, where it lies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from harness import console
from harness.cli.options import json_option
from harness.errors import NoSuchRun
from harness.processes.running import RUNNING, read_run
from harness.runs import index
from harness.runs.index import Row
from harness.settings import load_settings


@click.command("runs")
@json_option
def command(**flags: Any) -> int:
    """List all runs, the newest first, and write the list as a page."""
    settings = load_settings(flags)
    rows = [_as_it_stands(row, settings.runs_dir) for row in index.rows(settings.runs_dir)]
    if settings.json_output:
        console.emit_json([row.as_dict() for row in rows])
        return 0
    if not rows:
        console.note(f"there are no runs in {settings.runs_dir} yet")
        console.mend("make check")
        return 0
    signs = {"ok": console.OK, "failed": console.BAD, "hung": console.WARN}
    cells = [[signs.get(row.outcome, console.NOTE), row.name, row.outcome, row.about] for row in rows]
    console.table(["", "RUN", "OUTCOME", "ABOUT"], cells)
    for row in rows:
        if row.outcome == "running" and (pid := read_run(settings.runs_dir / row.name).record.pid):
            console.mend(f"make run CMD='kill {pid}'   # ends {row.name}")
    if (page := index.write_page(settings.runs_dir)) is not None:
        console.line()
        console.note(f"as a page: {page}")
    return 0


def _as_it_stands(row: Row, root: Path) -> Row:
    """A command that is still running has no result, and isn't unfinished."""
    if row.outcome != "unfinished" or not (root / row.name / RUNNING).is_file():
        return row
    try:
        state = read_run(root / row.name)
    except NoSuchRun:
        return row
    return replace(row, outcome="running" if state.state == "running" else row.outcome, about=state.record.command)
