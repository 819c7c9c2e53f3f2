"""``harness gpu-selftest``: try on a machine with a GPU what was never tried on one."""

from __future__ import annotations

import os
from typing import Any

import click

from harness import console
from harness.cli.options import json_option
from harness.errors import EnvironmentUnfit
from harness.runs import Redactor, RunFolder, shown
from harness.runs.environment import secrets_of
from harness.settings import load_settings
from harness.stack import guard
from harness.stack.gpu import selftest
from harness.stack.gpu.machine import look
from harness.stack.gpu.split import NO_TOOLKIT, TOOLKIT_MEND


@click.command("gpu-selftest")
@json_option
def command(**flags: Any) -> int:
    """Bring up each engine on the GPU in a stack of its own, check it, and pack what was seen into one file."""
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    machine = look(guard.docker_fit())
    if not machine.gpus:
        why = machine.trouble or "nvidia-smi isn't here"
        raise EnvironmentUnfit(f"No NVIDIA GPU was found: {why}.", mend="run this on a machine that has one")
    if not machine.way:
        raise EnvironmentUnfit(NO_TOOLKIT, mend=TOOLKIT_MEND)
    ports = (guard.next_free(18080), guard.next_free(18265))
    wanted = selftest.steps(len(machine.gpus), ports)
    outcomes = []
    with RunFolder.create(settings.runs_dir, "gpu-selftest", Redactor(secrets_of(dict(os.environ)))) as folder:
        for outcome in selftest.run(wanted, folder, lambda name: console.note(f"{name} …")):
            outcomes.append(outcome)
            say = console.ok if outcome.good else console.bad if outcome.wanted else console.warn
            say(f"{outcome.name}: {'stopped' if outcome.code is None else outcome.code} after {outcome.seconds:.0f} s")
        target = selftest.pack(folder, outcomes)
    failed = [one.name for one in outcomes if one.wanted and not one.good]
    if settings.json_output:
        console.emit_json({"exit_code": int(bool(failed)), "failed": failed, "file": str(target)})
    console.note(f"{shown(target)} has everything that was seen, without secrets; please send it back")
    return int(bool(failed))
