"""Images of others to stand on: a framework's (``FRAMEWORK=``), or an engine's for a GPU."""

from __future__ import annotations

from typing import Any

from harness import docker_engine
from harness.settings import Settings
from harness.stack.images.base import carried_name, pull_locked
from harness.stack.images.build import BuiltImage
from harness.stack.images.catalogue import mirrored
from harness.stack.images.lock import Lock


def ensure_foreign(client: Any, settings: Settings, lock: Lock, image: str) -> BuiltImage:
    """An image of others in this engine; pulled where it isn't here yet.

    One that no lock knows and that is here under the given name is taken as it is: it may be the user's own, which no
    registry has.

    Raises:
        FloatingTag, ImageMoved, ImageUnavailable: it is not here, and may or can not be pulled.
    """
    if found := find_foreign(client, settings, lock, image):
        return found
    name = pull_locked(client, settings, lock, image)
    return BuiltImage(name, client.images.get(name).id, fresh=True)


def find_foreign(client: Any, settings: Settings, lock: Lock, image: str) -> BuiltImage | None:
    """The image as far as it is in this engine already; one that is locked counts only with the locked digest."""
    entry = lock.of(image)
    wanted = entry.reference if entry else image
    for name in (wanted, mirrored(wanted, settings.image_mirror), carried_name(settings, wanted)):
        if found := docker_engine.image_id(client, name):
            return BuiltImage(name, found, fresh=False)
    return None
