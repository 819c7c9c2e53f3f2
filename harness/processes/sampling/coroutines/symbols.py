"""Where the interpreter's exported variables lie, by the ELF tables that its loader has left in its memory.

Reading those in memory asks for no file, which in another container may not be ours to open.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.processes.sampling.coroutines.peek import Peek, Unreadable

_INTERPRETER = re.compile(r"(lib)?python3?(\.\d+)?.*")
_LOADABLE, _DYNAMIC = 1, 2
_STRINGS, _SYMBOLS, _GNU_HASH = 5, 6, 0x6FFFFEF5
_MOST_ENTRIES = 512


@dataclass(frozen=True)
class Symbol:
    """A variable: its address and its size in bytes."""

    address: int
    size: int


def exported(peek: Peek, pid: int, name: str) -> Symbol | None:
    """A variable of the interpreter; None where nothing that looks like one exports it."""
    for base in _images(pid):
        try:
            found = _look_up(peek, base, name.encode())
        except Unreadable:
            continue
        if found is not None:
            return found
    return None


def _images(pid: int) -> Iterator[int]:
    """Where files are mapped that may be the interpreter: its program, and its library."""
    try:
        program = os.readlink(f"/proc/{pid}/exe")
        lines = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    seen = set()
    for line in lines:
        fields = line.split(None, 5)
        if len(fields) < 6 or fields[2].strip("0") or fields[5] in seen:
            continue
        seen.add(fields[5])
        if fields[5] == program or _INTERPRETER.fullmatch(os.path.basename(fields[5])):
            yield int(fields[0].partition("-")[0], 16)


def _look_up(peek: Peek, base: int, name: bytes) -> Symbol | None:
    if peek.read(base, 6) != b"\x7fELF\x02\x01":  # 64 bits, little-endian
        return None
    headers = base + peek.word(base + 32)
    size, count = peek.number(base + 54, 2), peek.number(base + 56, 2)
    bias: int | None = None
    dynamic = 0
    for number in range(min(count, _MOST_ENTRIES)):
        kind = peek.number(headers + number * size)
        place = peek.word(headers + number * size + 16)
        if kind == _LOADABLE and bias is None:
            bias = base - place
        elif kind == _DYNAMIC:
            dynamic = place
    if bias is None or not dynamic:
        return None
    tables: dict[int, int] = {}
    for number in range(_MOST_ENTRIES):
        tag, value = peek.words(bias + dynamic + 16 * number, 2)
        if tag == 0:
            break
        # Most loaders have made these into addresses; musl's leaves them as they are in the file.
        tables[tag] = value if value >= base else value + bias
    if not {_STRINGS, _SYMBOLS, _GNU_HASH} <= tables.keys():
        return None
    for index in _with_hash(peek, tables[_GNU_HASH], name):
        entry = tables[_SYMBOLS] + 24 * index
        is_defined = peek.number(entry + 6, 2) != 0
        if is_defined and peek.text(tables[_STRINGS] + peek.number(entry)) == name.decode():
            return Symbol(bias + peek.word(entry + 8), peek.word(entry + 16))
    return None


def _with_hash(peek: Peek, table: int, name: bytes) -> Iterator[int]:
    """Indices of symbols whose hash is the name's: GNU's table of buckets and chains."""
    wanted = 5381
    for byte in name:
        wanted = (wanted * 33 + byte) & 0xFFFFFFFF
    buckets, first, filter_words, _ = (int.from_bytes(peek.read(table + 4 * at, 4), "little") for at in range(4))
    if not buckets:
        return
    start = table + 16 + 8 * filter_words
    chains = start + 4 * buckets
    index = peek.number(start + 4 * (wanted % buckets))
    while index >= first:
        found = peek.number(chains + 4 * (index - first)) & 0xFFFFFFFF
        if found | 1 == wanted | 1:
            yield index
        if found & 1:
            return
        index += 1
