"""Reads the header of a GGUF file: what it says of the model, and whether the file is whole.

A truncated GGUF opens fine and fails minutes later inside the engine, so the end of the last tensor is compared with
the file's size before anything is started.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from harness.errors import UnusableModel

MAGIC = b"GGUF"

# Value types of the header, in the order of their numbers; 8 is a string and 9 an array.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

# Tensor type to (elements in a block, bytes of a block), as ggml lays them out.
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18),
}  # fmt: skip

_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file says of itself."""

    architecture: str
    context: int | None
    has_chat_template: bool


class _Short(Exception):
    """The file ends inside its header."""


def read_header(path: Path) -> GgufHeader:
    """Read the header and check that the file is whole.

    Raises:
        UnusableModel: no GGUF, truncated, or of a version that can't be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise UnusableModel(
                f"{path} is no GGUF file: it doesn't begin with the letters GGUF.",
                mend="give MODEL= a GGUF file, a folder in Hugging Face layout, an alias or a hub id",
            )
        try:
            fields, end = _walk(file, size)
        # OSError and ValueError: a length that leads beyond what a file can have, or text that is none.
        except (_Short, struct.error, ValueError, OverflowError, MemoryError, RecursionError, OSError):
            raise _truncated(path, size) from None
    if end > size:
        raise _truncated(path, size, end)
    architecture = str(fields.get("general.architecture", ""))
    context = fields.get(f"{architecture}.context_length")
    return GgufHeader(architecture, context if isinstance(context, int) else None, "tokenizer.chat_template" in fields)


def parts(path: Path) -> list[Path]:
    """All files of a model that was split over several GGUF files, in order; the file alone if it wasn't.

    Raises:
        UnusableModel: a part is missing.
    """
    match = _SPLIT.search(path.name)
    if match is None:
        return [path]
    stem, count = path.name[: match.start()], int(match.group(2))
    found = [path.with_name(f"{stem}-{number:05d}-of-{count:05d}.gguf") for number in range(1, count + 1)]
    missing = [part.name for part in found if not part.is_file()]
    if missing:
        raise UnusableModel(
            f"{path.name} is one of {count} parts; {len(missing)} are not beside it: {', '.join(missing[:3])}",
            mend="download the missing parts into the same folder",
        )
    return found


def _truncated(path: Path, size: int, needed: int | None = None) -> UnusableModel:
    whole = f" of {needed:,}" if needed else ""
    return UnusableModel(
        f"{path} is damaged or only half there: it has {size:,}{whole} bytes and ends before its last tensor.",
        mend="download or copy the file again",
    )


def _walk(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """The header's fields (arrays are skipped) and the offset at which the last tensor ends."""
    version, tensors, count = struct.unpack("<IQQ", _take(file, 20))
    # Version 1 had 32-bit lengths and was gone within weeks; a huge number means big-endian or noise.
    if version not in (2, 3) or tensors > 1_000_000 or count > 1_000_000:
        raise _Short
    fields: dict[str, Any] = {}
    for _ in range(count):
        key = _text(file)
        fields[key] = _value(file, struct.unpack("<I", _take(file, 4))[0], size)
    ends = []
    for _ in range(tensors):
        _text(file)
        dimensions = struct.unpack("<I", _take(file, 4))[0]
        shape = struct.unpack(f"<{dimensions}Q", _take(file, 8 * dimensions))
        kind, offset = struct.unpack("<IQ", _take(file, 12))
        elements = 1
        for length in shape:
            elements *= length
        # A type that is newer than this table still has to begin inside the file.
        per_block, block_bytes = _BLOCKS.get(kind, (elements or 1, 1))
        ends.append(offset + elements // per_block * block_bytes)
    alignment = fields.get("general.alignment", 32)
    alignment = alignment if isinstance(alignment, int) and alignment > 0 else 32
    start = -(-file.tell() // alignment) * alignment
    return fields, start + max(ends, default=0)


def _take(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) != length:
        raise _Short
    return data


def _text(file: BinaryIO) -> str:
    length = struct.unpack("<Q", _take(file, 8))[0]
    if length > 64 * 1024 * 1024:
        raise _Short
    return _take(file, length).decode("utf-8")


def _value(file: BinaryIO, kind: int, size: int) -> Any:
    if kind in _SCALARS:
        layout = "<" + _SCALARS[kind]
        return struct.unpack(layout, _take(file, struct.calcsize(layout)))[0]
    if kind == _STRING:
        return _text(file)
    if kind != _ARRAY:
        raise _Short
    inner, count = struct.unpack("<IQ", _take(file, 12))
    if count > size:
        raise _Short
    if inner in _SCALARS:
        file.seek(count * struct.calcsize("<" + _SCALARS[inner]), 1)
    else:
        for _ in range(count):
            if inner == _STRING:
                file.seek(struct.unpack("<Q", _take(file, 8))[0], 1)
            else:
                _value(file, inner, size)
    return None
