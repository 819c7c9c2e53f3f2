"""``harness doctor``: find out what is wrong with this machine or the stack."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import click
import psutil

from harness import console
from harness.cli.options import json_option, setting_option
from harness.doctor.report import Report
from harness.doctor.running import run, time_left
from harness.doctor.setup import make_context
from harness.doctor.showing import show_as_they_come, show_summary
from harness.doctor.topics import ON_REQUEST, TITLES, select


@click.command("doctor")
@setting_option("topic")
@json_option
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Look at everything that the stack stands on; changes nothing. Exit code 1 when something is wrong."""
    started = time.monotonic()
    context = make_context(flags)
    if context.settings.json_output:
        console.to_stderr()
    checks = select(context.settings.topic)
    # The usual limit is for the usual topics; who asks for a long one waits for it.
    whole = max([time_left(), *(check.limit for check in checks if check.topic in ON_REQUEST)])
    outcomes = run(checks, context, whole)
    if not context.settings.json_output:
        outcomes = show_as_they_come(outcomes, TITLES)
    report = Report(tuple(outcomes), time.monotonic() - started)
    if context.settings.json_output:
        console.emit_json(report.as_dict())
    else:
        show_summary(report)
    if not report.finished:
        _leave(report.exit_code)
    ctx.exit(report.exit_code)


def _leave(code: int) -> None:
    """End at once: at an ordinary exit Python waits for threads that wait for what never answers."""
    children = psutil.Process().children(recursive=True)
    for child in children:
        child.kill()
    psutil.wait_procs(children, timeout=0.2)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
