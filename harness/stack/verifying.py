"""``make verify``: is every image of the rendered Compose configuration locked, and is what runs what is locked?

An image that we build is named by a hash of all that it is made from, the id of the image below among it. So it is what
is locked when it has the name that the lock leads to now, and its layers begin with those of what it should stand on:
a local ``docker tag`` can give any image any name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import docker.errors

from harness import docker_engine
from harness.docker_engine import Compose, Container
from harness.settings import Settings
from harness.stack import rendering
from harness.stack.images import grounds
from harness.stack.images.base import CARRIED
from harness.stack.images.catalogue import load_catalogue, mirrored
from harness.stack.images.lock import Lock, tagged
from harness.stack.machines import worker
from harness.stack.status import recall

State = Literal["ok", "note", "drift"]


@dataclass(frozen=True)
class Local:
    """An image in this engine."""

    id: str
    digests: tuple[str, ...]
    layers: tuple[str, ...]


@dataclass(frozen=True)
class Running:
    """A container of the stack, and what it was made from."""

    name: str
    service: str
    image: str
    image_id: str


@dataclass(frozen=True)
class Seen:
    """What there is.

    Attributes:
        rendered: service to image, as Compose would start it.
        expected: references of our own images that lock, catalogue and settings lead to; empty where one isn't here.
        local: reference to image, for all that are named anywhere here.
        grounds: references of the images that ours are built on.
    """

    rendered: dict[str, str]
    running: list[Running]
    expected: set[str]
    local: dict[str, Local | None]
    grounds: list[str]
    namespace: str
    mirror: str | None = None
    lock: Lock = field(default_factory=Lock)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        expected, found: the difference, where there is one.
    """

    subject: str
    state: State
    text: str
    expected: str = ""
    found: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self)


def gather(client: Any, settings: Settings) -> Seen:
    """Look at the configuration as Compose renders it, at containers and at images; asks no registry."""
    catalogue = load_catalogue()
    plan, _ = recall(settings)
    compose = worker.compose_for(settings) if worker.is_worker(settings) else rendering.compose_for(plan)
    rendered = _rendered(compose)
    running = [_running(one) for one in docker_engine.containers(client, settings.project)]
    expected, below = grounds(client, plan.settings, catalogue, on_gpu=bool(plan.gpus.inference))
    names = {*rendered.values(), *expected, *below, *(one.image for one in running)}
    return Seen(
        rendered=rendered,
        running=running,
        expected=set(expected),
        local={name: _local(client, name) for name in names},
        grounds=below,
        namespace=settings.namespace,
        mirror=settings.image_mirror,
        lock=catalogue.lock,
    )


def decide(seen: Seen) -> list[Finding]:
    """Everything that was looked at: what ours stand on, what Compose would start, what runs."""
    findings = [_ground(seen, name) for name in seen.grounds]
    findings += [_rendered_image(seen, service, image) for service, image in sorted(seen.rendered.items())]
    findings += [found for one in seen.running for found in _container(seen, one)]
    return findings


def drifted(findings: list[Finding]) -> bool:
    """Whether anything is not what is locked."""
    return any(finding.state == "drift" for finding in findings)


def _ground(seen: Seen, name: str) -> Finding:
    """An image that ours stand on: pulled and locked, or made here."""
    subject = f"base {tagged(name)}"
    if name.startswith(f"{seen.namespace}/{CARRIED}:"):
        return Finding(subject, "note", "came in a folder (make load), whose checksums held; held by its id since")
    if name.startswith(f"{seen.namespace}/"):
        return Finding(subject, "ok", "made here from Debian packages of the suite in docker/images.yaml")
    entry = _entry(seen, name)
    if entry is None:
        return _unlocked(seen, subject, name)
    if not entry.verified:
        text = f"locked, but no registry has confirmed the digest ({entry.source or 'source not given'})"
        return Finding(subject, "note", text)
    return Finding(subject, "ok", f"locked since {entry.date}: {entry.digest}")


def _unlocked(seen: Seen, subject: str, name: str) -> Finding:
    local = seen.local.get(name)
    if local and not local.digests:
        return Finding(subject, "note", f"your own image, from no registry; held by its id {local.id[:19]}")
    plain = _without_mirror(seen, tagged(name))
    locked = seen.lock.entries.get(plain)
    here = next(iter(local.digests), "no digest").partition("@")[2] if local else name.partition("@")[2]
    if locked:
        return Finding(subject, "drift", "another image than the lock has", locked.digest, here)
    return Finding(subject, "drift", "in no lock", "an entry in docker/images.lock", here or name)


def _rendered_image(seen: Seen, service: str, image: str) -> Finding:
    subject = f"service {service}"
    if not image.startswith(f"{seen.namespace}/"):
        entry = _entry(seen, image)
        return Finding(subject, "ok", f"locked: {image}") if entry else _unlocked(seen, subject, image)
    if image not in seen.expected:
        same = [name for name in sorted(seen.expected) if name.partition(":")[0] == image.partition(":")[0]]
        wanted = same[0] if same else "an image that isn't built yet"
        return Finding(subject, "drift", "what it is made from has changed since the last up", wanted, image)
    local = seen.local.get(image)
    if local is None:
        return Finding(subject, "drift", "its image is not in this engine", image, "nothing")
    if not any(_stands_on(local, seen.local.get(ground)) for ground in seen.grounds):
        return Finding(
            subject,
            "drift",
            "it has the right name, and doesn't stand on what is locked",
            " or ".join(seen.grounds),
            local.id,
        )
    return Finding(subject, "ok", f"built here from what is locked: {image}")


def _container(seen: Seen, one: Running) -> list[Finding]:
    subject = f"container {one.name}"
    wanted = seen.rendered.get(one.service)
    if wanted is None:
        return [Finding(subject, "drift", "the configuration has no such service", "", one.image)]
    local = seen.local.get(wanted)
    if one.image != wanted or local is None or one.image_id != local.id:
        found = one.image_id if one.image == wanted else one.image
        return [
            Finding(
                subject, "drift", "runs another image", wanted if found == one.image else str(local and local.id), found
            )
        ]
    return [Finding(subject, "ok", f"runs {one.image_id[:19]}")]


def _stands_on(image: Local, ground: Local | None) -> bool:
    return ground is not None and image.layers[: len(ground.layers)] == ground.layers


def _entry(seen: Seen, name: str) -> Any:
    return seen.lock.of(_without_mirror(seen, name))


def _without_mirror(seen: Seen, name: str) -> str:
    for image, entry in seen.lock.entries.items():
        if name in (mirrored(image, seen.mirror), mirrored(entry.reference, seen.mirror)):
            return entry.reference if "@" in name else image
    return name


def _rendered(compose: Compose) -> dict[str, str]:
    """Service to image; none where no `up` has written the variables yet."""
    if not compose.env_file.is_file():
        return {}
    services: Mapping[str, Any] = json.loads(compose.run("config", "--format", "json"))["services"]
    return {name: str(service.get("image", "")) for name, service in services.items()}


def _running(container: Container) -> Running:
    return Running(container.name, container.service, container.image, container.image_id)


def _local(client: Any, name: str) -> Local | None:
    try:
        image = client.images.get(name)
    except docker.errors.ImageNotFound:
        return None
    layers = (image.attrs.get("RootFS") or {}).get("Layers") or ()
    return Local(image.id, tuple(image.attrs.get("RepoDigests") or ()), tuple(layers))
