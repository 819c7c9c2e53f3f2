"""Says how far a download is: a moving line on a terminal, a plain line now and then without one."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness import console

Say = Callable[[str], None]


def readable(size: float) -> str:
    """A number of bytes for people: ``98.4 MB``."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"


class Meter:
    """Counts bytes of a download that may have several files, and reports through one line.

    Args:
        say: shows a moving line, such as ``Step.update``; None: only the plain lines.
        plain_every: seconds between two plain lines where there is no terminal.
    """

    def __init__(self, say: Say | None = None, *, plain_every: float = 10.0) -> None:
        self._say = say
        self._plain_every = plain_every
        self._what = ""
        self._total = self._done = self._fresh = 0
        self._started = self._shown = self._printed = time.monotonic()

    def start(self, what: str, total: int, done: int = 0) -> None:
        """Begin a download of so many bytes, of which some may be here from an earlier attempt."""
        self._what, self._total, self._done, self._fresh = what, total, done, 0
        self._started = self._printed = time.monotonic()
        self._shown = 0.0
        if not console.on_terminal():
            already = f", {readable(done)} of it already here" if done else ""
            console.note(f"downloading {what}: {readable(total)}{already}")
        self.add(0)

    def add(self, count: int) -> None:
        """So many bytes more have arrived; negative where some had to be thrown away."""
        self._done += count
        self._fresh = max(0, self._fresh + count)
        now = time.monotonic()
        if self._say is not None and now - self._shown >= 0.2:
            self._shown = now
            self._say(self._line(now))
        if not console.on_terminal() and now - self._printed >= self._plain_every:
            self._printed = now
            console.note(self._line(now))

    def say(self, text: str) -> None:
        """Show one sentence about what happens instead of bytes arriving."""
        if self._say is not None:
            self._say(text)
        if not console.on_terminal():
            console.note(text)

    def _line(self, now: float) -> str:
        rate = self._fresh / max(now - self._started, 0.001)
        share = f"{100 * self._done / self._total:.0f} %" if self._total else readable(self._done)
        left = f", {(self._total - self._done) / rate:.0f} s left" if rate > 0 and self._total > self._done else ""
        return f"{self._what}: {share} of {readable(self._total)}, {readable(rate)}/s{left}"
