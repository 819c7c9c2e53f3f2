"""Puts together what the files of one input say: samples to processes, processes to the manifest's list."""

from __future__ import annotations

import json
import posixpath

from harness.hang.folder import Manifest, ProcessEntry, SampleEntry
from harness.hang.model import Dump, LockWait, Loop, Process, Recording, Sample, Task, Threads
from harness.hang.readers import identity
from harness.hang.readers.identity import NameParts
from harness.hang.readers.logs import Hints
from harness.hang.readers.pyspy_json import Read
from harness.hang.readers.text import Printed
from harness.processes.sampling.model import checked

# What a manifest's entry and a process call alike.
_SAME_FIELDS = (
    "rank", "local_rank", "world_size", "local_world_size", "pid", "ppid", "host", "container", "command",
    "state", "wchan", "syscall", "lock_holder", "listens", "backends", "missing", "exit_code", "error", "logs",
    "blocked_call",
)  # fmt: skip
# Likewise of their samples.
_SAME_NUMBERS = (
    "at", "state", "cpu_seconds", "read_bytes", "write_bytes", "switches", "main_turns", "gpu_percent", "sleeps",
    "error",
)  # fmt: skip


class Assembly:
    """Takes one file after another, in any order, and gives the dump at the end.

    Attributes:
        manifests: each with the folder that it lies in.
    """

    def __init__(self, hints: Hints) -> None:
        self.manifests: list[tuple[str, Manifest]] = []
        self.recordings: list[Recording] = []
        self.pending_actors: list[str] = []
        self.notes: list[str] = []
        self._hints = hints
        self._files: dict[str, list[Threads]] = {}
        self._loose: list[tuple[str, NameParts, Process]] = []
        self._tasks: list[tuple[NameParts, int, list[Task], list[Loop]]] = []
        self._stands_for_all = False

    def take_manifest(self, name: str, data: bytes) -> None:
        """Take the manifest of the folder that it lies in.

        Raises:
            ValueError: it isn't one.
        """
        content = json.loads(data.decode("utf-8", "replace"))
        if isinstance(content, dict) and not isinstance(content.get("processes"), list):
            content = {key: value for key, value in content.items() if key != "processes"}
        self.manifests.append((posixpath.dirname(name), checked(Manifest, content)))

    def take_sampled(self, name: str, found: list[Read]) -> None:
        """Take py-spy's JSON."""
        self._files[name] = [read.threads for read in found]
        for read in found:
            process = Process(pid=read.pid, samples=[Sample(read.threads)], source=name)
            self._loose.append((name, identity.read_name(name), process))

    def take_printed(self, name: str, printed: list[Printed]) -> None:
        """Take the processes of a text."""
        parts = identity.read_name(name)
        if len(printed) == 1 and not printed[0].ranks:
            self._files[name] = printed[0].samples
        elif len(printed) > 1:
            # The file's name can't name several processes.
            parts = NameParts(stem=parts.stem)
        for entry in printed:
            self._stands_for_all |= entry.stands_for_all
            for rank in entry.ranks or (None,):
                process = Process(pid=entry.pid, ppid=entry.parent, command=entry.command, rank=rank, source=name)
                process.samples = [Sample(threads) for threads in entry.samples]
                self._loose.append((name, parts, process))

    def take_tasks(self, name: str, pid: int, tasks: list[Task], loops: list[Loop]) -> None:
        """Take the await chains and event loops of one process."""
        self._tasks.append((identity.read_name(name), pid, tasks, loops))

    def finish(self) -> Dump:
        """The whole dump."""
        processes: list[Process] = []
        used: set[str] = set()
        for folder, manifest in self.manifests:
            processes += [self._from_manifest(entry, folder, used) for entry in manifest.processes]
        # Where there is a manifest, it says which files are stacks; a log may hold old ones.
        logs = tuple(posixpath.join(folder, "logs/") for folder, _ in self.manifests)
        processes += self._merge([e for e in self._loose if e[0] not in used and not (logs and e[0].startswith(logs))])
        dump = Dump(
            recordings=self.recordings,
            hints=self._hints.found,
            pending_actors=self.pending_actors,
            stands_for_all=self._stands_for_all,
            notes=self.notes,
        )
        for _, manifest in self.manifests:
            dump.world_size = manifest.world_size or dump.world_size
            dump.gap_seconds = manifest.gap_seconds or dump.gap_seconds
            dump.unreachable |= manifest.unreachable
            dump.notes += [f"{host} couldn't be asked: {reason}" for host, reason in manifest.unreachable.items()]
            dump.notes += manifest.notes
        dump.processes = processes = [entry for entry in processes if not identity.is_system(entry.command)]
        identity.name_all(processes)
        dump.world_size = dump.world_size or max((process.world_size or 0 for process in processes), default=0) or None
        self._give_tasks(dump)
        return dump

    def _from_manifest(self, entry: ProcessEntry, folder: str, used: set[str]) -> Process:
        process = Process(
            id="" if entry.role == "child" else entry.id,
            role=entry.role if entry.role in ("rank", "child", "driver", "server", "worker", "launcher") else "",  # type: ignore[arg-type]
            **{name: getattr(entry, name) for name in _SAME_FIELDS},
        )
        process.locks = _locks(entry)
        process.samples = [self._sample(sample, folder, used) for sample in entry.samples]
        process.state = process.state or next((s.state for s in reversed(process.samples) if s.state), "")
        process.logs = [posixpath.join(folder, name) for name in process.logs]
        process.source = next((sample.file for sample in entry.samples if sample.file), "") or ""
        return process

    def _sample(self, entry: SampleEntry, folder: str, used: set[str]) -> Sample:
        threads: Threads = ()
        if entry.file:
            name = posixpath.join(folder, entry.file)
            used.add(name)
            threads = next(iter(self._files.get(name, [])), ())
        return Sample(threads=threads, **{name: getattr(entry, name) for name in _SAME_NUMBERS})

    def _merge(self, loose: list[tuple[str, NameParts, Process]]) -> list[Process]:
        """One process for all samples of it: of the same file name but for the sample's number, or of the same pid."""
        merged: dict[tuple[str, int, int | None], Process] = {}
        order = sorted(loose, key=lambda entry: entry[1].sample) if any(e[1].sample > 1 for e in loose) else loose
        for name, parts, process in order:
            self._apply_name(process, parts)
            folder = posixpath.dirname(name)
            key = (f"{folder}/{parts.stem}", process.pid, process.rank)
            if not process.pid and parts.sample == 1 and key in merged:
                key = (f"{key[0]}#{len(merged)}", 0, process.rank)
            known = merged.get(key)
            if known is None:
                merged[key] = process
            else:
                known.samples = [*known.samples[:1], process.samples[-1]]
        return list(merged.values())

    @staticmethod
    def _apply_name(process: Process, parts: NameParts) -> None:
        """What the file's name, then the command line, say; a heading in the text has been applied already."""
        if process.rank is None:
            process.rank = parts.rank
        if parts.child is not None:
            process.role = "child"
            process.pid = process.pid or parts.child
        elif parts.role and process.rank is None:
            process.role = parts.role
        process.pid = process.pid or parts.pid or 0
        if process.rank is None:
            process.rank = identity.rank_in_command(process.command)
        if process.local_rank is None:
            process.local_rank = identity.local_rank_in_command(process.command)

    def _give_tasks(self, dump: Dump) -> None:
        by_pid = {process.pid: process.id for process in dump.processes if process.pid}
        for parts, pid, tasks, loops in self._tasks:
            stem = parts.stem.removesuffix(".tasks")
            owner = by_pid.get(pid) or next((p.id for p in dump.processes if p.source.startswith(f"{stem}.")), "")
            dump.tasks[owner or stem], dump.loops[owner or stem] = tasks, loops


def _locks(entry: ProcessEntry) -> list[LockWait]:
    """For which locks its threads wait; what isn't written as we write it is left out."""
    found = []
    for one in entry.locks:
        thread, wants, line, holds = (one.get(name) for name in ("thread", "wants", "line", "holds"))
        if isinstance(wants, str) and isinstance(holds, list):
            pairs = [pair for pair in holds if isinstance(pair, (list, tuple)) and len(pair) == 2]
            held = tuple((str(lock), str(place)) for lock, place in pairs)
            found.append(LockWait(str(thread or ""), wants, str(line or ""), held))
    return found
