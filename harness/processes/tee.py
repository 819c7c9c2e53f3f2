"""A command's output: shown as it comes, and kept byte for byte."""

from __future__ import annotations

import errno
import os
import select
import threading
from pathlib import Path

_CHUNK = 65536
# What a pipe can hold at most without privilege (fs.pipe-max-size): no more than this is left in it at the end.
_LARGEST_PIPE = 1 << 20


class Tee(threading.Thread):
    """Copies a pipe into a file and to a terminal, in a thread so that neither can hold up the supervisor.

    Bytes are passed on as they come: nothing is decoded, and no line is waited for, so progress bars move. When the
    terminal is gone (``| head``, a closed window) the file goes on; when the disk is full the terminal goes on. A
    terminal that is only slow slows the command down, as it would without us.

    Args:
        source: the pipe's reading end; closed by this class.
        path: the file to write.
        terminal: descriptor to copy to, which is not closed; None for none.

    Attributes:
        written: bytes in the file.
        problem: what went wrong, for people; empty if nothing.
    """

    def __init__(self, source: int, path: Path, terminal: int | None) -> None:
        super().__init__(name=f"tee {path.name}", daemon=True)
        self.path = path
        self.written = 0
        self.problem = ""
        self._source = source
        self._terminal = terminal
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._stop_reader, self._stop_writer = os.pipe2(os.O_CLOEXEC)

    def run(self) -> None:
        """Copy until the last writer has closed the pipe, or ``finish`` was called."""
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._stop_reader, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._stop_reader in ready:
                self._drain()
                break
            data = os.read(self._source, _CHUNK)
            if not data:
                break
            self._pass_on(data)

    def finish(self, patience: float) -> None:
        """Take what is still in the pipe and stop, even if somebody unknown still holds its other end.

        Args:
            patience: seconds to wait for a terminal that takes nothing.
        """
        os.write(self._stop_writer, b"!")
        self.join(patience)
        if self.is_alive():
            self.problem = self.problem or "the terminal took no more output; the file ends where it stopped"
            return  # a daemon thread; its descriptors stay open until the process ends
        for descriptor in (self._source, self._stop_reader, self._stop_writer):
            os.close(descriptor)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _drain(self) -> None:
        os.set_blocking(self._source, False)
        left = _LARGEST_PIPE
        while left > 0:
            try:
                data = os.read(self._source, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                return
            self._pass_on(data)
            left -= len(data)

    def _pass_on(self, data: bytes) -> None:
        if self._file is not None:
            try:
                write_all(self._file, data)
                self.written += len(data)
            except OSError as error:
                self.problem = f"{self.path.name} is incomplete: {error.strerror}"
                os.close(self._file)
                self._file = None
        if self._terminal is not None:
            try:
                write_all(self._terminal, data)
            except OSError as error:
                self._terminal = None
                # A reader that has seen enough is nothing to report.
                if error.errno not in (errno.EPIPE, errno.EIO, errno.EBADF):
                    self.problem = self.problem or f"not all was shown: {error.strerror}"


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, whatever the descriptor takes at once."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            # Somebody else made the terminal non-blocking: wait until it takes something again.
            select.select([], [descriptor], [])
