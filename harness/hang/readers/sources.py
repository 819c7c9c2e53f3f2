"""Where dumps lie: a folder, an archive, a file, standard input. Gives each file's name and a way to its bytes.

Archives are read as a stream and never unpacked: no member can write anywhere, whatever its name says. Names serve as
labels only, and only their harmless part does.
"""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import os
import sys
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, cast

from harness.errors import UsageError
from harness.hang.readers.ahead import read_ahead

# What a dump is at most. More is either not a dump or somebody's joke; it is said, and the rest is read.
MOST_JSON_BYTES = 128 * 2**20
# Of what was compressed: a megabyte can stand for a gigabyte.
MOST_UNPACKED = 4 * 2**30
MOST_FILES = 2_000_000
_DEEPEST = 6
_CHUNK = 1 << 16
# Ours, and no dumps: reading the truth beside a recorded case would be cheating.
_NOT_DUMPS = {"truth.json", "verdict.json", "environment.json", "result.json"}


@dataclass
class Source:
    """One file.

    Attributes:
        name: its name below the input, with ``/``; never absolute, never with ``..``.
        stream: opened for reading bytes, at its beginning.
        damage: why an archive breaks off here; then there is nothing to read.
    """

    name: str
    stream: IO[bytes]
    damage: str = ""


def sources(path: str) -> Iterator[Source]:
    """All files of an input, one open at a time; the consumer reads each before it asks for the next.

    Raises:
        UsageError: the input isn't there, or can't be opened.
    """
    if path == "-":
        yield Source("stdin", sys.stdin.buffer)
        return
    where = Path(path)
    try:
        if where.is_dir():
            yield from _folder(where)
        elif where.is_file() or where.is_fifo():
            yield from _file(where)
        else:
            raise UsageError(
                f"There is no `{path}`.",
                consequence="There is nothing to diagnose.",
                mend="make diagnose DUMP=FOLDER|ARCHIVE|FILE   # or - for standard input",
            )
    except PermissionError as error:
        raise UsageError(
            f"`{error.filename or path}` can't be read: permission denied.", mend=f"ls -l {path}"
        ) from None


def _folder(folder: Path) -> Iterator[Source]:
    files = list(islice(_walk(str(folder), "", 0), MOST_FILES))
    with read_ahead([path for _, path in files]) as ahead:
        for source in _each(files):
            if ahead is not None:
                ahead.one_more()
            yield source


def _each(files: list[tuple[str, str]]) -> Iterator[Source]:
    for name, path in files:
        try:
            # Unbuffered: most dumps are one read, and there may be a hundred thousand of them.
            stream = open(path, "rb", buffering=0)  # noqa: SIM115
        except OSError as error:
            yield Source(name, io.BytesIO(), damage=f"{name} can't be read: {error.strerror}")
            continue
        with stream:
            yield Source(name, stream)


def _walk(folder: str, below: str, depth: int) -> Iterator[tuple[str, str]]:
    """Regular files only: a pipe or a device in a folder would be waited for without end."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (PermissionError, FileNotFoundError):
        return
    for entry in entries:
        name = f"{below}{entry.name}"
        if entry.is_file():
            if entry.name not in _NOT_DUMPS and not entry.name.startswith("."):
                yield name, entry.path
        elif depth < _DEEPEST and entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, f"{name}/", depth + 1)


def _file(path: Path) -> Iterator[Source]:
    with path.open("rb") as stream:
        head = stream.read(512)
    if _is_archive(path, head):
        yield from _archive(path)
    elif head[:2] == b"\x1f\x8b":
        with gzip.open(path, "rb") as unpacked:
            bounded = _Bounded(cast("IO[bytes]", unpacked), [MOST_UNPACKED])
            yield Source(path.name.removesuffix(".gz"), cast("IO[bytes]", bounded))
    else:
        with path.open("rb") as stream:
            yield Source(path.name, stream)


def _is_archive(path: Path, head: bytes) -> bool:
    if head[257:262] == b"ustar":
        return True
    if head[:2] == b"\x1f\x8b" or head[:3] == b"BZh" or head[:6] == b"\xfd7zXZ\x00":
        return ".tar" in path.name or path.name.endswith((".tgz", ".tbz2", ".txz"))
    return path.name.endswith(".tar")


class _Bounded:
    """A stream of which no more is read than is left of a budget that it may share; beyond that it breaks off."""

    def __init__(self, stream: IO[bytes], left: list[int]) -> None:
        self._stream, self._left = stream, left

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._left[0] -= len(data)
        if self._left[0] < 0:
            raise OSError(f"it unpacks to more than {MOST_UNPACKED >> 30} GiB; the rest was left out")
        return data


def _archive(path: Path) -> Iterator[Source]:
    left = [MOST_UNPACKED]
    try:
        with tarfile.open(path, "r|*") as archive:
            for count, member in enumerate(archive):
                if count >= MOST_FILES:
                    return
                name = _harmless(member.name)
                if not member.isreg() or not name or name.rpartition("/")[2] in _NOT_DUMPS:
                    continue
                stream = archive.extractfile(member)
                if stream is not None:
                    yield Source(name, cast("IO[bytes]", _Bounded(stream, left)))
                    if left[0] < 0:
                        return
    except (
        tarfile.TarError,
        EOFError,
        OSError,
        ValueError,
        TypeError,
        LookupError,
        zlib.error,
        lzma.LZMAError,
    ) as error:
        # tarfile has errors of its own for most damage, and Python's for the rest.
        # What came before the damage has been given already.
        yield Source(path.name, io.BytesIO(), damage=f"{path.name} is damaged: {error}")


def _harmless(name: str) -> str:
    """A member's name without what could lead anywhere."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return "" if any(part.startswith(".") for part in parts[-1:]) else "/".join(parts)


def lines(head: bytes, stream: IO[bytes], longest: int = _CHUNK) -> Iterator[str]:
    """The lines of a text whose first bytes were read already, however large; a longer line comes in pieces."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    rest = ""
    chunk = head or stream.read(_CHUNK)
    while chunk:
        parts = decode(chunk).split("\n")
        parts[0] = rest + parts[0]
        rest = parts.pop()
        yield from parts
        if len(rest) > longest:
            yield rest
            rest = ""
        chunk = stream.read(_CHUNK)
    if rest := rest + decode(b"", final=True):
        yield rest
