"""Samplers: beside each container of the stack a small one that samples it on request from ``dev``.

``dev`` has no Docker socket and no capability, because agents run code in it; so what `hang-dump` needs there stands
ready. A sampler shares its target's PID namespace and ends with it. It isn't a Compose service, for Compose has no way
to give each replica of ``ray-worker`` one. Its program is docker/dev/sampler.py; harness/hang/ways/samplers.py asks it.

Light imports only: a warm `up` asks :func:`complete`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from harness import console, docker_engine
from harness.docker_engine import FOR_PROJECT_LABEL, ROLE_LABEL, Container

ROLE = "sampler"
TARGET_LABEL = "dev.drydock.target"
SERVICES = ("dev", "inference", "ray-head", "ray-worker")
FOLDER = "/run/drydock-samplers"
PROGRAM = ("/opt/venv/bin/python", "-I", "-S", "/opt/drydock/sampler.py", "serve")
STOP_SECONDS = 10
GONE_SECONDS = 10


@dataclass(frozen=True)
class Sampler:
    """One that is there.

    Attributes:
        target: the container that it was made for, and its start: a restart ends its sampler.
    """

    id: str
    name: str
    target: str
    image: str
    running: bool


def look(client: Any, project: str) -> list[Sampler]:
    """Gather: the project's samplers, by one question to the engine."""
    found = client.api.containers(
        all=True, filters={"label": [f"{ROLE_LABEL}={ROLE}", f"{FOR_PROJECT_LABEL}={project}"]}
    )
    return [
        Sampler(
            id=one["Id"],
            # One that an engine was killed over while it ended has none any more, and is listed none the less.
            name=(one.get("Names") or [one["Id"][:12]])[0].lstrip("/"),
            target=one["Labels"].get(TARGET_LABEL, ""),
            image=one["Image"],
            running=one["State"] == "running",
        )
        for one in found
    ]


def decide(containers: Iterable[Container], there: list[Sampler]) -> tuple[list[Container], list[Sampler]]:
    """Decide: containers that lack a sampler, and samplers that are no use."""
    meant = {_mark(one): one for one in containers if one.running and one.service in SERVICES}
    # The image of `dev` is the one with the program; a sampler of an older one may not understand what is asked.
    image = image_of(meant.values())
    good = [one for one in there if one.running and one.target in meant and one.image == image]
    covered = {one.target for one in good}
    return [one for mark, one in meant.items() if mark not in covered], [one for one in there if one not in good]


def lacking(client: Any, project: str, containers: Iterable[Container]) -> list[str]:
    """Names of the containers that should have a sampler and have none."""
    return [one.name for one in decide(containers, look(client, project))[0]]


def complete(client: Any, project: str, containers: Iterable[Container]) -> bool:
    """Whether every container that should has its sampler."""
    return not lacking(client, project, containers)


def ensure(client: Any, project: str) -> list[str]:
    """Start what is missing and remove what is no use; returns the names of the containers that got a new sampler.

    One that can't be started is told and does no harm but to `hang-dump` in ``dev``.
    """
    containers = docker_engine.containers(client, project)
    lacking, useless = decide(containers, look(client, project))
    image = image_of(containers)
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda sampler: _remove(client, sampler), useless))
        started = list(pool.map(lambda target: _start(client, target, image), lacking))
    return [name for name in started if name]


def remove(client: Any, project: str) -> None:
    """Remove all of a project's samplers, and wait until they are gone: they hold their volume."""
    there = look(client, project)
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda sampler: _remove(client, sampler), there))


def image_of(containers: Iterable[Container]) -> str:
    """The image of ``dev`` and the Ray nodes; "" where there is none of them."""
    return next((one.image for one in containers if one.service in ("dev", "ray-head")), "")


def volume_of(project: str) -> str:
    """The volume with the sockets, as Compose names it."""
    return f"{project}_samplers"


def expected(services: dict[str, int]) -> str:
    """How many samplers there are to be, for ``dev``'s environment."""
    return ",".join(f"{name}={count}" for name, count in sorted(services.items()) if name in SERVICES)


def _mark(container: Container) -> str:
    return f"{container.id} {container.started_at}"


def _start(client: Any, target: Container, image: str) -> str:
    from docker.errors import DockerException
    from docker.types import LogConfig

    try:
        made = docker_engine.create_beside(
            client,
            target,
            image,
            [*PROGRAM, target.id, f"{FOLDER}/{target.name}"],
            name=f"{target.name}-sampler",
            labels={ROLE_LABEL: ROLE, FOR_PROJECT_LABEL: target.project, TARGET_LABEL: _mark(target)},
            volumes={volume_of(target.project): {"bind": FOLDER, "mode": "rw"}},
            log_config=LogConfig(type="json-file", config={"max-size": "1m", "max-file": "1"}),
        )
        try:
            made.start()
        except DockerException:
            made.remove(force=True)  # what never ran isn't removed by its end
            raise
    except DockerException as error:
        reason = getattr(error, "explanation", "") or error
        console.warn(f"{target.name} has no sampler ({reason}); `hang-dump` inside `dev` will not see it")
        return ""
    return target.name


def _remove(client: Any, sampler: Sampler) -> None:
    """End it, so that a dump in flight leaves nothing stopped; it is removed by its end, at the latest with force."""
    from docker.errors import APIError, NotFound

    try:
        if sampler.running:
            client.api.stop(sampler.id, timeout=STOP_SECONDS)
        else:
            client.api.remove_container(sampler.id, force=True)
    except APIError:
        pass  # its removal is under way already
    deadline = time.monotonic() + GONE_SECONDS
    while time.monotonic() < deadline:
        try:
            client.api.inspect_container(sampler.id)
        except NotFound:
            return
        time.sleep(0.05)
