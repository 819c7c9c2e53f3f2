"""Turns any input into a ``Dump``: recognises each file, reads it, and puts together who is who."""

from __future__ import annotations

import io
import json
import tarfile
import zlib
from collections.abc import Callable, Mapping

from harness.errors import UsageError
from harness.hang.folder import Manifest
from harness.hang.model import Dump
from harness.hang.readers import cluster, pyspy_json, recorder, sources
from harness.hang.readers.assembly import Assembly
from harness.hang.readers.identity import read_name
from harness.hang.readers.interning import Interner
from harness.hang.readers.logs import Hints
from harness.hang.readers.sources import MOST_JSON_BYTES, Source
from harness.hang.readers.text import TextReader

# Most dumps are one read of this size; a larger buffer would be mapped and unmapped for each of them.
_HEAD, _SNIFF = (1 << 16) - 128, 8192
_BROKEN = (OSError, EOFError, tarfile.TarError, zlib.error)
_MOST_NOTES = 50


def read(path: str) -> Dump:
    """Read a folder, an archive, a file or standard input (``-``).

    Raises:
        UsageError: there is nothing in it that tells anything of a process.
    """
    reader = _Reader()
    for source in sources.sources(path):
        reader.take(source)
    dump = reader.assembly.finish()
    if not dump.processes and not dump.recordings and not dump.hints:
        found = "; ".join(dump.notes[:3]) or "it is empty, or text without a line that bears on a hang"
        raise UsageError(
            f"`{path}` holds no stack of any process.",
            consequence=f"There is nothing to diagnose: {found}.",
            mend="make diagnose DUMP=FOLDER|ARCHIVE|FILE   # text or JSON of py-spy, faulthandler, pystack, gdb, ray",
        )
    return dump


def read_memory(manifest: Manifest, dumps: Mapping[str, bytes]) -> Dump:
    """Read a dump that hasn't been written yet; its processes are the manifest's, in the same order."""
    reader = _Reader()
    reader.assembly.manifests.append(("", manifest))
    for name, content in dumps.items():
        reader.take(Source(name, io.BytesIO(content)))
    return reader.assembly.finish()


class _Reader:
    """Recognises files one after another."""

    def __init__(self) -> None:
        self.hints = Hints()
        self.interner = Interner()
        self.assembly = Assembly(self.hints)

    def take(self, source: Source) -> None:
        """Read one file; what can't be read becomes a note."""
        if source.damage:
            self._note(source.damage)
            return
        try:
            head = source.stream.read(_HEAD)
            if head:
                self._take(source, head)
        except _BROKEN as error:
            self._note(f"{source.name} breaks off: {error}")

    def _take(self, source: Source, head: bytes) -> None:
        if head.startswith(b"\xef\xbb\xbf"):
            head = head[3:]
        if (kind := self._structured(source.name, head[:_SNIFF])) is not None:
            data = head if len(head) < _HEAD else head + source.stream.read(MOST_JSON_BYTES - len(head))
            if len(data) >= MOST_JSON_BYTES:
                self._note(f"{source.name} is larger than a dump can be and was left out")
                return
            try:
                kind(data)
                return
            except (ValueError, RecursionError, MemoryError) as error:
                # JSON that isn't ours has no lines to read either.
                self._note(f"{source.name} is no dump: {error}")
                return
        if b"\0" in head[:_SNIFF]:
            self._note(f"{source.name} is neither text nor a dump")
            return
        self._read_text(source, head)

    def _structured(self, name: str, head: bytes) -> Callable[[bytes], None] | None:
        """How to read a file that isn't plain text; None for text."""
        base = name.rpartition("/")[2]
        if pyspy_json.looks_like(head):
            return lambda data: self._read_pyspy(name, data)
        if recorder.looks_like(head):
            return lambda data: self._read_recorder(name, data)
        if cluster.looks_like_actors(head):
            return self._read_actors
        if base in cluster.TABLES:
            return lambda data: self._read_table(base, data)
        if cluster.looks_like_tasks(head):
            return lambda data: self._read_tasks(name, data)
        if base == "manifest.json":
            return lambda data: self.assembly.take_manifest(name, data)
        if base.endswith(".json"):
            return self._read_foreign
        return None

    def _read_pyspy(self, name: str, data: bytes) -> None:
        found = pyspy_json.read(data, self.interner)
        if not found[0].whole:
            self._note(f"{name} is cut short; what is whole in it was read")
        self.assembly.take_sampled(name, found)

    def _read_recorder(self, name: str, data: bytes) -> None:
        rank = recorder.rank_in(name)
        if rank is None:
            raise ValueError("its name doesn't end in a rank")
        self.assembly.recordings.append(recorder.read(data, rank, name))

    def _read_actors(self, data: bytes) -> None:
        pending, hints = cluster.read_actors(data)
        self.assembly.pending_actors += pending
        self.hints.found += hints

    def _read_table(self, name: str, data: bytes) -> None:
        pending, notes = cluster.read_table(name, data)
        self.assembly.pending_actors += pending
        for note in notes:
            self._note(note)

    def _read_tasks(self, name: str, data: bytes) -> None:
        self.assembly.take_tasks(name, *cluster.read_tasks(data))

    def _read_foreign(self, data: bytes) -> None:
        json.loads(data.decode("utf-8", "replace"))
        raise ValueError("JSON of something else")

    def _read_text(self, source: Source, head: bytes) -> None:
        self.hints.source, self.hints.rank = source.name, read_name(source.name).rank
        reader = TextReader(self.interner, self.hints)
        reader.feed_all(sources.lines(head, source.stream))
        if reader.overflowed:
            self._note(f"{source.name} holds more processes than can be kept; the rest was left out")
        self.assembly.take_printed(source.name, reader.processes)

    def _note(self, text: str) -> None:
        if len(self.assembly.notes) < _MOST_NOTES:
            self.assembly.notes.append(text)
