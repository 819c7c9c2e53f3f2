"""``harness init``: lets an editor open a project of one's own in this clone's stack."""

from __future__ import annotations

import shlex
from typing import Any

import click

from harness import console
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
    written = init(settings.dir)
    if settings.json_output:
        console.emit_json({"files": [{"path": str(file.path), "kept": file.kept} for file in written]})
        return
    for file in written:
        if file.kept:
            console.warn(f"{file.path} was there already and is left as it is")
            ours = "devcontainer" if file.path.name == "devcontainer.json" else "examples/.vscode"
            console.mend(f"diff {shlex.quote(str(file.path))} {ours}/{file.path.name}   # what ours has beside")
        else:
            console.ok(str(file.path))
    console.mend(f'code {shlex.quote(str(settings.dir))}   # then "Dev Containers: Reopen in Container"')
