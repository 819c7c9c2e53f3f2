"""Runs the real ``harness`` command the way a user does, for scenario tests."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CLONE = Path(__file__).resolve().parents[2]
HARNESS = Path(sys.executable).with_name("harness")


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    arguments: tuple[str, ...]
    code: int
    stdout: str
    stderr: str
    seconds: float

    def json(self) -> Any:
        """Standard output, which must be one JSON document and nothing else."""
        try:
            return json.loads(self.stdout)
        except ValueError:
            raise AssertionError(f"standard output is not one JSON document:\n{self}") from None

    def ok(self) -> Ended:
        """Itself, if the exit code is 0."""
        assert self.code == 0, str(self)
        return self

    def __str__(self) -> str:
        return (
            f"harness {' '.join(self.arguments)} -> exit code {self.code} in {self.seconds:.1f} s\n"
            f"--- stdout\n{self.stdout[-6000:]}\n--- stderr\n{self.stderr[-6000:]}"
        )


@dataclass
class Stack:
    """A stack of a test's own: its own project name and ports, so that a developer's stack is left alone."""

    project: str
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    history: list[Ended] = field(default_factory=list)

    def environment(self, **more: str) -> dict[str, str]:
        """The environment that the command gets."""
        return {
            **os.environ,
            "NO_COLOR": "1",
            # Whoever runs the tests may have said yes to all that is asked; a test says so itself.
            "DRYDOCK_YES": "0",
            "PROJECT": self.project,
            "RUNS": str(self.folder / "runs"),
            **self.settings,
            **more,
        }

    def run(self, *arguments: str, timeout: float = 900, **environment: str) -> Ended:
        """Run ``harness ARGUMENTS`` to its end."""
        started = time.monotonic()
        done = subprocess.run(
            [str(HARNESS), *arguments],
            env=self.environment(**environment),
            cwd=CLONE,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
        )
        ended = Ended(arguments, done.returncode, done.stdout, done.stderr, time.monotonic() - started)
        self.history.append(ended)
        return ended

    def container(self, service: str) -> str:
        """Id of the service's one container, running or not."""
        listing = docker(
            "ps", "-aq", "--no-trunc",
            "--filter", f"label=com.docker.compose.project={self.project}",
            "--filter", f"label=com.docker.compose.service={service}",
        ).split()  # fmt: skip
        assert len(listing) == 1, f"{len(listing)} containers of {service}"
        return listing[0]

    def ids(self) -> dict[str, str]:
        """Service to container id and start time, of all containers."""
        listing = docker("ps", "-aq", "--filter", f"label=com.docker.compose.project={self.project}").split()
        if not listing:
            return {}
        found = json.loads(docker("inspect", *listing))
        return {
            c["Config"]["Labels"]["com.docker.compose.service"]: f"{c['Id']} {c['State']['StartedAt']}" for c in found
        }

    def execute(self, service: str, *command: str) -> str:
        """Run a command in a service's container; returns what it prints."""
        return docker("exec", self.container(service), *command)

    def ask(self, path: str, body: Any = None) -> Any:
        """Ask the inference server, with the key; returns the JSON of its answer, of an error as well."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.settings['PORT']}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.key()}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def key(self, name: str = "api_key") -> str:
        """A key of this stack."""
        return (CLONE / ".drydock" / self.project / "secrets" / name).read_text().strip()


def own_project(name: str) -> str:
    """A project name for tests; DRYDOCK_TEST_PREFIX keeps those of two clones on one machine apart."""
    return f"{os.environ.get('DRYDOCK_TEST_PREFIX', 'drydock')}-{name}"


def docker(*arguments: str, check: bool = True, given: str | None = None) -> str:
    """Run ``docker ARGUMENTS``; returns standard output.

    Args:
        given: for its standard input.
    """
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False, input=given)
    assert not check or done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def wait_for(what: str, condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait until a condition holds and return its value; the error names what was awaited and its last value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}; last seen: {value!r}"
        time.sleep(0.1)
    return value
