"""Makes one dump of what all ways in answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from harness.hang.ask import GRACE_SECONDS, ask
from harness.hang.expected import add_ended, missing_ranks, recognise_zombies, world_size
from harness.hang.folder import Manifest, ProcessEntry, dump_name
from harness.hang.kept_runs import runs_of
from harness.hang.model import Dump
from harness.hang.readers import read_memory
from harness.hang.ways import Way
from harness.processes.sampling.model import NodeAnswer, SampleRequest
from harness.processes.sampling.roles import is_system


@dataclass
class Collected:
    """One dump of everything that could be reached.

    Attributes:
        dumps: content of the dump's files by name.
        dump: the same as the readers understand it, so that it needn't be read a second time.
        left_out: command lines of Python processes that were seen and not sampled.
    """

    manifest: Manifest
    dumps: dict[str, bytes]
    dump: Dump
    left_out: list[str] = field(default_factory=list)

    @property
    def dumps_of_stacks(self) -> list[str]:
        """Names of the files that have somebody's stacks."""
        return [sample.file for entry in self.manifest.processes for sample in entry.samples if sample.file]


def collect(
    ways: Sequence[Way], request: SampleRequest, runs: Path | None = None, grace_seconds: float = GRACE_SECONDS
) -> Collected:
    """Sample by all ways at once; who can't be asked, or answers too late, is named with the reason.

    Args:
        runs: where `make run` keeps its records.
        grace_seconds: beside what the samples themselves may take: connecting, starting, carrying the answer.
    """
    answers, unreachable = ask(ways, request, grace_seconds)
    return assemble(answers, unreachable, request, runs)


def assemble(
    answers: Sequence[NodeAnswer], unreachable: dict[str, str], request: SampleRequest, runs: Path | None = None
) -> Collected:
    """Make one dump of the answers: each process once, named across all nodes, with those that should be there."""
    entries, files = merged(answers)
    if not unreachable:
        _add_absent(entries, files, runs)
    _take_loose_logs(answers, files)
    _take_tables(answers, files)
    manifest = Manifest(
        taken=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        world_size=world_size(entries),
        gap_seconds=request.gap_seconds if request.samples > 1 else None,
        processes=[entry for entry in entries if not is_system(entry.command)],
        unreachable=unreachable,
        notes=list(dict.fromkeys(note for answer in answers for note in answer.notes)),
        environment={answer.host or "?": answer.environment for answer in answers if answer.environment},
    )
    dump = read_memory(manifest, files)
    dumps = _named(manifest, files, dump)
    left_out = list(dict.fromkeys(command for answer in answers for command in answer.left_out))
    return Collected(manifest, dumps, dump, left_out)


def _add_absent(entries: list[ProcessEntry], files: dict[str, bytes], runs: Path | None) -> None:
    """Add who should be there and isn't, with what is known of its end."""
    absent = missing_ranks(entries)
    recognise_zombies(entries, absent)
    others: list[ProcessEntry] = []
    for run in runs_of(entries, runs) if runs is not None else []:
        others += add_ended(entries, absent, run.processes, run.name)
        files |= {f"logs/run/{name}": content for name, content in run.logs.items()}
    entries += [*absent, *others]


def merged(answers: Sequence[NodeAnswer]) -> tuple[list[ProcessEntry], dict[str, bytes]]:
    """Every process once, with its dumps under names of their own.

    The host sees a container's processes too, under other numbers. Who has stacks wins; what only the other knows
    (the container's name) is filled in.
    """
    by_identity: dict[object, ProcessEntry] = {}
    entries: list[ProcessEntry] = []
    files: dict[str, bytes] = {}
    for number, answer in enumerate(answers):
        for entry in answer.processes:
            entry.container = entry.container or answer.container
            entry.host = entry.host or answer.host
            known = by_identity.get(key := _identity(answer, entry))
            if known is not None and _sampled(known) >= _sampled(entry):
                known.container = known.container or entry.container
                continue
            for sample in entry.samples:
                if sample.file is not None:
                    sample.file = _carry(answer, sample.file, f"{number}.{sample.file}", files) or None
            entry.tasks = _carry(answer, entry.tasks, f"{number}/{entry.tasks}", files)
            entry.recorder = _carry(answer, entry.recorder, f"{number}/{entry.recorder}", files)
            entry.logs = [
                name for log in entry.logs if (name := _carry(answer, log, f"logs/{number}/{log[5:]}", files))
            ]
            if known is not None:
                entry.container = entry.container or known.container
                entries[entries.index(known)] = entry
            else:
                entries.append(entry)
            by_identity[key] = entry
    return entries, files


