"""``harness init``: lets an editor open a project of one's own in this clone's stack."""

from __future__ import annotations

import shlex
from typing import Any

import click

from harness import console
from harness.agent.nearby import agent_in, samples_in
from harness.breakpoints.launch import updated
from harness.cli.options import json_option, setting_option
from harness.errors import BadSetting
from harness.settings import environment_name, load_settings, settings_fields
from harness.stack.devcontainer import NO_AGENT, NO_DATA, init


@click.command("init")
@setting_option("dir")
@json_option
def command(**flags: Any) -> None:
    """Write a dev container, launch configurations and tasks into a project; nothing is overwritten."""
    settings = load_settings(flags)
    if settings.dir is None:
        raise BadSetting("No folder was named.", mend="make init DIR=~/my-agent")
    folder = settings.dir.expanduser()
    agent, data = agent_in(folder), samples_in(folder)
    stack = {
        environment_name(field): settings.shown(field)
        for field in ("project", "port", "dashboard_port")
        if getattr(settings, field) != settings_fields()[field].default
    }
    # Without workers that `make attach` may have put into it.
    written = init(folder, lambda text: updated(text, []), stack, agent=agent, data=data)
    if settings.json_output:
        files = [{"path": str(file.path), "kept": file.kept} for file in written]
        console.emit_json({"files": files, "agent": agent, "data": data, "stack": stack})
        return
    for file in written:
        if file.kept:
            console.warn(f"{file.path} was there already and is left as it is")
            console.mend(f"diff {shlex.quote(str(file.path))} {shlex.quote(str(file.ours))}   # merge what ours has")
        else:
            console.ok(str(file.path))
    console.note(f"entries suggest AGENT={agent or NO_AGENT} DATA={data or NO_DATA}")
    if not agent:
        console.note("no class with a `run` was seen there; docs/bring-your-own.md says what an agent is")
    if stack:
        console.note("opens in the stack " + " ".join(f"{name}={value}" for name, value in stack.items()))
    if any(file.kept and file.path.name == "devcontainer.json" for file in written):
        console.note("until that is merged, an editor opens the folder in its own container, not in this stack")
    else:
        console.mend(f'code {shlex.quote(str(settings.dir))}   # then "Dev Containers: Reopen in Container"')
