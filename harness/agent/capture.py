"""What a process prints: all of it counted, its beginning and its end kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

KEPT_HEAD = 64 * 1024
KEPT_TAIL = 64 * 1024


@dataclass
class Output:
    """What was printed.

    Args:
        head: the first bytes.
        tail: the last bytes that are not in ``head``.
        total: bytes in all.
    """

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    total: int = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.total += len(data)
        room = KEPT_HEAD - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        if data:
            self.tail += data
            if len(self.tail) > 2 * KEPT_TAIL:  # not at each write, for each cut moves the rest
                del self.tail[:-KEPT_TAIL]

    @property
    def dropped(self) -> int:
        """Bytes that were counted and not kept."""
        return self.total - len(self.head) - len(self.tail)

    def text(self) -> str:
        """What was kept, with a line where something is missing."""
        middle = f"\n… {self.dropped:,} bytes not kept …\n".encode() if self.dropped else b""
        return (bytes(self.head) + middle + bytes(self.tail)).decode("utf-8", "replace")

    def last_lines(self, count: int) -> list[str]:
        """The last lines that say anything."""
        lines = [line for line in self.text().splitlines() if line.strip()]
        return lines[-count:]


class Capture(asyncio.Protocol):
    """Reads a pipe into an ``Output``."""

    def __init__(self, output: Output) -> None:
        self.ended = asyncio.Event()
        self._output = output

    def data_received(self, data: bytes) -> None:
        self._output.add(data)

    def eof_received(self) -> bool | None:
        self.ended.set()
        return None

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.ended.set()


class Lines(asyncio.Protocol):
    """Reads a pipe line by line."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self.ended = asyncio.Event()
        self._take = take
        self._pending = b""

    def data_received(self, data: bytes) -> None:
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            self._take(line)

    def eof_received(self) -> bool | None:
        self.ended.set()
        return None

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.ended.set()
