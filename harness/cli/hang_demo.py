"""``harness hang-demo``: a program that hangs on purpose, dumped and explained, and then what is really wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness import console
from harness.cli.next_steps import as_typed_here
from harness.cli.options import json_option, setting_option
from harness.errors import UsageError, nearest
from harness.hang.collect import collect
from harness.hang.decide import diagnose
from harness.hang.show import show
from harness.hang.ways import here
from harness.hang.zoo import judge
from harness.hang.zoo.interpreter import python_with
from harness.hang.zoo.program import APART, Program, programs
from harness.hang.zoo.run import running
from harness.places import home
from harness.printable import printable_all
from harness.processes.sampling.model import SampleRequest
from harness.settings import load_settings


@click.command("hang-demo")
@setting_option("case")
@setting_option("gap")
@json_option
def command(**flags: Any) -> None:
    """Run a program that hangs on purpose, dump it, say what the stacks mean, and then what is true.

    Without CASE=, the programs are listed. Everything that was started is ended again. Exit code 0: it was shown,
    whatever the verdict; 2: there is no such program.
    """
    settings = load_settings(flags)
    if settings.json_output:
        console.to_stderr()
    folder = home() / "examples/hangs"
    if not settings.case:
        _list(programs(folder), settings.json_output)
        return
    program = _named(settings.case, folder)
    with console.step(f"starting {program.name}, until it {'hangs' if program.state == 'hung' else 'runs'}"):
        started = running(program, python_with(program.needs))
        one = started.__enter__()
    try:
        request = SampleRequest(pids=one.pids, gap_seconds=settings.gap)
        collected = collect(here.find(), request)
        verdict = diagnose(collected.dump)
        verdict.next = [as_typed_here(step) for step in verdict.next]
        said = judge.laggards(verdict, collected.manifest.processes, one.names, program)
    finally:
        started.__exit__(None, None, None)
    if settings.json_output:
        truth = program.model_dump(include={"state", "accept", "tie", "laggards"})
        console.emit_json({"case": program.name, "truth": truth, "verdict": printable_all(verdict.as_dict())})
        return
    show(verdict)
    console.line()
    console.heading(f"What is true: {program.title}")
    for line in program.about.splitlines()[1:]:
        console.line(line)
    console.line(f"  state      {program.state} (said: {verdict.state})")
    named = " | ".join(verdict.candidates) or verdict.cause
    console.line(f"  cause      {' or '.join(program.accept)} (said: {named})")
    console.line(f"  laggards   {', '.join(program.laggards) or 'nobody stands out'} (said: {', '.join(said) or '–'})")
    console.note(f"the program: {program.path.relative_to(home())}")


def _named(case: str, folder: Path) -> Program:
    wanted = case.replace("_", "-").removesuffix(".py")
    folders = [folder, *(folder / name for name in APART)]
    every = {program.name: program for each in folders for program in programs(each)}
    if wanted not in every:
        near = nearest(wanted, list(every))
        raise UsageError(
            f"CASE={case} is no program of examples/hangs.",
            consequence="Nothing was started.",
            mend=(f"make hang-demo CASE={near}\n" if near else "") + "make hang-demo   # lists them",
        )
    return every[wanted]


def _list(listed: list[Program], as_json: bool) -> None:
    if as_json:
        console.emit_json([{"case": program.name, "title": program.title} for program in listed])
        return
    console.table(["case", "what happens"], [[program.name, program.title] for program in listed])
    console.mend(f"make hang-demo CASE={listed[0].name}" if listed else "examples/hangs is empty")
