"""``harness open``: the page of a run, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness import console
from harness.cli.options import json_option
from harness.errors import NoSuchRun
from harness.runs import browser, index
from harness.settings import load_settings


@click.command("open")
@click.argument("run", required=False, default="")
@json_option
def command(run: str, **flags: Any) -> int:
    """Open the page of RUN (a folder or its name), of the newest run that has one, or with `all` the list of all runs.

    Where no browser is to be seen, only the path is told.
    """
    settings = load_settings(flags)
    page = _page(settings.runs_dir, run)
    opened = browser.show(page)
    if settings.json_output:
        console.emit_json({"page": str(page), "opened": opened})
        return 0
    console.ok(f"{'opened' if opened else 'page'}: {page}")
    if not opened:
        console.note("no browser is to be seen from here; the page is one file, and fetches nothing")
    return 0


def _page(root: Path, run: str) -> Path:
    if run == "all":
        if (listed := index.write_page(root)) is not None:
            return listed
        raise NoSuchRun(f"there is no run in {root}", consequence="There is nothing to open.", mend="make check")
    if run:
        folder = index.find(root, run)
        if (page := folder / index.PAGE).is_file():
            return page
        raise NoSuchRun(f"{folder} has no page", consequence="There is nothing to open.", mend=f"ls {folder}")
    for row in index.rows(root):
        if row.page:
            return root / row.name / row.page
    raise NoSuchRun(f"no run in {root} has a page", consequence="There is nothing to open.", mend="make check")
