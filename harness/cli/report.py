"""``harness report``: what somebody needs to help, in one file without secrets; what is in it is shown first."""

from __future__ import annotations

import datetime
import os
import sys
import time
from pathlib import Path
from typing import Any

import click
from rich.filesize import decimal

from harness import console
from harness.cli.leaving import leave
from harness.cli.options import json_option, setting_option
from harness.doctor.bundle import packing, sources
from harness.doctor.bundle.choosing import LeftOut
from harness.doctor.bundle.cleaning import Cleaner, known_secrets
from harness.doctor.bundle.packing import Entry
from harness.doctor.context import Context
from harness.doctor.report import Report
from harness.doctor.running import run, time_left
from harness.doctor.setup import make_context
from harness.doctor.topics import select


@click.command("report")
@setting_option("out")
@json_option
def command(**flags: Any) -> int:
    """Pack doctor, fingerprint, settings, logs and the last runs into one file; asks on a terminal before it writes."""
    context = make_context(flags)
    settings = context.settings
    if settings.json_output:
        console.to_stderr()
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    target = settings.out or settings.runs_dir / f"drydock-report-{stamp}.tar.gz"
    packing.refuse_existing(target)
    with console.step("looked around"):
        gathered = sources.gather(context, lambda: _doctor(context))
    entries, left = _clean(context, gathered)
    content = packing.archive(entries, left, f"drydock-report-{stamp}")
    _show(entries, left, target, len(content))
    asks = sys.stdin.isatty() and not settings.yes and not settings.json_output
    if asks and not click.confirm("Write it?", default=True):
        console.note("nothing was written")
        code = 1
    else:
        packing.write(target, content)
        code = 0
        if settings.json_output:
            files = [{"name": packing.plain(one.name), "bytes": one.size} for one in entries]
            rows = [one.as_dict() for one in left]
            console.emit_json({"file": str(target), "bytes": len(content), "files": files, "left_out": rows})
        console.ok(f"{target} ({decimal(len(content))})")
        console.note("read it before you pass it on: tar -tzf FILE lists it; names of machines and folders are in it")
    if not all(one.finished for one in gathered):
        leave(code)
    return code


def _doctor(context: Context) -> dict[str, Any]:
    started = time.monotonic()
    whole = time_left(age=0.0)
    outcomes = tuple(run(select(""), context, whole))
    return Report(outcomes, time.monotonic() - started, whole).as_dict()


def _clean(context: Context, gathered: list[sources.Gathered]) -> tuple[list[Entry], list[LeftOut]]:
    """Everything that was gathered without secrets; what still has one is left out."""
    settings = context.settings
    given = [secret.get_secret_value() for secret in (settings.hf_token, settings.openai_api_key) if secret]
    cleaner = Cleaner(known_secrets(os.environ, [context.clone, Path.cwd()], given), sources.home_folder())
    entries: list[Entry] = []
    left = [one for source in gathered for one in source.left]
    for source in gathered:
        for name, text in source.files.items():
            entry = Entry(cleaner.clean("", name), cleaner.clean(name, text))
            if cleaner.leaks(entry.text):
                left.append(LeftOut(entry.name, "a secret is in it that could not be taken out"))
            else:
                entries.append(entry)
    return entries, [LeftOut(packing.plain(one.name), cleaner.clean("", one.reason)) for one in left]


def _show(entries: list[Entry], left: list[LeftOut], target: Path, size: int) -> None:
    console.heading("What is in it")
    console.facts([[f"{entry.size:>9,} bytes", packing.plain(entry.name)] for entry in entries])
    if left:
        console.heading("What is left out")
        for one in left:
            console.note(f"{one.name}: {one.reason}")
    console.line()
    console.note(
        f"{len(entries)} files, {decimal(size)} packed, for {target}; secrets and local variables are taken out"
    )