def _take_loose_logs(answers: Sequence[NodeAnswer], files: dict[str, bytes]) -> None:
    """Log files that a person named and that are no process's own."""
    for number, answer in enumerate(answers):
        for name, content in answer.dumps.items():
            if name.startswith("logs/"):
                files.setdefault(f"logs/{number}/{name[5:]}", content)


def _take_tables(answers: Sequence[NodeAnswer], files: dict[str, bytes]) -> None:
    """Ray's tables, which belong to no process."""
    for answer in answers:
        for name, content in answer.dumps.items():
            if name.startswith("ray-"):
                files[_free(name, files)] = content


def _carry(answer: NodeAnswer, name: str, as_name: str, files: dict[str, bytes]) -> str:
    """Take a file of an answer along; returns its new name, "" where there is none."""
    content = answer.dumps.get(name)
    if not name or content is None:
        return ""
    files[as_name] = content
    return as_name


def _identity(answer: NodeAnswer, entry: ProcessEntry) -> object:
    if entry.pid_namespace and entry.own_pid and entry.start_ticks and answer.boot_id:
        return (answer.boot_id, entry.pid_namespace, entry.own_pid, entry.start_ticks)
    return (id(answer), entry.pid, entry.start_ticks)


def _sampled(entry: ProcessEntry) -> int:
    return sum(sample.file is not None for sample in entry.samples)


def _named(manifest: Manifest, files: dict[str, bytes], dump: Dump) -> dict[str, bytes]:
    """Give entries the ids that the readers found, and each file the name that goes with it."""
    kept: list[ProcessEntry] = []
    dumps: dict[str, bytes] = {}
    renamed: dict[str, str] = {}
    for entry, process in zip(manifest.processes, dump.processes, strict=True):
        entry.id, entry.role, entry.rank = process.id, process.role, process.rank
        own: dict[str, str] = {}
        for number, sample in enumerate(entry.samples, start=1):
            if sample.file is not None and sample.file not in own:
                own[sample.file] = _free(dump_name(entry, number), dumps)
                dumps[own[sample.file]] = files[sample.file]
            if sample.file is not None:
                sample.file = own[sample.file]  # of a process that didn't move, both samples are one file
        if entry.tasks:
            name = dump_name(entry, ending="tasks.json")
            dumps[name], entry.tasks = files[entry.tasks], name
        if entry.recorder:
            plain = entry.recorder.rpartition("/")[2]
            name = plain if plain not in dumps else f"{dump_name(entry, ending='recorder')}/{plain}"
            dumps[name], entry.recorder = files[entry.recorder], name
        process.logs = entry.logs = [_log_name(log, renamed) for log in entry.logs]
        kept.append(entry)
    manifest.processes = kept
    for name, content in files.items():
        if name.startswith("logs/"):
            dumps[_log_name(name, renamed)] = content
        elif name.startswith("ray-"):
            dumps[name] = content
    for hint in dump.hints:
        hint.source = renamed.get(hint.source, hint.source)
    return dumps


def _log_name(name: str, renamed: dict[str, str]) -> str:
    """``logs/FILE``; where two nodes have one of that name, the second gets a number."""
    if name not in renamed:
        plain = f"logs/{name.split('/', 2)[2]}"
        stem, dot, ending = plain.rpartition(".")
        count, candidate = 2, plain
        while candidate in renamed.values():
            candidate, count = f"{stem}@{count}{dot}{ending}", count + 1
        renamed[name] = candidate
    return renamed[name]


def _free(name: str, taken: dict[str, bytes]) -> str:
    """Two nodes may have a worker of the same number."""
    if name not in taken:
        return name
    stem, _, ending = name.partition(".")
    count = 2
    while f"{stem}@{count}.{ending}" in taken:
        count += 1
    return f"{stem}@{count}.{ending}"
