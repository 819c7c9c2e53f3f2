"""Makes an exchange while the bytes of a call pass by."""

from __future__ import annotations

import re
import time

from harness.openai_api.incoming import MAX_KEPT, Incoming
from harness.openai_api.recording.exchange import End, Exchange, kept

# Where an event of a stream ends.
_BLANK = re.compile(rb"\r?\n\r?\n")


class Tape:
    """Listens to one call.

    Args:
        incoming: the request.
    """

    def __init__(self, incoming: Incoming) -> None:
        self.headers: list[tuple[str, str]] = []
        self._incoming = incoming
        self._started = time.monotonic()
        self._status: int | None = None
        self._stream = False
        self._pending = bytearray()
        self._blocks: list[bytes] = []
        self._offsets: list[float] = []
        self._end: End = "whole"
        self._why = ""
        self._size = 0
        self._clipped = False

    def answered(self, status: int, content_type: str) -> None:
        """The answer's head has come."""
        self._status = status
        self._stream = "event-stream" in content_type

    def feed(self, chunk: bytes) -> None:
        """Part of the answer's body has come."""
        self._size += len(chunk)
        if self._size > MAX_KEPT:
            self._clipped = True
            return
        self._pending += chunk
        if self._stream:
            last = 0
            # Where the network cut the stream says nothing; where its events end does.
            for blank in _BLANK.finditer(self._pending):
                self._keep(bytes(self._pending[last : blank.end()]))
                last = blank.end()
            del self._pending[:last]

    def failed(self, why: str) -> None:
        """No answer came, or it broke off."""
        if not self._why:
            self._end, self._why = "unreachable" if self._status is None else "cut", why

    def abandoned(self, why: str) -> None:
        """The agent hung up before the answer was there."""
        if not self._why:
            self._end, self._why = "abandoned", why

    def exchange(self) -> Exchange:
        """The whole record, once the call has ended."""
        if self._pending:
            self._keep(bytes(self._pending))
            self._pending.clear()
        incoming = self._incoming
        return Exchange(
            run=incoming.run,
            number=incoming.number,
            method=incoming.method,
            path=incoming.path,
            request=incoming.body,
            status=self._status,
            headers=kept(self.headers),
            blocks=tuple(self._blocks),
            offsets=tuple(self._offsets),
            end=self._end,
            why=self._why,
            started=self._started - incoming.began,
            seconds=time.monotonic() - self._started,
            in_process=incoming.in_process,
            clipped=self._clipped,
        )

    def _keep(self, block: bytes) -> None:
        self._blocks.append(block)
        self._offsets.append(time.monotonic() - self._started)
