"""``harness lint``: what will bite in training, from an agent's source and a training configuration alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness import console
from harness.checks.lint.run import LintReport, lint
from harness.checks.show import show_finding
from harness.cli.options import json_option, setting_option
from harness.runs import Redactor
from harness.settings import load_settings


@click.command("lint")
@setting_option("agent")
@setting_option("config")
@json_option
def command(**flags: Any) -> int:
    """Say what will bite in training, from an agent's source and a training configuration (AReaL, verl).

    Needs no server and runs none of the code. With a configuration alone, only that is looked at. A comment
    `# drydock: ignore[code]` on a line takes a rule out there.

    Exits with 0 where nothing is wrong, 1 where something is, 2 on wrong usage.
    """
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    wanted = settings.origin("agent") != "default" or not settings.config
    folders = tuple(dict.fromkeys([Path.cwd(), settings.workspace]))
    report = lint(settings.agent if wanted else None, settings.config or None, folders)
    if settings.json_output:
        console.emit_json(Redactor([]).data(report.model_dump(mode="json")))
    else:
        _show(report)
    return report.exit_code


def _show(report: LintReport) -> None:
    for finding in report.findings:
        show_finding(finding)
    wrong, doubtful = report.counts["fail"], report.counts["warn"]
    if wrong or doubtful:
        console.note(f"{wrong} failed, {doubtful} warned; # drydock: ignore[code] on a line takes a rule out there")
    if report.asked["agent"] and not wrong:
        console.mend("make check STAGE=2   # runs the agent once: what only a run shows")
