"""One look at the Docker engine, for all checks that need it. Never raises, and never waits long."""

from __future__ import annotations

import json
import os
import re
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.doctor.probing import ask, read
from harness.errors import DockerMissing, DockerUnreachable, DrydockError
from harness.processes.crowding import patience
from harness.settings import Settings

# A daemon on this machine answers in milliseconds; one that is stopped never does.
ENGINE_SECONDS = 2.0
DEFAULT_ADDRESS = "unix:///var/run/docker.sock"


@dataclass(frozen=True)
class Engine:
    """The Docker engine.

    Attributes:
        problem: why it can't be talked to; None when it can.
        packages_missing: the Python packages that talk to it aren't installed.
        address: where it is: what ``DOCKER_HOST`` or the current context names; "" where no client tells.
        context: the name of the Docker context.
        version: of the engine.
        product: ``Docker Engine``, ``Docker Desktop`` or ``Podman``.
        rootless: it runs without root.
        driver: the storage driver.
        root_dir: where it keeps images and volumes.
        memory: bytes that its machine has.
        name: its machine's host name.
        runtimes: names of the container runtimes.
        proxies: the daemon's own proxies, by name.
        images: kinds of our images that are built.
        published: host port to the container that publishes it: its name, and its Compose project.
        client: the connected SDK client.
    """

    problem: DrydockError | None = None
    packages_missing: bool = False
    address: str = ""
    context: str = ""
    version: str = ""
    product: str = ""
    rootless: bool = False
    driver: str = ""
    root_dir: str = ""
    memory: int = 0
    name: str = ""
    runtimes: tuple[str, ...] = ()
    proxies: dict[str, str] = field(default_factory=dict)
    images: frozenset[str] = frozenset()
    published: dict[int, tuple[str, str]] = field(default_factory=dict)
    client: Any = field(default=None, repr=False, compare=False)

    @property
    def answers(self) -> bool:
        return self.problem is None

    @property
    def elsewhere(self) -> bool:
        """It runs on another machine, whose folders are not ours."""
        return is_elsewhere(self.address)

    @property
    def shares_our_files(self) -> bool:
        """Paths and disks that it names are the ones that we see."""
        return self.answers and not self.elsewhere and self.product != "Docker Desktop"


def gather_engine(settings: Settings) -> Engine:
    """Ask the engine everything that checks want to know of it."""
    context, address = _address()
    try:
        import docker.errors
        import requests

        from harness import docker_engine
    except ImportError as error:
        package = (error.name or str(error)).partition(".")[0]
        problem = DockerMissing(
            f"The Python package {package} isn't installed, so Docker can't be asked.",
            consequence="The stack can't be started or looked at from here.",
            mend="make venv   # in a clone\npip install 'drydock[stack]'",
        )
        return Engine(problem, packages_missing=True, address=address, context=context)
    try:
        client = docker_engine.connect(timeout=int(ENGINE_SECONDS * patience()))
        version, info = client.version(), client.info()
        images = client.images.list(filters={"label": f"dev.drydock.namespace={settings.namespace}"})
        running = client.containers.list(sparse=True)
    except DockerUnreachable as error:
        return Engine(explained(error, address), address=address, context=context)
    except (docker.errors.DockerException, requests.RequestException) as error:
        return Engine(explained(docker_engine.unreachable(error), address), address=address, context=context)
    return Engine(
        address=address or client.api.base_url,
        context=context,
        version=version.get("Version", ""),
        product=product_of(version, info),
        rootless=any("rootless" in option for option in info.get("SecurityOptions") or []),
        driver=info.get("Driver", ""),
        root_dir=info.get("DockerRootDir", ""),
        memory=info.get("MemTotal", 0),
        name=info.get("Name", ""),
        runtimes=tuple(info.get("Runtimes") or {}),
        proxies={name: info[name] for name in ("HttpProxy", "HttpsProxy") if info.get(name)},
        images=frozenset(image.labels.get("dev.drydock.image", "") for image in images) - {""},
        published=_published([container.attrs for container in running]),
        client=client,
    )


def product_of(version: dict[str, Any], info: dict[str, Any]) -> str:
    """Whose engine it is."""
    names = [component.get("Name", "") for component in version.get("Components") or []]
    if any("Podman" in name for name in names):
        return "Podman"
    return "Docker Desktop" if "Docker Desktop" in info.get("OperatingSystem", "") else "Docker Engine"


def is_elsewhere(address: str) -> bool:
    """Whether an address is that of another machine."""
    parts = urlsplit(address)
    if parts.scheme == "ssh":
        return True
    if parts.scheme not in ("tcp", "http", "https"):
        return False
    host = parts.hostname or ""
    return not (host in ("localhost", "::1", "localunixsocket", socket.gethostname()) or host.startswith("127."))


def explained(error: DrydockError, address: str) -> DrydockError:
    """The error in other words where more is known: it is silent, or its address was given by hand.

    In the latter case nothing that we start helps, and the mend says so.
    """
    if "timed out" in error.what:
        error = DockerUnreachable(f"The Docker daemon doesn't answer within {ENGINE_SECONDS * patience():.0f} s.")
    by_hand = address and not address.startswith((DEFAULT_ADDRESS, "unix:///run/docker.sock", "npipe:"))
    if not by_hand or "may not talk" in error.what:
        return error
    reason = re.sub(r"^The Docker daemon ", "", error.what).rstrip(".")
    origin = "DOCKER_HOST" if os.environ.get("DOCKER_HOST") else "the Docker context"
    undo = "unset DOCKER_HOST" if origin == "DOCKER_HOST" else "docker context use default"
    return DockerUnreachable(
        f"The Docker engine at {address}, named by {origin}, can't be reached: it {reason}.",
        mend=f"{undo}   # for the engine of this machine; or start that one",
    )


def _address() -> tuple[str, str]:
    """Name and address of the current context; the client is asked for a named one only, which takes its time."""
    if host := os.environ.get("DOCKER_HOST"):
        return "default", host
    folder = Path(os.environ.get("DOCKER_CONFIG") or "~/.docker").expanduser()
    try:
        name = os.environ.get("DOCKER_CONTEXT") or json.loads(read(folder / "config.json") or "{}")["currentContext"]
    except (ValueError, LookupError, TypeError, RecursionError):
        name = "default"
    if name == "default" or not isinstance(name, str) or not name:
        return "default", DEFAULT_ADDRESS
    told = ask(["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}", name], ENGINE_SECONDS)
    return name, told.out.strip()


def _published(containers: list[dict[str, Any]]) -> dict[int, tuple[str, str]]:
    found = {}
    for attrs in containers:
        name = (attrs.get("Names") or ["/?"])[0].lstrip("/")
        project = (attrs.get("Labels") or {}).get("com.docker.compose.project", "")
        for port in attrs.get("Ports") or []:
            if port.get("PublicPort"):
                found[int(port["PublicPort"])] = (name, project)
    return found
