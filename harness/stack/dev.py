"""Run something in the ``dev`` container, as from a terminal or without one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from harness import docker_engine
from harness.docker_engine import Container
from harness.errors import StackDown
from harness.settings import Settings

WITH_ENV = "/opt/drydock/with-env"
PID_FILE = "/tmp/drydock-exec-"


def dev_container(client: Any, settings: Settings) -> Container:
    """The running ``dev`` container.

    Raises:
        StackDown: there is none.
    """
    for container in docker_engine.containers(client, settings.project):
        if container.service == "dev" and container.running:
            return container
    raise StackDown(f"The stack `{settings.project}` isn't up: no running `dev` container.")


def execute(
    client: Any, settings: Settings, command: Sequence[str], *, environment: Mapping[str, str] | None = None
) -> int:
    """Run a command in ``dev`` with the server's and the cluster's addresses and keys set; returns its exit code.

    The terminal, if there is one, is handed through; without one, Ctrl-C and SIGTERM are. Values travel in the
    environment of ``docker exec``, not on its command line, where every user of this machine could read them.
    """
    container = dev_container(client, settings)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    mark = uuid.uuid4().hex
    given = {**(environment or {}), "DRYDOCK_EXEC": mark}
    arguments = ["docker", "exec", "--interactive", "--workdir", "/workspace"]
    arguments += ["--tty"] if terminal else []
    arguments += [part for name in given for part in ("--env", name)]
    process = subprocess.Popen(
        [*arguments, container.id, WITH_ENV, *command],
        env={**os.environ, **given},
        # In a session of its own it gets no Ctrl-C, at which it would leave the command running in the container; but
        # it may not read from the terminal then.
        start_new_session=not terminal,
        stdin=subprocess.DEVNULL if sys.stdin.isatty() and not terminal else None,
    )
    with _signals_handed_on(container, mark):
        return process.wait()


@contextmanager
def _signals_handed_on(container: Container, mark: str) -> Iterator[None]:
    """While this lasts, SIGINT and SIGTERM go to the command in the container, and we wait for how it ends."""

    def hand_on(number: int, _frame: Any) -> None:
        script = f"kill -{signal.Signals(number).name[3:]} $(cat {PID_FILE}{mark})"
        subprocess.run(["docker", "exec", container.id, "sh", "-c", script], capture_output=True, check=False)

    before = {number: signal.signal(number, hand_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        subprocess.run(
            ["docker", "exec", container.id, "rm", "-f", f"{PID_FILE}{mark}"], capture_output=True, check=False
        )
