"""The fake model as a server process of its own on this machine's loopback, which can be killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.support.fake_model import KEY, FakeModel
from tests.support.harness import CLONE, free_port


class ModelProcess:
    """A server that lets in nobody without its key.

    Args:
        text: what it answers.
        key: what it wants to be let in with.
    """

    def __init__(self, text: str = FakeModel.text, key: str = KEY) -> None:
        self.text = text
        self.key = key
        self.port = free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """The base URL, as an SDK wants it."""
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        """Start it on its port; returns when it answers."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.model_process", str(self.port), self.text],
            env={**os.environ, "PYTHONPATH": str(CLONE), "FAKE_KEY": self.key},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    @property
    def pid(self) -> int:
        """Of the server's process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End it the hard way."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def restart(self, *, key: str) -> str:
        """End it and start it again with another key; returns the one before."""
        before, self.key = self.key, key
        self.kill()
        self.start()
        return before


def main() -> None:
    """Serve until a signal."""
    with FakeModel(sys.argv[2], key=os.environ["FAKE_KEY"]).serving(int(sys.argv[1])):
        print("ready", flush=True)
        signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    main()
