"""Has the kernel read files before they are wanted: of a hundred thousand, waiting is what takes the time."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

# Fewer files aren't worth a thread. So many may lie ready before they are wanted, as memory isn't endless.
_WORTH_IT, _AHEAD = 500, 400
_THREADS = 4


class _Ahead:
    def __init__(self, paths: Sequence[str]) -> None:
        self._wanted: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._rest = iter(paths)
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(_THREADS)]
        for _ in range(_AHEAD):
            self.one_more()
        for thread in self._threads:
            thread.start()

    def one_more(self) -> None:
        """One file was taken: the next may be read."""
        path = next(self._rest, None)
        if path is not None:
            self._wanted.put(path)

    def stop(self) -> None:
        while not self._wanted.empty():
            try:
                self._wanted.get_nowait()
            except queue.Empty:
                break
        for _ in self._threads:
            self._wanted.put(None)

    def _work(self) -> None:
        while (path := self._wanted.get()) is not None:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            except OSError:
                continue
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
            except OSError:
                pass
            finally:
                os.close(descriptor)


@contextmanager
def read_ahead(paths: Sequence[str]) -> Iterator[_Ahead | None]:
    """The files will be taken in this order; None where it isn't worth it, or the system can't."""
    if len(paths) < _WORTH_IT or not hasattr(os, "posix_fadvise"):
        yield None
        return
    ahead = _Ahead(paths)
    try:
        yield ahead
    finally:
        ahead.stop()
