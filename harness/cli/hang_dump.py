"""``harness hang-dump``: every stack of every process that can be reached, and the verdict on them."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from harness import console
from harness.cli.delegated import runs_in_dev
from harness.cli.next_steps import command_line, not_pid, through_make
from harness.cli.options import json_option, setting_option
from harness.cli.ways import ways_in
from harness.errors import BadSetting, DrydockError, NobodyAnswered, NothingToSample, SamplingDenied
from harness.hang.ask import ask
from harness.hang.ways import Way
from harness.hang.ways.here import Here
from harness.places import home, in_container
from harness.processes.sampling.dumper import DENIED
from harness.processes.sampling.model import ProcessEntry, SampleRequest
from harness.settings import Settings, load_settings

if TYPE_CHECKING:
    from harness.hang.collect import Collected


PASSED_ON = ("match", "logs", "locals", "native", "tasks", "gap", "json_output")

# So many of those that weren't asked are named.
_FEW = 4


@click.command("hang-dump")
@setting_option("pids")
@setting_option("containers")
@setting_option("match")
@setting_option("logs")
@setting_option("locals")
@setting_option("native")
@setting_option("tasks")
@setting_option("gap")
@setting_option("ray_address")
@setting_option("via")
@setting_option("hosts")
@setting_option("remote")
@click.option("--everything", is_flag=True, help="Every Python process, not only what looks like training or serving.")
@click.option("--all", "in_full", is_flag=True, help="Show whole stacks of all groups, and every process.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, everything: bool, in_full: bool, **flags: Any) -> None:
    """Dump every stack of the system and say who hangs, who is the laggard, why, and what next.

    Without PIDS= and MATCH=, whatever looks like training or serving is sampled. Nothing is left stopped. Stacks and
    verdict are kept in runs/. Exit code 0: nothing hangs; 1: something does; 2: wrong usage, or nothing to sample;
    3: sampling is denied.
    """
    settings = load_settings(flags)
    not_pid(settings)
    if settings.json_output:
        console.to_stderr()
    request = _request(settings, everything)
    _hand_on(ctx, settings, everything, in_full)
    with console.step("sampling", quiet_below=3600):
        ways = ways_in(settings)
        _say_where(ways, settings)
        threading.Thread(target=_load_the_rest, args=(ways,), daemon=True).start()
        answers, unreachable = ask(ways, request)

    from harness.hang.collect import assemble

    collected = assemble(answers, unreachable, request, settings.runs_dir)
    _refuse_empty(collected, settings)

    from harness.cli.hang_steps import LOOK_AGAIN, fitting, where_values_are
    from harness.hang import seen_here
    from harness.hang.decide import diagnose
    from harness.hang.show import NOT_SHOWN, show
    from harness.printable import printable_all

    seen_here.mark(collected.manifest.processes, collected.dump.processes)
    verdict = diagnose(collected.dump)
    steps = [*verdict.next, *LOOK_AGAIN] if verdict.state == "unknown" else verdict.next
    verdict.next = fitting(steps, settings, collected.manifest.processes, everything=everything)
    # The verdict counts for more than its file: it comes first, and also where the file can't be written.
    if not settings.json_output:
        show(verdict, in_full)

    # Not before: what makes the page takes longer to import than all that has decided.
    from harness.hang import keep
    from harness.hang.page import NAME, build
    from harness.hang.page.write import now
    from harness.runs import Redactor, shown
    from harness.runs.environment import secrets_of

    redactor = Redactor(secrets_of(dict(os.environ)))
    answer = redactor.data(printable_all(verdict.as_dict()))
    folder, problem = None, None
    try:
        manifest = collected.manifest
        page = build(verdict, collected.dump, redactor, made=now(), environment=manifest.environment)
        folder = keep.keep(settings.runs_dir, collected, answer, redactor, page)
    except DrydockError as error:
        problem = error
    if settings.json_output:
        console.emit_json({**answer, "folder": None if folder is None else str(folder)})
    _say_what(collected, settings, everything)
    if folder is not None:
        console.note(f"stacks and verdict: {shown(folder)}; as a page: {shown(folder)}/{NAME}")
        if settings.locals:
            console.note(where_values_are(str(shown(folder)), collected.manifest.processes, verdict.laggards))
    if problem is not None:
        console.show_error(problem)
    if verdict.state == "unknown":
        console.note(NOT_SHOWN)
    ctx.exit(1 if verdict.hangs else problem.exit_code if problem is not None else 0)


def _hand_on(ctx: click.Context, settings: Settings, everything: bool, in_full: bool) -> None:
    """A cluster over several machines is asked from ``dev``, which has its Ray; nobody here need have one."""
    named = (settings.pids, settings.containers, settings.ray_address, settings.via, settings.hosts)
    if any(named) or not runs_in_dev():
        return
    from harness.stack.status import recall

    if not recall(settings)[0].shared:
        return
    from harness.stack.delegate import delegate

    flags = ["--everything"] * everything + ["--all"] * in_full
    ctx.exit(delegate(settings, "hang-dump", PASSED_ON, flags))


def _load_the_rest(ways: Sequence[Way]) -> None:
    """Import what reads and decides while the samples are taken: until then nobody needs it."""
    for way in ways:
        if isinstance(way, Here):
            way.wait_busy(1.0)  # finding the processes comes first, and both want the interpreter
    from harness import printable  # noqa: F401
    from harness.hang import collect, decide, show  # noqa: F401

    decide.load_table()


def _request(settings: Settings, everything: bool) -> SampleRequest:
    try:
        pids = [int(part) for part in settings.pids.replace(",", " ").split()]
    except ValueError:
        raise BadSetting(f"PIDS={settings.pids} can't be used: numbers with commas between are meant") from None
    try:
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
        raise BadSetting(f"MATCH={settings.match} can't be used: {error}") from None


def _refuse_empty(collected: Collected, settings: Settings) -> None:
    """An answer without a single stack is no verdict.

    Raises:
        NothingToSample: nobody is meant by what was asked for.
        NobodyAnswered: nobody was found, and not everywhere could be asked.
        SamplingDenied: they are there, and none of them may be read.
    """
    entries = collected.manifest.processes
    if not any(not entry.missing for entry in entries):
        if settings.logs and collected.dump.hints:
            return  # nobody lives any more, and their logs tell of it
        asked = f"PIDS={settings.pids}" if settings.pids else f"MATCH={settings.match}" if settings.match else ""
        if unreachable := collected.manifest.unreachable:
            raise NobodyAnswered.of(asked, unreachable)
        raise NothingToSample.of(asked, collected.left_out, _neighbours(settings))
    denied = denied_of(entries)
    if denied and not collected.dumps_of_stacks:
        what = f"{len(denied)} processes are there, and none of them could be sampled"
        reasons = "\n  ".join(collected.manifest.notes)
        raise SamplingDenied(what, consequence=reasons or denied[0].error, mend=as_root(settings))


def denied_of(entries: Sequence[ProcessEntry]) -> list[ProcessEntry]:
    """Those that live and may not be read by whoever looked."""
    return [
        entry
        for entry in entries
        if not entry.missing
        and entry.samples
        and not any(sample.file for sample in entry.samples)
        and any(sample.error == DENIED for sample in entry.samples)
    ]


def as_root(settings: Settings) -> str:
    """The same dump by whoever may read them."""
    from harness.cli.hang_steps import TARGETS
    from harness.cli.next_steps import typed

    again = command_line("hang-dump", typed(settings, TARGETS))
    return f"sudo -E {again}" if os.geteuid() else again


def _named(settings: Settings) -> bool:
    """Whether somebody said who is meant."""
    return bool(
        settings.pids or settings.containers or settings.match or settings.ray_address or settings.via or settings.hosts
    )


def _say_where(ways: Sequence[Way], settings: Settings) -> None:
    """Who expects a stack and has none would take strangers' processes for its own."""
    if _named(settings) or in_container() or not all(isinstance(way, Here) for way in ways):
        return
    stack = "no stack is up (make up), so this" if (home() / "Makefile").is_file() else "this"
    console.note(f"{stack} is about whatever trains or serves on the whole machine")


