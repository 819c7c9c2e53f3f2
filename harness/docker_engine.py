"""What we ask of Docker: the engine through its SDK, Compose through its command line (the SDK has no Compose).

Gathers only; nothing here decides whether what it found is good.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import docker.errors
import requests  # Docker's SDK speaks through it, and lets its errors through

from harness.errors import ComposeFailed, DockerMissing, DockerUnreachable

PROJECT_LABEL = "com.docker.compose.project"
SERVICE_LABEL = "com.docker.compose.service"
FOLDER_LABEL = "com.docker.compose.project.working_dir"
# Helpers of ours that Compose doesn't know: what for, and for which Compose project.
ROLE_LABEL = "dev.drydock.role"
FOR_PROJECT_LABEL = "dev.drydock.project"

# Within which a daemon in good health answers what only looks.
REQUEST_SECONDS = 20
# Within which who creates a helper starts it.
SECONDS_TO_START = 60
# To remove images and gigabytes of build cache it works on the disk for minutes, and says nothing until the end.
REMOVAL_SECONDS = 1800


def connect(timeout: int = REQUEST_SECONDS) -> docker.DockerClient:
    """Talk to the daemon that ``DOCKER_HOST`` or the current context names.

    Args:
        timeout: seconds that one request may take.

    Raises:
        DockerUnreachable: no daemon answers, or this user may not talk to it.
    """
    try:
        client = (
            docker.DockerClient(base_url=_context_host(), timeout=timeout)
            if _context_host()
            else docker.from_env(timeout=timeout)
        )
        client.ping()
    except docker.errors.DockerException as error:
        raise unreachable(error) from None
    except ValueError as error:
        # A login that isn't base64, or an address that is none; the SDK reads that file although we need no login.
        file = Path(os.environ.get("DOCKER_CONFIG", "~/.docker")) / "config.json"
        raise DockerUnreachable(
            f"{file} or DOCKER_HOST can't be used: {error}.",
            mend=f"python3 -m json.tool {file}   # then mend or remove what is wrong there, or docker logout SERVER",
        ) from None
    return client


def unreachable(error: Exception) -> DockerUnreachable:
    """The error for a daemon that can't be talked to, with the reason in plain words."""
    text = str(error)
    if "Permission denied" in text or "PermissionError" in text:
        return DockerUnreachable(
            "This user may not talk to the Docker daemon.",
            mend="sudo usermod -aG docker $USER && newgrp docker   # that group is as good as root on this machine",
        )
    if "FileNotFoundError" in text or "Connection refused" in text or "ConnectionRefused" in text:
        return DockerUnreachable("The Docker daemon isn't running.")
    return DockerUnreachable(f"The Docker daemon doesn't answer: {text[:200]}")


def as_unreachable(error: Exception) -> DockerUnreachable | None:
    """What a request that broke off says about the daemon; None where the error is of another kind."""
    # Not requests.ConnectionError first: its read and connect time-outs are of both kinds.
    if isinstance(error, requests.exceptions.Timeout):
        return DockerUnreachable(
            "The Docker daemon took a request and gave no answer in time.",
            consequence="What was asked for may be half done; the same command goes on from there.",
            mend="make doctor TOPIC=docker   # then the same command again",
        )
    if isinstance(error, requests.exceptions.ConnectionError):
        return DockerUnreachable(
            "The Docker daemon went away in the middle of a request.",
            consequence="What was asked for may be half done; the same command goes on from there.",
        )
    return None


