"""``harness diagnose PATH``: stacks that somebody dumped in, a verdict out."""

from __future__ import annotations

import os
from typing import Any

import click

from harness import console
from harness.cli.hang_steps import with_server
from harness.cli.next_steps import as_typed_here
from harness.cli.options import json_option
from harness.errors import DrydockError, UsageError
from harness.hang.decide import diagnose
from harness.hang.page import NAME, build
from harness.hang.page.write import environment_of, keep_diagnosis, now
from harness.hang.readers import read
from harness.hang.show import NOT_SHOWN, show
from harness.printable import printable_all
from harness.runs import Redactor, shown
from harness.runs.environment import secrets_of
from harness.settings import load_settings


@click.command("diagnose")
@click.argument("path", envvar="DUMP", metavar="PATH", required=False, default="")
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
    if not path:
        raise UsageError(
            "No dump is named.",
            consequence="It is a folder, an archive, or a text with stacks in it.",
            mend="make diagnose DUMP=runs/latest   # or a file that somebody sent\nmake hang-dump   # takes one now",
        )
    dump = read(path)
    verdict = diagnose(dump)
    # A dump of containers is about these, and so is what comes next.
    places = list(dict.fromkeys(process.container for process in dump.processes if process.id))
    whom = {"containers": ",".join(places)} if places and all(places) else {}
    verdict.next = [as_typed_here(with_server(step, dump.processes), whom) for step in verdict.next]
    redactor = Redactor(secrets_of(dict(os.environ)))
    answer = verdict.as_dict()
    folder, problem = None, None
    try:
        page = build(verdict, dump, redactor, made=now(), subject=path, environment=environment_of(path))
        folder = keep_diagnosis(settings.runs_dir, path, answer, page, redactor)
    except DrydockError as error:
        # The verdict counts for more than its page.
        problem = error
    if settings.json_output:
        console.emit_json({**printable_all(answer), "folder": None if folder is None else str(folder)})
    else:
        show(verdict, everything)
    if folder is not None:
        console.note(f"as a page: {shown(folder)}/{NAME}")
    if problem is not None:
        console.note(f"no page was written: {problem}")
    if verdict.state == "unknown":
        console.note(NOT_SHOWN)
    ctx.exit(1 if verdict.hangs else 0)
