"""Which line an instruction belongs to, by the table that code objects carry."""

from __future__ import annotations

from collections.abc import Iterator

# Kinds of entries from Python 3.11 on: how a line's difference and columns are written.
_NOWHERE, _LONG, _WITHOUT_COLUMNS, _NEXT_LINES = 15, 14, 13, 10


def line_at(table: bytes, first: int, instruction: int, old: bool) -> int:
    """The line of an instruction; the function's first where the table doesn't tell.

    Args:
        first: the function's first line.
        instruction: bytes from the first instruction.
        old: the table is that of Python 3.10.
    """
    end, found = 0, first
    for length, line in _old(table, first) if old else _new(table, first):
        end += length
        if line is not None:
            found = line
        if instruction < end:
            break
    return found


def _old(table: bytes, line: int) -> Iterator[tuple[int, int | None]]:
    """Pairs of bytes: how many bytes of instructions, and by how many lines further (-128: on none)."""
    for length, step in zip(table[::2], table[1::2], strict=False):
        if step == 128:
            yield length, None
        else:
            line += step - 256 if step > 128 else step
            yield length, line


def _new(table: bytes, line: int) -> Iterator[tuple[int, int | None]]:
    """Entries that begin with a byte whose highest bit is set: kind, and length in instructions of two bytes."""
    place = 0
    while place < len(table):
        head = table[place]
        kind, length = head >> 3 & 15, 2 * ((head & 7) + 1)
        place += 1
        if kind in (_LONG, _WITHOUT_COLUMNS):
            line += _signed(table, place)
        elif _NEXT_LINES <= kind < _WITHOUT_COLUMNS:
            line += kind - _NEXT_LINES
        while place < len(table) and not table[place] & 0x80:
            place += 1
        yield length, None if kind == _NOWHERE else line


def _signed(table: bytes, place: int) -> int:
    """A number in pieces of six bits, the lowest first; bit 6 says that more follow, the lowest bit is its sign."""
    value = shift = 0
    while place < len(table):
        piece = table[place]
        value |= (piece & 0x3F) << shift
        if not piece & 0x40:
            break
        shift += 6
        place += 1
    return -(value >> 1) if value & 1 else value >> 1
