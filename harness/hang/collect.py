"""Asks all ways in side by side and makes one dump of what they answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from harness.hang.expected import missing_ranks, world_size
from harness.hang.folder import Manifest, ProcessEntry, dump_name
from harness.hang.model import Dump
from harness.hang.readers import read_memory
from harness.hang.ways import Unreachable, Way
from harness.processes.sampling.model import NodeAnswer, SampleRequest

# Beside what the samples themselves may take: connecting, starting, carrying the answer.
GRACE_SECONDS = 15.0


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


def collect(ways: Sequence[Way], request: SampleRequest) -> Collected:
    """Sample by all ways at once; who can't be asked, or answers too late, is named with the reason."""
    answers, unreachable = _ask(ways, request)
    return assemble(answers, unreachable, request)


def assemble(answers: Sequence[NodeAnswer], unreachable: dict[str, str], request: SampleRequest) -> Collected:
    """Make one dump of the answers: each process once, named across all nodes, with those that should be there."""
    entries, files = merged(answers)
    manifest = Manifest(
        taken=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        world_size=world_size(entries),
        gap_seconds=request.gap_seconds if request.samples > 1 else None,
        processes=entries,
        unreachable=unreachable,
        notes=list(dict.fromkeys(note for answer in answers for note in answer.notes)),
        environment={answer.host or "?": answer.environment for answer in answers},
    )
    if not unreachable and not request.pids:
        manifest.processes += missing_ranks(entries)
    dump = read_memory(manifest, files)
    dumps = _named(manifest, files, dump)
    left_out = list(dict.fromkeys(command for answer in answers for command in answer.left_out))
    return Collected(manifest, dumps, dump, left_out)


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
                    content = answer.dumps.get(sample.file)
                    sample.file = None if content is None else f"{number}.{sample.file}"
                    if content is not None and sample.file is not None:
                        files[sample.file] = content
            if known is not None:
                entry.container = entry.container or known.container
                entries[entries.index(known)] = entry
            else:
                entries.append(entry)
            by_identity[key] = entry
    return entries, files


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
    for entry, process in zip(manifest.processes, dump.processes, strict=True):
        entry.id, entry.role, entry.rank = process.id, process.role, process.rank
        for number, sample in enumerate(entry.samples, start=1):
            if sample.file is not None:
                content = files[sample.file]
                sample.file = _free(dump_name(entry, number), dumps)
                dumps[sample.file] = content
        kept.append(entry)
    manifest.processes = kept
    return dumps


def _free(name: str, taken: dict[str, bytes]) -> str:
    """Two nodes may have a worker of the same number."""
    if name not in taken:
        return name
    stem, _, ending = name.partition(".")
    count = 2
    while f"{stem}@{count}.{ending}" in taken:
        count += 1
    return f"{stem}@{count}.{ending}"


def _ask(ways: Sequence[Way], request: SampleRequest) -> tuple[list[NodeAnswer], dict[str, str]]:
    """Every way in a thread of its own; one that doesn't come back is left behind."""
    deadline = time.monotonic() + request.timeout_seconds + GRACE_SECONDS
    answers: dict[int, NodeAnswer] = {}
    unreachable: dict[str, str] = {}
    failures: dict[int, BaseException] = {}

    def ask(number: int, way: Way) -> None:
        try:
            answers[number] = way.sample(request, deadline)
        except Unreachable as error:
            unreachable[way.name] = error.reason
        except BaseException as error:  # noqa: BLE001  # it is raised again below, by the one who asked
            failures[number] = error

    # Daemons: a way that hangs must not keep the command from ending.
    threads = [
        threading.Thread(target=ask, args=(number, way), name=f"way {way.name}", daemon=True)
        for number, way in enumerate(ways)
    ]
    for thread in threads:
        thread.start()
    for thread, way in zip(threads, ways, strict=True):
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            unreachable[way.name] = "it didn't answer in time"
    for number, error in failures.items():
        if not isinstance(error, Exception) or len(ways) == 1:
            raise error
        unreachable[ways[number].name] = f"{type(error).__name__}: {error}"
    return [answers[number] for number in sorted(answers)], dict(unreachable)
