"""``harness init``: lets an editor open a project of one's own in this clone's stack."""

from __future__ import annotations

import shlex
from typing import Any

import click

from harness import console
from harness.breakpoints.launch import updated
from harness.cli.options import json_option, setting_option
from harness.errors import BadSetting
from harness.settings import load_settings
from harness.stack.devcontainer import init


@click.command("init")
@setting_option("dir")
@json_option
def command(**flags: Any) -> None:
    """Write a dev container, launch configurations and tasks into a project; nothing is overwritten."""
    settings = load_settings(flags)
    if settings.dir is None:
        raise BadSetting("No folder was named.", mend="make init DIR=~/my-agent")
    # Without workers that `make attach` has once put into the sample's own file.
    written = init(settings.dir, lambda text: updated(text, []))
    if settings.json_output:
        console.emit_json({"files": [{"path": str(file.path), "kept": file.kept} for file in written]})
        return
    for file in written:
        if file.kept:
            console.warn(f"{file.path} was there already and is left as it is")
            console.mend(f"diff {shlex.quote(str(file.path))} {shlex.quote(str(file.ours))}   # merge what ours has")
        else:
            console.ok(str(file.path))
    if any(file.kept and file.path.name == "devcontainer.json" for file in written):
        console.note("until that is merged, an editor opens the folder in its own container, not in this stack")
    else:
        console.mend(f'code {shlex.quote(str(settings.dir))}   # then "Dev Containers: Reopen in Container"')
