"""``harness attach``: debug a paused or running worker."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.breakpoints import attach, launch, relay, show
from harness.breakpoints.now import meant, paused_or_none, session_or_pid
from harness.cli.delegated import hand_on, runs_in_dev
from harness.cli.options import json_option, setting_option
from harness.errors import DebuggerError
from harness.settings import Settings, load_settings

PASSED_ON = ("session", "pid", "tui")


@click.command("attach")
@setting_option("session")
@setting_option("pid")
@setting_option("tui")
@json_option
@click.option("--no-file", is_flag=True, hidden=True, help="Only answer with the entries; the caller writes the file.")
@click.option("--for-editor", is_flag=True, hidden=True, help="Carry one editor from the port that its entry names.")
@click.pass_context
def command(ctx: click.Context, /, no_file: bool, for_editor: bool, **flags: Any) -> None:
    """Debug the worker that `breakpoints` numbers SESSION, or any process by PID.

    Writes an entry into the workspace's .vscode/launch.json; with TUI=1 debugs right here. Leaving never ends the
    worker.
    """
    settings = load_settings(flags)
    if for_editor:
        line = attach.listening(meant(settings, settings.session, settings.pid))
        relay.begin(line.worker.ip, line.worker.debugger_port)
        console.ok(f"{line.worker.name} (PID {line.worker.pid}) lets the editor in")
        show.delays(line.delays)
        return
    if settings.tui:
        hand_on(ctx, settings, "attach", PASSED_ON)
        first = meant(settings, settings.session, settings.pid)
        attach.terminal(first, lambda number: session_or_pid(settings, number))
        return
    if runs_in_dev():
        # Written on this side: the container's user need not be the workspace's owner.
        found = _from_dev(ctx, settings)
    else:
        line = attach.listening(meant(settings, settings.session, settings.pid))
        others = [other for other in paused_or_none(settings) if other.number != line.number]
        found = attach.as_entries([line, *others], str(settings.workspace))
    path = settings.workspace / ".vscode" / "launch.json"
    if not no_file:
        which = f"PID={settings.pid}" if settings.pid else f"SESSION={found['session']}"
        launch.update(path, found["entries"], again=f"make attach {which}")
    if settings.json_output:
        console.emit_json({**found, "launch_file": None if no_file else str(path)})
    else:
        show.attachable(found, path)


def _from_dev(ctx: click.Context, settings: Settings) -> dict[str, Any]:
    from harness.stack.delegate import answer_from_dev

    code, found = answer_from_dev(settings, ["attach", "--no-file"], ("session", "pid"))
    if code:
        error = DebuggerError(found["what"], consequence=found["consequence"], mend=found["mend"])
        if settings.json_output:
            console.emit_json(found)
        console.show_error(error)
        ctx.exit(code)
    answer: dict[str, Any] = found
    return answer
