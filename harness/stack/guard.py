"""Before anything is changed: one change at a time, Docker fit for it, ports free."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import filelock
import psutil

from harness import docker_engine
from harness.errors import Busy, DockerMissing, EnvironmentUnfit, NoSpace, PortTaken, ToolTooOld
from harness.places import home
from harness.settings import Settings

OLDEST = {"compose": (2, 20), "buildx": (0, 13)}
OLDEST_ENGINE = (20, 10)


@contextlib.contextmanager
def only_one(settings: Settings) -> Iterator[None]:
    """Hold the stack's lock while it is changed; the kernel gives it back however this process ends.

    Raises:
        Busy: another command holds it; says which process.
    """
    path = settings.state_dir / "lock"
    lock = filelock.FileLock(path, timeout=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except filelock.Timeout:
        raise Busy(
            f"Another command is changing the stack `{settings.project}` ({_holder(settings)}).",
            mend="make status   # and try again when it has ended",
        ) from None
    except OSError as error:
        raise _unwritable(error, path.parent) from None
    # Apart from the above: what goes wrong inside has nothing to do with the lock.
    owner = path.with_name("lock.owner")
    try:
        # On a full disk `down` and `clean` are what mends it; for them this is no reason to give up.
        with contextlib.suppress(OSError):
            owner.write_text(str(os.getpid()), encoding="utf-8")
        yield
    finally:
        with contextlib.suppress(OSError):
            owner.unlink()
        lock.release()


def _unwritable(error: OSError, folder: Path) -> EnvironmentUnfit:
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(f"The disk of {folder} is full.", consequence="Nothing was started or changed.")
    return EnvironmentUnfit(
        f"{folder} can't be written by this user: {reason}.",
        consequence="Nothing was started or changed.",
        mend=f"ls -ld {folder} {folder.parent}   # whose is it, and is it a folder?\n"
        f"sudo chown -R $(id -u) {shlex.quote(str(folder.parent))}   # where it is another user's",
    )


def _holder(settings: Settings) -> str:
    try:
        pid = int((settings.state_dir / "lock.owner").read_text())
        command = " ".join(psutil.Process(pid).cmdline())
    except (OSError, ValueError, psutil.Error):
        return "its process is not known"
    return f"process {pid}: {command[:80]}"


def docker_fit(timeout: int = docker_engine.REQUEST_SECONDS) -> Any:
    """Check client, plugins and daemon; returns a connected client.

    Args:
        timeout: seconds that one request to the daemon may take.

    Raises:
        DockerMissing, ToolTooOld, DockerUnreachable: what is not fit, and the command that mends it.
    """
    docker_engine.require_programs()
    client = docker_engine.connect(timeout)
    engine = client.version()["Version"]
    if _numbers(engine) < OLDEST_ENGINE:
        raise ToolTooOld(f"Docker Engine {engine} is too old; 20.10 is the oldest that works.", mend="make docker")
    return client


def plugins_fit() -> None:
    """Check the plugins; apart from :func:`docker_fit` because a warm `up` needs neither of them.

    Raises:
        DockerMissing, ToolTooOld: see there.
    """
    for plugin, oldest in OLDEST.items():
        version = docker_engine.plugin_version(plugin)
        if version is None:
            raise DockerMissing(f"`docker {plugin}` is missing on this machine.")
        if _numbers(version) < oldest:
            wanted = ".".join(map(str, oldest))
            raise ToolTooOld(
                f"docker {plugin} {version} is too old; {wanted} is the oldest that works.", mend="make docker"
            )


def _numbers(version: str) -> tuple[int, ...]:
    """The first two numbers of a version: enough to compare, and every version string has them."""
    parts = version.split("+")[0].split("-")[0].split(".")
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in parts[:2])


def our_own(settings: Settings, containers: list[docker_engine.Container]) -> None:
    """Refuse a project whose containers belong to another clone: the two would take them from each other.

    Raises:
        Busy: they do, and that clone is still there.
    """
    for container in containers:
        clone = container.clone
        if clone and Path(clone) != home() and (Path(clone) / "compose.yaml").is_file():
            raise Busy(
                f"The stack `{settings.project}` belongs to another clone, {clone}.",
                consequence="Bringing it up from here would take its containers away, so nothing was done.",
                mend=f"make up PROJECT={settings.project}-2 PORT={next_free(settings.port)}"
                f" DASHBOARD_PORT={next_free(settings.dashboard_port)}   # a second stack\n"
                f"make -C {clone} down   # or end that one",
            )


def port_free(port: int, setting: str) -> None:
    """Raise PortTaken, naming the holder, if something listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            return
        except PermissionError:
            raise PortTaken(
                f"{setting}={port} is a port for root only.", mend=f"make up {setting}={port + 8000}"
            ) from None
        except OSError:
            pass
    raise PortTaken(
        f"{setting}={port} is taken by {port_holder(port)}.",
        mend=f"make up {setting}={next_free(port)}   # or end that program",
    )


def taken_by_container(setting: str, port: int, name: str, project: str) -> PortTaken:
    """The error for a port that a container publishes: who it is says more than the engine's own helper."""
    whose = f"container {name}" + (f" of the Compose project {project}" if project else "")
    return PortTaken(
        f"{setting}={port} is taken by the {whose}.",
        mend=f"make up {setting}={next_free(port)}   # or: docker stop {name}",
    )


def ports_free(asked: Mapping[str, int], running: Callable[[], Sequence[docker_engine.Container]]) -> None:
    """Raise PortTaken, naming the holders, if something listens on one of these ports of 127.0.0.1.

    Args:
        asked: setting to port.
        running: this engine's containers; asked only where a port is taken.
    """
    taken: dict[str, PortTaken] = {}
    for setting, port in asked.items():
        try:
            port_free(port, setting)
        except PortTaken as error:
            holder = next((one for one in running() if port in one.published_ports), None)
            named = holder and taken_by_container(setting, port, holder.name, holder.project)
            taken[setting] = named or error
    if len(taken) == 1:
        raise next(iter(taken.values()))
    if taken:
        # One command for all: each alone would fail at the others' ports.
        others: dict[str, int] = {}
        for setting in taken:
            port = next_free(asked[setting])
            while port in others.values():
                port = next_free(port)
            others[setting] = port
        settings = " ".join(f"{setting}={port}" for setting, port in others.items())
        what = " ".join(one.what for one in taken.values())
        raise PortTaken(what, mend=f"make up {settings}   # or end who has them")


def port_holder(port: int) -> str:
    """Who listens on a port, as far as this user may know."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.pid and connection.laddr[1:] == (port,):
                process = psutil.Process(connection.pid)
                return f"process {connection.pid} ({' '.join(process.cmdline())[:60] or process.name()})"
    except psutil.Error:
        pass
    return "another program (which one, only root can tell: sudo ss -ltnp)"


def next_free(port: int) -> int:
    """The next port above that can be bound on 127.0.0.1."""
    for candidate in range(port + 1, min(port + 200, 65536)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", candidate))
                return candidate
            except OSError:
                continue
    return port + 1
