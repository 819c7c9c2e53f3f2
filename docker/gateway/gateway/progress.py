"""What the gateway sees go by: requests in flight, and every sign that the engine generates tokens."""

from __future__ import annotations

import time
from collections.abc import Callable

# A stream's first events can be sent before a token was made (vLLM opens a /v1/responses stream with two).
OPENING_CHUNKS = 2


class Progress:
    """Counts of requests and the time of the last sign of progress."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.in_flight = 0
        self.busy_since: float | None = None  # when the first of the requests now in flight came
        self.completed = 0
        self.failed = 0
        self.last_sign: float | None = None
        self.last_completed: float | None = None

    def sign(self) -> None:
        """Tokens came."""
        self.last_sign = self._clock()

    def seen_since(self, moment: float) -> bool:
        """Whether there was a sign of progress after `moment`."""
        return self.last_sign is not None and self.last_sign > moment

    def silent_for(self) -> float:
        """How long requests have been in flight without a sign of progress; 0 when there are none."""
        if self.busy_since is None:
            return 0.0
        return self._clock() - max(self.busy_since, self.last_sign or self.busy_since)

    def entered(self) -> None:
        """A request came."""
        self.in_flight += 1
        if self.busy_since is None:
            self.busy_since = self._clock()

    def left(self) -> None:
        """A request was answered or given up."""
        self.in_flight -= 1
        if self.in_flight == 0:
            self.busy_since = None

    def now(self) -> float:
        """The time on the clock that the signs are stamped with."""
        return self._clock()

    def seconds_since_completed(self) -> float | None:
        """How long ago the last generation was answered in full."""
        return None if self.last_completed is None else self._clock() - self.last_completed


class Exchange:
    """One request on its way: reports to a Progress what it shows of the engine.

    Only generation counts as progress. An engine whose model loop hangs still lists its models.
    """

    def __init__(self, progress: Progress, *, generates: bool) -> None:
        self._progress = progress
        self._generates = generates
        self._chunks = 0

    def __enter__(self) -> Exchange:
        self._progress.entered()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.left()

    def chunk(self, data: bytes) -> None:
        """A part of the answer's body came. Comments (a stream's keep-alive pings) are no sign of progress."""
        self._chunks += 1
        if self._generates and self._chunks > OPENING_CHUNKS and not data.startswith(b":"):
            self._progress.sign()

    def finished(self, status: int) -> None:
        """The answer is complete."""
        if not self._generates:
            return
        if status >= 400:
            self._progress.failed += 1
            return
        self._progress.completed += 1
        self._progress.sign()
        self._progress.last_completed = self._progress.last_sign
