"""What lies beside a process's stacks: the ends of its logs, and its Flight Recorder's dump."""

from __future__ import annotations

import glob
import os
import stat as modes
from collections.abc import Iterator, Mapping

from harness.processes.sampling import inside
from harness.processes.sampling.model import DUMP_LIMIT, ProcessEntry
from harness.processes.stat import started_at

OWN_LOG_BYTES, NAMED_LOG_BYTES = 64 * 1024, 1024 * 1024
_MOST_LOGS = 64
_STDOUT_AND_STDERR = (1, 2)
# Where PyTorch writes a rank's recorder to, the rank's number behind it: the new name, the old one, the default.
_RECORDER_FILES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_RECORDER_DEFAULT = "/tmp/nccl_trace_rank_"


class Logs:
    """Collects the ends of log files, each once however many processes write to it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._names: dict[tuple[int, int], str] = {}

    def own(self, entry: ProcessEntry) -> None:
        """The files that a process's standard output and standard error go to; pipes and terminals keep nothing."""
        for descriptor in _STDOUT_AND_STDERR:
            path = f"/proc/{entry.pid}/fd/{descriptor}"
            try:
                shown = os.readlink(path).removesuffix(" (deleted)")
            except OSError:
                continue
            name = self._take(path, os.path.basename(shown), OWN_LOG_BYTES)
            if name is not None and name not in entry.logs:
                entry.logs.append(name)

    def named(self, patterns: list[str]) -> list[str]:
        """Files that a person named, with ``*`` and ``**``; returns the patterns that match nothing."""
        unmatched = []
        for pattern in patterns:
            paths = sorted(glob.glob(os.path.expanduser(pattern), recursive=True))
            if not [path for path in paths if self._take(path, os.path.basename(path), NAMED_LOG_BYTES)]:
                unmatched.append(pattern)
        return unmatched

    def _take(self, path: str, name: str, most: int) -> str | None:
        """Take a regular file's end; returns the name that it has in the dump."""
        try:
            about = os.stat(path)
            if not modes.S_ISREG(about.st_mode):
                return None
            key = (about.st_dev, about.st_ino)
            if key not in self._names:
                if len(self.files) >= _MOST_LOGS:
                    return None
                content = _end_of(path, about.st_size, most)
                self._names[key] = self._free(name)
                self.files[self._names[key]] = content
            return self._names[key]
        except OSError:
            return None

    def _free(self, name: str) -> str:
        stem, ending = os.path.splitext(name or "log")
        # A dump's reader takes .json for a dump.
        ending = ".log" if ending in ("", ".json", ".gz") else ending
        count, candidate = 2, f"logs/{stem}{ending}"
        while candidate in self.files:
            candidate, count = f"logs/{stem}~{count}{ending}", count + 1
        return candidate


def _end_of(path: str, size: int, most: int) -> bytes:
    """The last bytes of a file, from the beginning of a line."""
    with open(path, "rb") as file:
        if size > most:
            file.seek(size - most)
            file.readline()
        return file.read(most)


def recorder_of(entry: ProcessEntry, environ: Mapping[str, str]) -> tuple[str, bytes] | None:
    """A rank's Flight Recorder, ``(file name, content)``: asked for where it can be, else what PyTorch wrote lately."""
    if entry.rank is None:
        return None
    asked = inside.recorder(entry.pid)
    for backend in ("nccl", "gloo"):
        if backend in asked:
            return f"trace_{entry.rank}.json", asked[backend]
    for path in _recorder_paths(entry, environ):
        try:
            about = os.stat(path)
            # An earlier run's says nothing of this one.
            if about.st_mtime < started_at(entry.start_ticks) or about.st_size > DUMP_LIMIT:
                continue
            with open(path, "rb") as file:
                content = file.read(DUMP_LIMIT)
        except OSError:
            continue
        return f"trace_{entry.rank}{'.json' if content[:1] == b'{' else ''}", content
    return None


def _recorder_paths(entry: ProcessEntry, environ: Mapping[str, str]) -> Iterator[str]:
    """Through the process's own root, which may be a container's."""
    prefixes = [environ[name] for name in _RECORDER_FILES if environ.get(name)] or [_RECORDER_DEFAULT]
    for prefix in prefixes:
        if prefix.startswith("/"):
            yield f"/proc/{entry.pid}/root{prefix}{entry.rank}"
        else:
            yield f"/proc/{entry.pid}/cwd/{prefix}{entry.rank}"
