"""``harness doctor``: find out what is wrong with this machine or the stack."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from harness import console
from harness.cli.leaving import leave
from harness.cli.options import json_option, setting_option
from harness.doctor import fixing
from harness.doctor.context import Context
from harness.doctor.report import Report
from harness.doctor.running import run, time_left
from harness.doctor.setup import make_context
from harness.doctor.showing import show_as_they_come, show_summary
from harness.doctor.topics import ON_REQUEST, TITLES, select


@click.command("doctor")
@setting_option("topic")
@setting_option("fix")
@json_option
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Look at everything that the stack stands on; changes nothing without --fix. Exit code 1: something is wrong."""
    context = make_context(flags)
    as_json = context.settings.json_output
    if as_json:
        console.to_stderr()
    report = _look(context, time_left())
    fixed = _mend(report, context) if context.settings.fix else []
    if any(one.state == "done" for one in fixed):
        console.line()
        console.heading("Looked at again")
        report = _look(make_context(flags), time_left(age=0.0))
    if as_json:
        document = report.as_dict()
        console.emit_json({**document, "fixes": [one.as_dict() for one in fixed]} if context.settings.fix else document)
    if not report.finished:
        leave(report.exit_code)
    ctx.exit(report.exit_code)


def _look(context: Context, whole: float) -> Report:
    """Run all checks of the topics that are asked for within so many seconds; shows what they find, to people."""
    started = time.monotonic()
    checks = select(context.settings.topic)
    # The usual limit is for the usual topics; who asks for a long one waits for it.
    whole = max([whole, *(check.limit for check in checks if check.topic in ON_REQUEST)])
    outcomes = run(checks, context, whole)
    if not context.settings.json_output:
        outcomes = show_as_they_come(outcomes, TITLES)
    report = Report(tuple(outcomes), time.monotonic() - started, whole)
    if not context.settings.json_output:
        show_summary(report)
    return report


def _mend(report: Report, context: Context) -> list[fixing.Fixed]:
    """Offer each command: run on a terminal's yes or with DRYDOCK_YES=1, else only shown."""
    offered = fixing.plan(report.findings)
    asks = sys.stdin.isatty() and not context.settings.json_output
    console.line()
    if not offered:
        console.note("there is nothing that could be mended from here without a second thought")
        return []
    fixed = []
    given = _asked_before(context)
    for fix in offered:
        for text in fix.mends:
            console.note(text)
        console.mend(fix.shown())
        if context.settings.yes:
            fixed.append(fixing.run(fix, context.clone, given))
        elif not asks:
            fixed.append(fixing.Fixed(fix, "offered"))
        elif click.confirm("  Run it?", default=False):
            fixed.append(fixing.run(fix, context.clone, given))
        else:
            fixed.append(fixing.Fixed(fix, "declined"))
        if fixed[-1].state == "failed":
            console.bad(f"it failed (exit code {fixed[-1].code})")
    if not asks and not context.settings.yes:
        console.note("nothing was run: on a terminal each is asked for; DRYDOCK_YES=1 runs them all")
    return fixed


def _asked_before(context: Context) -> dict[str, str]:
    """What the last `up` was given: mending a stack must not make another one of it."""
    try:
        from harness.stack.status import asked_before
    except ImportError:
        return {}
    return asked_before(context.settings)
