"""Run something in the ``dev`` container, as from a terminal or without one."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import docker.errors
import requests

from harness import docker_engine
from harness.docker_engine import Container
from harness.errors import BadSetting, DockerUnreachable, StackDown
from harness.settings import Settings
from harness.stack.paths import IN_CONTAINER

WITH_ENV = "/opt/drydock/with-env"
PID_FILE = "/tmp/drydock-exec-"
# What `docker exec` ends with, and without a word, when its connection to the engine breaks off.
LOST = 255


def dev_container(client: Any, settings: Settings) -> Container:
    """The running ``dev`` container.

    Raises:
        StackDown: there is none.
        BadSetting: it has another workspace than the one that was asked for.
    """
    for container in docker_engine.containers(client, settings.project):
        if container.service == "dev" and container.running:
            _has_this_workspace(client, settings)
            return container
    raise StackDown(f"The stack `{settings.project}` isn't up: no running `dev` container.")


def _has_this_workspace(client: Any, settings: Settings) -> None:
    """A verb would work on files of the stack's workspace, whatever was named, and find them right or wrong."""
    if settings.origin("workspace") == "default":
        return
    has = docker_engine.mounted_at(client, settings.project, "dev", IN_CONTAINER)
    if has is not None and os.path.realpath(has) != os.path.realpath(settings.workspace):
        raise BadSetting(
            f"WORKSPACE={settings.workspace} is asked for, and the running stack has {has}",
            consequence="In its containers there are other files than the ones that you mean. Nothing was run.",
            mend=f"make up WORKSPACE={shlex.quote(str(settings.workspace))}   # or leave it out",
        )


def execute(
    client: Any,
    settings: Settings,
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    container: Container | None = None,
) -> int:
    """Run a command with the server's and the cluster's addresses and keys set; returns its exit code.

    In ``dev``, or in another container that is like it.

    The terminal, if there is one, is handed through; without one, Ctrl-C and SIGTERM are. Values travel in the
    environment of ``docker exec``, not on its command line, where every user of this machine could read them.

    Raises:
        DockerUnreachable: the engine went away meanwhile.
        StackDown: the container ended meanwhile.
    """
    container = container or dev_container(client, settings)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    mark = uuid.uuid4().hex
    given = {**(environment or {}), "DRYDOCK_EXEC": mark}
    arguments = ["docker", "exec", "--interactive", "--workdir", "/workspace"]
    arguments += ["--tty"] if terminal else []
    arguments += [part for name in given for part in ("--env", name)]
    signals: SimpleQueue[int] = SimpleQueue()
    # Taken before there is a command: one that comes in the middle of its start would leave it without us.
    with _queued(signals, signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen(
            [*arguments, container.id, WITH_ENV, *command],
            env={**os.environ, **given},
            # In a session of its own it gets no Ctrl-C, at which it would leave the command running in the container;
            # but it may not read from the terminal then.
            start_new_session=not terminal,
            stdin=subprocess.DEVNULL if sys.stdin.isatty() and not terminal else None,
        )
        with _handed_on(signals, container, mark):
            code = process.wait()
    if code == LOST:
        _if_the_engine_went(client, container)
    return code


def _if_the_engine_went(client: Any, container: Container) -> None:
    """Nothing, where the command itself ended with this code."""
    consequence = "How far it came isn't known; its container is ended when the engine starts again."
    try:
        running = client.containers.get(container.id).status == "running"
    except docker.errors.NotFound:
        running = False
    except (requests.exceptions.RequestException, docker.errors.DockerException):
        raise DockerUnreachable("The Docker daemon went away while the command ran.", consequence=consequence) from None
    if not running:
        raise StackDown(f"The container {container.name} ended while the command ran in it.", consequence="")


@contextmanager
def _queued(signals: SimpleQueue[int], *numbers: signal.Signals) -> Iterator[None]:
    """While this lasts, these signals to us do nothing but get into the queue."""
    before = {number: signal.signal(number, lambda number, _frame: signals.put(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _handed_on(signals: SimpleQueue[int], container: Container, mark: str) -> Iterator[None]:
    """While this lasts, signals of the queue are sent to the command in the container."""
    ended = threading.Event()

    def hand_on() -> None:
        while number := signals.get():
            script = f"pid=$(cat {PID_FILE}{mark}) && kill -{signal.Signals(number).name[3:]} $pid"
            # Whoever is quick is before the command, which has then still to say under which number it runs.
            while not ended.is_set() and not _told(container, "sh", "-c", script):
                ended.wait(0.1)

    thread = threading.Thread(target=hand_on, name="signals to the container")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        signals.put(0)
        thread.join()
        _told(container, "rm", "-f", f"{PID_FILE}{mark}")


def kill_all(container: Container, words: str) -> None:
    """End every process in the container whose command line has these words."""
    _told(container, "pkill", "-KILL", "-f", words)


def _told(container: Container, *command: str) -> bool:
    """Run a command in the container without a word; whether it ended well."""
    return subprocess.run(["docker", "exec", container.id, *command], capture_output=True, check=False).returncode == 0
