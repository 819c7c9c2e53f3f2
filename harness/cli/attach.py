"""``harness attach``: debug a paused or running worker."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.breakpoints import attach, launch
from harness.breakpoints.now import meant, paused_now
from harness.cli.delegated import hand_on
from harness.cli.options import json_option, setting_option
from harness.settings import load_settings

PASSED_ON = ("session", "pid", "tui", "json_output")


@click.command("attach")
@setting_option("session")
@setting_option("pid")
@setting_option("tui")
@json_option
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Debug the worker that `breakpoints` numbers SESSION, or any process by PID.

    Writes an entry into the workspace's .vscode/launch.json; with TUI=1 debugs right here. Leaving never ends the
    worker.
    """
    settings = load_settings(flags)
    hand_on(ctx, settings, "attach", PASSED_ON)
    line = meant(settings, settings.session, settings.pid)
    if settings.tui:
        attach.terminal(line, lambda number: meant(settings, number))
        return
    line = attach.listening(line)
    everybody = [line] + [other for other in paused_now_or_none(settings) if other.number != line.number]
    root = str(settings.workspace)
    entries = [launch.entry(one, remote_root=root) for one in everybody if one.worker.debugger_port]
    path = settings.workspace / ".vscode" / "launch.json"
    launch.update(path, entries)
    if settings.json_output:
        console.emit_json({**line.as_dict(), "launch": entries[0], "file": str(path)})
        return
    console.ok(f"{path} has “{entries[0]['name']}”")
    console.note(f"VS Code in this network: Run and Debug, that entry. The debugger listens at {line.worker.ip}:"
                 f"{line.worker.debugger_port}")  # fmt: skip
    console.mend(f"make attach {'PID' if settings.pid else 'SESSION'}={line.number} TUI=1   # in the terminal instead")


def paused_now_or_none(settings: Any) -> list[Any]:
    """The other paused ones, none where there is no cluster."""
    try:
        return paused_now(settings)
    except Exception:  # noqa: BLE001
        return []
