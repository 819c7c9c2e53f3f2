"""``harness compare-runs``: two checks held against each other."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.checks import against, show_against
from harness.cli.options import json_option
from harness.errors import UsageError
from harness.runs import index
from harness.settings import load_settings


@click.command("compare-runs")
@click.argument("before", required=False)
@click.argument("after", required=False, default="latest")
@json_option
def command(before: str | None, after: str, **flags: Any) -> int:
    """Hold check AFTER (default: the newest) against check BEFORE (default: AGAINST).

    A run is named by its folder, the folder's name, or `latest`; where both are the newest, it is held against the one
    before it. Exits with 1 where a finding got worse.
    """
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    wanted = before or settings.against
    if not wanted:
        raise UsageError("no run is named to compare with", mend="make compare-runs AGAINST=runs/FOLDER")
    folders = [index.find(settings.runs_dir, name) for name in (wanted, after)]
    if folders[0] == folders[1]:
        folders[0] = index.before(settings.runs_dir, folders[1])
    comparison = against.compare(*map(against.read, folders))
    show_against.lines(comparison)
    if settings.json_output:
        console.emit_json(comparison.as_dict())
    return int(comparison.worse > 0)