def _neighbours(settings: Settings) -> list[str]:
    """Containers that nobody has asked; none where somebody has said who is meant."""
    if _named(settings) or in_container():
        return []
    try:
        from harness import docker_engine
        from harness.hang.ways import neighbours

        return neighbours.with_python(docker_engine.all_containers(docker_engine.connect()), settings.project)
    except (ImportError, DrydockError):
        return []  # without Docker there are no containers to tell of


def _say_what(collected: Collected, settings: Settings, everything: bool) -> None:
    denied = denied_of(collected.manifest.processes)
    if denied:
        console.warn(
            f"{len(denied)} of {len(collected.manifest.processes)} processes couldn't be read: denied to this user",
            as_root(settings),
        )
    if collected.left_out:
        from harness.printable import printable

        different = list(dict.fromkeys(printable(command, 100) for command in collected.left_out))
        how = "MATCH=" if everything or through_make() else "--everything, MATCH="
        console.note(f"{len(collected.left_out)} other Python processes were left out ({how}):")
        for command in different[:_FEW]:
            console.line(f"    {command}")
        if len(different) > _FEW:
            console.line(f"    and {len(different) - _FEW} more")
    if names := _neighbours(settings):
        shown = ", ".join(names[:_FEW]) + (f" and {len(names) - _FEW} more" if len(names) > _FEW else "")
        more = f"{len(names)} containers here run Python and weren't asked: {shown}"
        console.note(more)
        console.mend(command_line("hang-dump", {"containers": names[0]}))
