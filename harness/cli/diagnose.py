"""``harness diagnose PATH``: stacks that somebody dumped in, a verdict out."""

from __future__ import annotations

from typing import Any

import click

from harness import console
from harness.cli.options import as_typed_here, json_option
from harness.hang.decide import diagnose
from harness.hang.printable import printable_all
from harness.hang.readers import read
from harness.hang.show import show
from harness.settings import load_settings


@click.command("diagnose")
@click.argument("path", envvar="DUMP", metavar="PATH")
@click.option("--all", "everything", is_flag=True, help="Whole stacks of all groups, and every process.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, path: str, everything: bool, **flags: Any) -> None:
    """Say who hangs, who is the laggard, why, and what next, from stacks in PATH.

    PATH is a folder, an archive or a text (- for standard input): py-spy's text or JSON, faulthandler, pystack, gdb,
    `ray stack`, Flight Recorder dumps, or a folder that hang-dump wrote. Exit code 0: nothing hangs; 1: something does;
    2: nothing usable in it.
    """
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    verdict = diagnose(read(path))
    verdict.next = [as_typed_here(step) for step in verdict.next]
    if settings.json_output:
        console.emit_json(printable_all(verdict.as_dict()))
    else:
        show(verdict, everything)
    ctx.exit(1 if verdict.hangs else 0)
