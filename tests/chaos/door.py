"""A door in front of the engine's socket, to be shut or held: so the engine goes away for one stack and no other."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path


class Door:
    """Hands on every byte between clients and the engine.

    Args:
        path: the socket that clients take.
        engine: the engine's own.
    """

    def __init__(self, path: Path, engine: str = "/var/run/docker.sock") -> None:
        self.path = path
        self._engine = engine
        self._open = True
        self._flows = threading.Event()
        self._flows.set()
        self._pairs: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        os.chmod(path, 0o600)
        self._listener.listen(128)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """For ``DOCKER_HOST``."""
        return f"unix://{self.path}"

    def shut(self) -> None:
        """Break off what is under way and let nobody in, as an engine that has died."""
        self._open = False
        with self._lock:
            pairs = list(self._pairs)
        for one in pairs:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def hold(self) -> None:
        """Take everything and answer nothing, as an engine whose disk doesn't answer."""
        self._flows.clear()

    def open(self) -> None:
        """As before."""
        self._open = True
        self._flows.set()

    def close(self) -> None:
        """For good."""
        self.shut()
        self._flows.set()
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self._open:
                client.close()
                continue
            engine = socket.socket(socket.AF_UNIX)
            try:
                engine.connect(self._engine)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._pairs |= {client, engine}
            done = threading.Semaphore(0)
            for source, target in ((client, engine), (engine, client)):
                threading.Thread(target=self._carry, args=(source, target, done), daemon=True).start()
            threading.Thread(target=self._end, args=(client, engine, done), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, done: threading.Semaphore) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._flows.wait()
                target.sendall(data)
        # `docker exec` closes one direction and goes on in the other.
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
        done.release()

    def _end(self, client: socket.socket, engine: socket.socket, done: threading.Semaphore) -> None:
        done.acquire()
        done.acquire()
        with self._lock:
            self._pairs -= {client, engine}
        client.close()
        engine.close()
