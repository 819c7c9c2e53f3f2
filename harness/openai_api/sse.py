"""Server-sent events, decoded as bytes arrive."""

from __future__ import annotations

from dataclasses import dataclass

# A server that never ends a line must not fill the memory of whoever watches it.
MAX_PENDING = 4 * 1024 * 1024


@dataclass(frozen=True)
class Event:
    """One event: its name (often empty with OpenAI, always set with Anthropic) and its data."""

    name: str
    data: str


class Decoder:
    """Takes chunks of bytes, gives whole events; follows the event-stream format of the HTML standard."""

    def __init__(self) -> None:
        self._pending = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that this chunk completes."""
        events: list[Event] = []
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        if len(self._pending) > MAX_PENDING:
            self._pending = b""
        for raw in lines:
            line = raw.rstrip(b"\r").decode("utf-8", "replace")
            if not line:
                events.extend(self._complete())
                continue
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "data":
                self._data.append(value)
            elif field == "event":
                self._name = value
        return events

    def finish(self) -> list[Event]:
        """The event that the stream's end cuts off, if any; the standard drops it, but it may hold the usage."""
        events = self.feed(b"\n") if self._pending else []
        return [*events, *self._complete()]

    def _complete(self) -> list[Event]:
        name, data, self._name, self._data = self._name, self._data, "", []
        return [Event(name, "\n".join(data))] if data else []
