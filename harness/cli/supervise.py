"""``harness supervise``: the part of ``run`` that runs where the command does, in the dev container or elsewhere."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import click

from harness import console
from harness.cli.options import json_option
from harness.processes.detach import Report, in_background
from harness.processes.record import RunRecord
from harness.processes.redact import secret_values
from harness.processes.running import read_run
from harness.processes.supervise import STDERR, Plan, check_command, supervise
from harness.runs import Redactor, RunFolder, shown
from harness.settings import Settings, load_settings

LOG = "supervisor.log"
_AT_ONCE, _LAST_LINES = 1.0, 5


@click.command("supervise", hidden=True)
@click.option("--cmd", help="The command, as you would type it in a shell.")
@click.option("--background/--foreground", default=None, help="Return and leave the command running.")
@click.option("--grace", type=float, help="Seconds that processes may go on after the command itself has ended.")
@json_option
def command(cmd: str | None, background: bool | None, grace: float | None, json_output: bool | None) -> int:
    """Run a command, keep its output, and follow every process it starts to its end.

    The exit code is the command's own, 128 and the signal's number if one ended it.
    """
    settings = load_settings({"cmd": cmd, "background": background, "grace": grace, "json_output": json_output})
    check_command(settings.cmd)
    console.to_stderr()
    folder = RunFolder.create(settings.runs_dir, "run", Redactor(secret_values(os.environ)))
    if settings.background:
        return _begin_in_background(settings, folder)
    with folder:
        record = supervise(_plan(settings, folder))
    if settings.json_output:
        console.emit_json(record.model_dump(mode="json"))
    _show_end(record, folder.path)
    # Without a status it could not be killed; that is not well either.
    return 1 if record.status is None else record.status


def _begin_in_background(settings: Settings, folder: RunFolder) -> int:
    def live(report: Report) -> None:
        with folder:
            supervise(replace(_plan(settings, folder), started=lambda record: report(record.model_dump_json())))

    record = RunRecord.model_validate_json(in_background(folder.path / LOG, live))
    if settings.json_output:
        console.emit_json(record.model_dump(mode="json"))
    console.ok(f"runs in the background as process {record.pid}; its output and result: {shown(folder.path)}")
    console.mend(f"make run CMD='kill {record.pid}'   # ends it")
    ended = _ended_at_once(folder.path)
    if ended is None or ended.status == 0:
        return 0
    _show_end(ended, folder.path)
    for line in (folder.path / STDERR).read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]:
        console.line(f"    {line}")
    return 1 if ended.status is None else ended.status


def _ended_at_once(folder: Path) -> RunRecord | None:
    """The record of a command that is over within a second, as with a name mistyped; None where it goes on."""
    until = time.monotonic() + _AT_ONCE
    while time.monotonic() < until:
        state = read_run(folder)
        if state.state == "ended":
            return state.record
        time.sleep(0.05)
    return None


def _plan(settings: Settings, folder: RunFolder) -> Plan:
    return Plan(
        command=settings.cmd,
        folder=folder,
        redact=folder.redactor.text,
        grace=settings.grace,
        background=settings.background,
        # With --json standard output is the answer's.
        show_stdout=2 if settings.json_output else 1,
    )


def _show_end(record: RunRecord, folder: Path) -> None:
    """Say on standard error how it ended and where all is kept; standard output is the command's."""
    number = record.process_count - 1
    children = f"{number} {'child' if number == 1 else 'children'}"
    summary = f"after {record.duration_seconds or 0:.1f} s, {children}; {shown(folder)}"
    if record.signal:
        console.bad(f"ended by {record.signal} {summary}")
    elif record.exit_code == 0:
        console.ok(f"ended with 0 {summary}")
    else:
        console.bad(f"ended with {'an unknown status' if record.exit_code is None else record.exit_code} {summary}")
    for finding in record.findings:
        console.warn(finding.text)
