"""Which ways in a ``hang-dump`` takes, by what was asked for and by where it runs."""

from __future__ import annotations

import fnmatch
import os
from typing import Any

from harness.errors import BadSetting, DrydockError
from harness.hang.ways import Way, here, samplers
from harness.settings import Settings


def ways_in(settings: Settings) -> list[Way]:
    """All ways in: by default to the whole stack and nothing else; without a stack, to this PID namespace.

    Raises:
        BadSetting: CONTAINERS= names none.
        DrydockError: CONTAINERS= is given, and Docker can't be asked.
    """
    wanted = [part.strip() for part in settings.containers.split(",") if part.strip()]
    if os.environ.get("DRYDOCK_IN_CONTAINER"):
        return _inside(settings, wanted)
    if settings.pids:
        return here.find()  # numbers of processes count in this PID namespace only
    found = _containers(settings, wanted)
    # What a pattern means may run anywhere, unless somebody said where.
    return found if found and (wanted or not settings.match) else [*found, *here.find()]


def _inside(settings: Settings, wanted: list[str]) -> list[Way]:
    """From `dev`: by samplers, which see more than this user may."""
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
    return (named if wanted else found) or here.find()


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
        stack = docker_engine.containers(client, settings.project)
    except DrydockError:
        if wanted:
            raise
        return []
    from harness.stack.samplers import image_of

    image = image_of(stack)
    if wanted:
        return containers.by_name(client, wanted, image or _image(client, settings))
    return containers.of_stack(client, stack, image) if image else []


def _image(client: Any, settings: Settings) -> str:
    """An image with the harness and py-spy where no stack is up: the one that `up` would take, made if need be."""
    from harness.stack.images import ensure_images, find_images

    return (find_images(client, settings) or ensure_images(client, settings)).dev
