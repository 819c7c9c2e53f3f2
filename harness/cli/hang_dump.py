"""``harness hang-dump``: every stack of every process that can be reached, and the verdict on them."""

from __future__ import annotations

import os
from typing import Any

import click

from harness import console
from harness.cli.options import json_option, setting_option
from harness.cli.ways import ways_in
from harness.errors import BadSetting
from harness.hang.collect import Collected, collect
from harness.hang.decide import diagnose
from harness.hang.folder import write_folder
from harness.hang.printable import printable, printable_all
from harness.hang.show import show
from harness.processes.sampling.model import SampleRequest
from harness.runs import Redactor, RunFolder, shown
from harness.runs.environment import of_this_process, secrets_of
from harness.settings import Settings, load_settings


@click.command("hang-dump")
@setting_option("pids")
@setting_option("containers")
@setting_option("match")
@setting_option("logs")
@setting_option("locals")
@setting_option("native")
@setting_option("tasks")
@setting_option("gap")
@click.option("--everything", is_flag=True, help="Every Python process, not only what looks like training or serving.")
@click.option("--all", "in_full", is_flag=True, help="Show whole stacks of all groups, and every process.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, everything: bool, in_full: bool, **flags: Any) -> None:
    """Dump every stack of the system and say who hangs, who is the laggard, why, and what next.

    Without PIDS= and MATCH=, whatever looks like training or serving is sampled. Nothing is left stopped. Stacks and
    verdict are kept in runs/. Exit code 0: nothing hangs; 1: something does; 2: wrong usage.
    """
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    request = _request(settings, everything)
    with RunFolder.create(settings.runs_dir, "hang", Redactor(secrets_of(dict(os.environ)))) as folder:
        with console.step("sampling"):
            collected = collect(ways_in(settings), request)
        verdict = diagnose(collected.dump)
        write_folder(folder.path, collected.manifest, collected.dumps)
        answer = printable_all(verdict.as_dict())
        folder.write_json("verdict.json", answer)
        folder.finish({"verb": "hang-dump", "exit_code": 1 if verdict.hangs else 0, "cause": verdict.cause},
                      fingerprint=of_this_process)  # fmt: skip
    if settings.json_output:
        console.emit_json({**answer, "folder": str(folder.path)})
    else:
        show(verdict, in_full)
    _say_what(collected)
    console.note(f"stacks and verdict: {shown(folder.path)}")
    ctx.exit(1 if verdict.hangs else 0)


def _request(settings: Settings, everything: bool) -> SampleRequest:
    try:
        pids = [int(part) for part in settings.pids.replace(",", " ").split()]
        return SampleRequest(
            pids=pids,
            match=settings.match,
            everything=everything,
            gap_seconds=settings.gap,
            locals=settings.locals,
            native=settings.native,
            tasks=settings.tasks,
            logs=[part.strip() for part in settings.logs.split(",") if part.strip()],
        )
    except ValueError as error:
        raise BadSetting(f"PIDS={settings.pids} MATCH={settings.match} can't be used: {error}") from None


def _say_what(collected: Collected) -> None:
    if collected.left_out:
        names = ", ".join(dict.fromkeys(printable(command, 60) for command in collected.left_out[:4]))
        console.note(f"{len(collected.left_out)} other Python processes were left out (--everything, MATCH=): {names}")