def context_name() -> str:
    """The current Docker context; Buildx has a builder of the same name that works inside the engine itself."""
    if os.environ.get("DOCKER_HOST"):
        return "default"
    folder = Path(os.environ.get("DOCKER_CONFIG", "~/.docker")).expanduser()
    try:
        name = os.environ.get("DOCKER_CONTEXT") or json.loads((folder / "config.json").read_text())["currentContext"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return "default"
    # Docker's own client takes nothing else for a name either.
    return name if isinstance(name, str) and name else "default"


def _context_host() -> str | None:
    """The address of the current Docker context, which the SDK does not read by itself; None for the default one."""
    name = context_name()
    if name == "default":
        return None
    folder = Path(os.environ.get("DOCKER_CONFIG", "~/.docker")).expanduser()
    for meta in sorted((folder / "contexts" / "meta").glob("*/meta.json")):
        try:
            context = json.loads(meta.read_text())
            if context["Name"] == name:
                host = context["Endpoints"]["docker"]["Host"]
                return host if isinstance(host, str) else None
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            continue
    return None


@dataclass(frozen=True)
class Container:
    """One container of a project, as the engine sees it now."""

    id: str
    name: str
    service: str
    status: str  # created, running, paused, restarting, exited, dead
    health: str  # healthy, unhealthy, starting, or "" where there is no health check
    exit_code: int
    oom_killed: bool
    image: str  # the image's reference, as Compose was given it
    image_id: str
    started_at: str
    published_ports: tuple[int, ...]  # on this machine
    stopped_processes: tuple[str, ...] = field(default=())  # "PID COMMAND" of each process in state T
    clone: str = ""  # the folder of the Compose file that it was made from
    project: str = ""  # of Compose; "" where it has nothing to do with it
    hostname: str = ""  # what its processes take their machine's name to be
    networks: tuple[str, ...] = ("",)  # ids; "" where the engine hasn't decided yet

    @property
    def running(self) -> bool:
        return self.status == "running"


def containers(client: docker.DockerClient, project: str) -> list[Container]:
    """All containers of a Compose project, stopped ones too, with processes that a signal has stopped."""
    found = client.containers.list(all=True, filters={"label": f"{PROJECT_LABEL}={project}"})
    if not found:
        return []
    with ThreadPoolExecutor(max_workers=8) as pool:
        return sorted(pool.map(_read_container, found), key=lambda c: (c.service, c.name))


def mounted_at(client: docker.DockerClient, project: str, service: str, place: str) -> str | None:
    """The folder of this machine that a service's container has at a place; None without one."""
    labels = [f"{PROJECT_LABEL}={project}", f"{SERVICE_LABEL}={service}"]
    for found in client.containers.list(all=True, filters={"label": labels}):
        for mount in found.attrs.get("Mounts") or []:
            if mount.get("Destination") == place:
                return str(mount.get("Source"))
    return None


def cut_off(client: docker.DockerClient, containers: Iterable[Container]) -> list[Container]:
    """Those that are on no network, or on one that has been removed: no start or restart brings them back onto one."""
    there = {network.id for network in client.networks.list()}
    return [one for one in containers if not one.networks or any(id and id not in there for id in one.networks)]


def all_containers(client: docker.DockerClient) -> list[Container]:
    """All containers of this engine but our own helpers, by name; nobody looks into them for stopped processes."""
    found = client.containers.list(all=True, ignore_removed=True)
    strangers = [one for one in found if ROLE_LABEL not in one.labels]
    return sorted((_read_container(one, look_inside=False) for one in strangers), key=lambda c: c.name)


def _read_container(found: Any, look_inside: bool = True) -> Container:
    attrs = found.attrs
    state = attrs["State"]
    running = state["Status"] == "running"
    return Container(
        id=found.id,
        name=found.name,
        service=attrs["Config"]["Labels"].get(SERVICE_LABEL, ""),
        status=state["Status"],
        health=(state.get("Health") or {}).get("Status", ""),
        exit_code=int(state.get("ExitCode") or 0),
        oom_killed=bool(state.get("OOMKilled")),
        image=attrs["Config"]["Image"],
        image_id=attrs["Image"],
        started_at=state.get("StartedAt", ""),
        published_ports=_published_ports(attrs),
        clone=attrs["Config"]["Labels"].get(FOLDER_LABEL, ""),
        stopped_processes=_stopped_processes(found) if running and look_inside else (),
        project=attrs["Config"]["Labels"].get(PROJECT_LABEL, ""),
        hostname=attrs["Config"].get("Hostname") or "",
        networks=tuple(one.get("NetworkID", "") for one in attrs["NetworkSettings"].get("Networks", {}).values()),
    )


def _published_ports(attrs: dict[str, Any]) -> tuple[int, ...]:
    bindings = (attrs.get("NetworkSettings") or {}).get("Ports") or {}
    return tuple(sorted({int(b["HostPort"]) for group in bindings.values() for b in group or [] if b.get("HostPort")}))


def _stopped_processes(found: Any) -> tuple[str, ...]:
    """Processes of a container that a signal has stopped (state T); a debugger's own stop is t and doesn't count."""
    try:
        listing = found.top(ps_args="-eo pid,stat,args")
    except docker.errors.APIError:
        return ()  # it ended while we looked; the next look will tell
    return tuple(f"{row[0]} {row[2]}" for row in listing.get("Processes") or [] if row[1].startswith("T"))


def create_beside(
    client: docker.DockerClient, target: Container, image: str, command: Sequence[str], **more: Any
) -> Any:
    """Create, without starting it, a container that sees another one's processes and nothing else of this machine.

    It is root with CAP_SYS_PTRACE alone: enough to look into processes of any user, also those that forbid it
    (not dumpable; Yama). It has no network, can write nowhere but its own /tmp, and is removed when it ends, which it
    does when its target ends.

    Args:
        more: for the SDK's ``containers.create``.
    """
    return client.containers.create(
        image,
        entrypoint=list(command),
        command=[],
        pid_mode=f"container:{target.id}",
        user="0:0",
        cap_drop=["ALL"],
        cap_add=["SYS_PTRACE"],
        security_opt=["no-new-privileges:true"],
        network_mode="none",
        # Answers name the machine that the processes believe to be on.
        hostname=target.hostname[:63],
        read_only=True,
        tmpfs={"/tmp": "size=64m,mode=1777,noexec,nosuid,nodev"},
        working_dir="/",
        mem_limit="2g",
        memswap_limit="2g",
        pids_limit=512,
        auto_remove=True,
        **more,
    )


def remove_never_started(client: docker.DockerClient, role: str) -> None:
    """Remove helpers that were created and never started: who created them was killed in between.

    Their own end can't remove them, as they have none. One that is younger than ``SECONDS_TO_START`` may still be
    started by whoever creates it now.
    """
    found = client.api.containers(all=True, filters={"status": "created", "label": f"{ROLE_LABEL}={role}"})
    for one in found:
        if time.time() - one["Created"] > SECONDS_TO_START:
            # Gone meanwhile, or being removed: either will do.
            with contextlib.suppress(docker.errors.APIError):
                client.api.remove_container(one["Id"], force=True)


def log_tail(client: docker.DockerClient, container_id: str, lines: int = 25) -> str:
    """A container's last log lines, "" when it is gone."""
    try:
        text: bytes = client.containers.get(container_id).logs(tail=lines)
    except docker.errors.DockerException:
        return ""
    return text.decode("utf-8", "replace")


def image_id(client: docker.DockerClient, reference: str) -> str | None:
    """The id of a local image, None where there is none of that name."""
    try:
        return client.images.get(reference).id
    except docker.errors.ImageNotFound:
        return None


@dataclass(frozen=True)
class Compose:
    """``docker compose`` for one project: its files and the file of its variables."""

    project: str
    files: tuple[Path, ...]
    env_file: Path

    def command(self, *arguments: str) -> list[str]:
        """The whole command line, for subprocess."""
        files = [part for path in self.files for part in ("-f", str(path))]
        return ["docker", "compose", "-p", self.project, "--env-file", str(self.env_file), *files, *arguments]

    def run(self, *arguments: str) -> str:
        """Run to the end; returns standard output.

        Raises:
            ComposeFailed: it exited non-zero; carries its last lines.
        """
        done = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, env=clean_environment(), check=False
        )
        if done.returncode != 0:
            raise ComposeFailed(
                f"docker compose {arguments[0]} gave up (exit code {done.returncode}).", logs=_tail(done.stderr, 15)
            )
        return done.stdout

    def stream(self, *arguments: str) -> Iterator[str]:
        """Run and yield each line of its output as it comes; raises ComposeFailed at the end like run()."""
        with subprocess.Popen(
            self.command("--progress", "plain", *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=clean_environment(),
        ) as process:
            assert process.stdout is not None
            seen: list[str] = []
            try:
                for text in process.stdout:
                    seen = [*seen[-30:], text]
                    yield text.rstrip()
            except BaseException:
                process.terminate()
                raise
            if process.wait() != 0:
                raise ComposeFailed(
                    f"docker compose {arguments[0]} gave up (exit code {process.returncode}).",
                    logs=_tail("".join(seen), 15),
                )


def clean_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for Compose: its shell variables would win over the variables' file, so ours are taken out."""
    source = os.environ if environ is None else environ
    return {name: value for name, value in source.items() if not name.startswith(("DRYDOCK_", "COMPOSE_"))}


def require_programs(names: Sequence[str] = ("docker",)) -> None:
    """Raise DockerMissing unless every program is on the PATH."""
    for name in names:
        if shutil.which(name) is None:
            raise DockerMissing(f"There is no `{name}` on this machine.")


def plugin_version(plugin: str) -> str | None:
    """Version of ``docker compose`` or ``docker buildx``, None where the plugin is missing."""
    arguments = ["docker", plugin, "version"] + (["--short"] if plugin == "compose" else [])
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    words = done.stdout.split()
    return (
        (words[0] if plugin == "compose" else words[1] if len(words) > 1 else words[0]).lstrip("v") if words else None
    )


def _tail(text: str, lines: int) -> str:
    return "\n".join(text.rstrip().splitlines()[-lines:])
