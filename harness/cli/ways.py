"""Which ways in a ``hang-dump`` takes, by what was asked for and by where it runs.

A way is imported where it is taken: a dump of this machine needs none of the others' libraries, and starts sooner.
"""

from __future__ import annotations

import fnmatch
import os
from typing import Any

from harness.errors import BadSetting, DrydockError
from harness.hang.ways import Way, here
from harness.settings import Settings

# As compose.yaml tells it to `dev`; another one was set by whoever asks.
_OWN_RAY = "ray-head:6379"


def ways_in(settings: Settings) -> list[Way]:
    """All ways in: by default to the whole stack and nothing else; without a stack, to this PID namespace.

    Whoever names a Ray cluster, hosts or containers means these and nothing else.

    Raises:
        BadSetting: CONTAINERS=, HOSTS= or RAY_ADDRESS= names none.
        DrydockError: CONTAINERS= is given, and Docker can't be asked.
    """
    wanted = [part.strip() for part in settings.containers.split(",") if part.strip()]
    # Numbers of processes count in this PID namespace only.
    elsewhere = [] if settings.pids else _elsewhere(settings)
    if elsewhere and not wanted:
        return elsewhere
    return elsewhere + _here(settings, wanted)


def _elsewhere(settings: Settings) -> list[Way]:
    """Other machines, as far as they were named."""
    ways: list[Way] = []
    if settings.via or settings.hosts:
        from harness.hang.ways import via

        ways += via.find(settings.via, settings.hosts, settings.remote)
    if settings.ray_address and not (_in_dev() and settings.ray_address in (_OWN_RAY, _shared_ray())):
        from harness.hang.ways import ray_nodes

        ways += ray_nodes.find(settings.ray_address)
    return ways


def _shared_ray() -> str:
    """The address of this stack's own cluster, if other machines may join it and this is its ``dev``."""
    return os.environ.get("RAY_ADDRESS", "") if os.environ.get("DRYDOCK_SHARE") else ""


def _in_dev() -> bool:
    return bool(os.environ.get("DRYDOCK_IN_CONTAINER"))


def _here(settings: Settings, wanted: list[str]) -> list[Way]:
    """This machine, and the containers on it."""
    if _in_dev():
        return _inside(settings, wanted)
    if settings.pids:
        return here.find()
    found = _containers(settings, wanted)
    # What a pattern means may run anywhere, unless somebody said where.
    return found if found and (wanted or not settings.match) else [*found, *here.find()]


def _inside(settings: Settings, wanted: list[str]) -> list[Way]:
    """From `dev`: by samplers, which see more than this user may."""
    from harness.hang.ways import ray_nodes, samplers

    found = samplers.find()
    if settings.pids:
        return samplers.own(found) or here.find()
    for name in wanted:
        if not any(fnmatch.fnmatchcase(way.name, name) for way in found):
            raise BadSetting(
                f"CONTAINERS={name}: `dev` can ask the stack's containers only, and none of them has this name.",
                consequence="Nothing was sampled.",
                mend=f"harness hang-dump --containers {found[0].name if found else name}   # or on the host",
            )
    named = [way for way in found if any(fnmatch.fnmatchcase(way.name, name) for name in wanted)]
    if named or wanted:
        return named
    if shared := _shared_ray():
        # The containers here by their samplers, and every other machine through Ray.
        return [*(found or here.find()), *ray_nodes.find(shared, here=True)]
    if found:
        return [*found, ray_nodes.state("http://ray-head:8265")]
    # A stack without samplers: its nodes can still be reached through Ray, with what their own user may see.
    return [*here.find(), *(ray_nodes.find(_OWN_RAY, here=True) if settings.ray_address == _OWN_RAY else [])]


def _containers(settings: Settings, wanted: list[str]) -> list[Way]:
    try:
        from harness import docker_engine
        from harness.hang.ways import containers
    except ImportError:
        if wanted:
            raise
        return []  # the wheel without its extra `stack`
    try:
        client = docker_engine.connect()
        docker_engine.remove_never_started(client, containers.ROLE)
        stack = docker_engine.containers(client, settings.project)
    except DrydockError:
        if wanted:
            raise
        return []
    from harness.stack.samplers import image_of

    image = image_of(stack)
    if wanted:
        return containers.by_name(client, wanted, image or _image(client, settings))
    return [*containers.of_stack(client, stack, image), *_ray_of_stack(settings)] if image else []


def _ray_of_stack(settings: Settings) -> list[Way]:
    from harness.hang.ways import ray_nodes
    from harness.stack.status import recall

    expected = recall(settings)[0].expected
    return [ray_nodes.state(f"http://127.0.0.1:{expected.dashboard_port}", expected.key("ray_token"))]


def _image(client: Any, settings: Settings) -> str:
    """An image with the harness and py-spy where no stack is up: the one that `up` would take, made if need be."""
    from harness.stack.images import ensure_images, find_images

    return (find_images(client, settings) or ensure_images(client, settings)).dev
