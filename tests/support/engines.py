"""A Docker engine of a test's own, to be killed and started again: in a network and a folder of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import docker
import psutil
import pytest

from tests.support.harness import wait_for


class Engine:
    """The daemon. Its network outlives it, held by a process that only sleeps, and so do its containers.

    Args:
        folder: for its images, its socket and its log.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = f"unix://{folder}/sock"
        # The name of its namespace in containerd, should it find one that runs already.
        self._spaces = f"drydock-test-{os.getpid()}"
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && exec sleep infinity"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n"
        self._daemon: subprocess.Popen[bytes] | None = None

    def inside(self, *command: str) -> list[str]:
        """A command in its network, where the ports are that it publishes."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", *command]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        folder = self.folder
        command = [
            "dockerd", "--host", self.host, "--pidfile", f"{folder}/pid", "--data-root", f"{folder}/root",
            "--exec-root", f"{folder}/exec", "--containerd-namespace", self._spaces,
            "--containerd-plugins-namespace", f"{self._spaces}-plugins",
        ]  # fmt: skip
        (folder / "pid").unlink(missing_ok=True)
        with (folder / "log").open("a") as log:
            self._daemon = daemon = subprocess.Popen(self.inside(*command), stdout=log, stderr=log)
        wait_for("the engine", lambda: daemon.poll() is not None or self.answers(), 120)
        assert daemon.poll() is None, (folder / "log").read_text()[-2000:]

    def kill(self) -> None:
        """As the kernel does that is out of memory: no word to anybody."""
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGKILL)
        self._daemon.wait()

    def answers(self) -> bool:
        """Whether it does."""
        try:
            return bool(docker.DockerClient(base_url=self.host).ping())
        except docker.errors.DockerException:
            return False

    def docker(self, *arguments: str, check: bool = True) -> str:
        """What Docker's command line says to it."""
        done = subprocess.run(["docker", "--host", self.host, *arguments], capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def bring(self, images: Sequence[str]) -> None:
        """Images of this machine's engine."""
        given = subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE)
        subprocess.run(
            ["docker", "--host", self.host, "load", "--quiet"], stdin=given.stdout, check=True, capture_output=True
        )
        assert given.wait() == 0

    def close(self) -> None:
        """End it with all its containers, and let its network go."""
        if self._daemon is not None:
            self._daemon.send_signal(signal.SIGTERM)
            self._daemon.wait()
        self._end_what_it_left()
        self._holder.kill()
        self._holder.wait()
        # It mounts its own folder upon itself, and a killed one leaves that behind.
        for place in (*(self.folder / "exec" / "netns").glob("*"), *[self.folder / "root"] * 4):
            subprocess.run(["umount", str(place)], check=False, capture_output=True)

    def _end_what_it_left(self) -> None:
        """One that was killed leaves the keepers of its containers; they carry the name of its namespace."""
        for process in psutil.process_iter(["cmdline"]):
            if self._spaces in (process.info["cmdline"] or ()):
                with contextlib.suppress(psutil.NoSuchProcess):
                    for one in [*process.children(recursive=True), process]:
                        one.kill()

    def run(self, command: Sequence[str], environment: Mapping[str, str], cwd: Path) -> subprocess.Popen[str]:
        """Start a command in its network, with its address."""
        return subprocess.Popen(
            self.inside(*command), env={**environment, "DOCKER_HOST": self.host}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd,
        )  # fmt: skip


@contextmanager
def own_engine(folder: Path) -> Iterator[Engine]:
    """An engine from its start to its end; the test is skipped where none can be."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("dockerd", "nsenter", "unshare", "ip"))):
        pytest.skip("only root can start a second Docker engine in a network of its own")
    engine = Engine(folder)
    try:
        engine.start()
        yield engine
    finally:
        engine.close()
        shutil.rmtree(folder / "root", ignore_errors=True)


def still(what: str, process: subprocess.Popen[str], state: Callable[[], bool], seconds: float = 300) -> None:
    """Wait for a state while a process runs; it must not have ended before."""
    deadline = time.monotonic() + seconds
    while not state():
        if process.poll() is not None:
            out, err = process.communicate()
            raise AssertionError(f"it ended with {process.returncode} before {what}:\n{out[-3000:]}\n{err[-3000:]}")
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
