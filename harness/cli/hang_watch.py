"""``harness hang-watch``: watches until something hangs, dumps it once, tells somebody, and watches on."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import Any

import click

from harness import console
from harness.cli.next_steps import as_typed_here, not_pid, typed
from harness.cli.options import setting_option
from harness.errors import BadSetting, NothingToSample
from harness.hang.page.write import now
from harness.hang.show import show
from harness.hang.watch.quiet import seconds_of
from harness.hang.watch.run import Hang, Watching, page_of, teller
from harness.processes.sampling.find import find
from harness.processes.sampling.model import SampleRequest
from harness.settings import load_settings


@click.command("hang-watch")
@setting_option("after")
@setting_option("pids")
@setting_option("match")
@setting_option("logs")
@setting_option("step")
@setting_option("notify")
@setting_option("webhook")
@setting_option("gap")
@click.option("--any-standstill", is_flag=True, help="Tell also of a standstill whose cause is unknown.")
@click.option("--once", is_flag=True, help="End after the first hang, with exit code 1.")
@click.pass_context
def command(ctx: click.Context, /, once: bool, any_standstill: bool, **flags: Any) -> None:
    """Watch a program; when nothing gets on for AFTER, dump it once and tell somebody.

    What gets on is seen by the step counter (STEP=), else by its logs, else by CPU and GPU; nobody is stopped for a
    look. Nothing is ever ended. A hang is told on standard output, notes go to standard error. Exit code 0: everybody
    has ended, or Ctrl-C; 1: with --once, something hangs; 2: there is nobody to watch.
    """
    settings = load_settings(flags)
    not_pid(settings)
    after = seconds_of(settings.after)
    try:
        pids = [int(part) for part in settings.pids.replace(",", " ").split()]
        request = SampleRequest(pids=pids, match=settings.match, gap_seconds=settings.gap)
    except ValueError:
        raise BadSetting(f"PIDS={settings.pids} or MATCH={settings.match} can't be used") from None
    found = find(request)
    if all(entry.missing for entry in found.entries):
        asked = f"PIDS={settings.pids}" if pids else f"MATCH={settings.match}" if settings.match else ""
        raise NothingToSample.of(asked, found.left_out)
    over, seen = threading.Event(), []
    repeated = typed(settings, ("pids", "match"))

    def told(hang: Hang) -> None:
        console.line()
        console.bad(f"{now()}  {hang.told()['text']}")
        hang.verdict.next = [as_typed_here(step, repeated) for step in hang.verdict.next]
        show(hang.verdict)
        if page_of(hang):
            console.note(f"as a page: {page_of(hang)}")
        seen.append(hang)
        if once:
            over.set()

    logs = [part.strip() for part in settings.logs.split(",") if part.strip()]
    watching = Watching(
        request,
        after,
        settings.runs_dir,
        teller(settings.notify, settings.webhook, told),
        logs,
        settings.step,
        any_standstill,
        over=over,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    console.aside(
        f"watching {len(found.entries)} processes; a dump when nothing gets on for {settings.after}; Ctrl-C ends it"
    )
    with contextlib.suppress(KeyboardInterrupt):
        watching.run()
    console.aside("watched to the end" if not over.is_set() else "no longer watching")
    ctx.exit(1 if once and seen else 0)
