"""``FRAMEWORK=``: any image that has Python, as the ground that the Ray nodes' environment is put on."""

from __future__ import annotations

from typing import Any

from harness import docker_engine
from harness.settings import Settings
from harness.stack.images.base import pull
from harness.stack.images.build import BuiltImage
from harness.stack.images.catalogue import mirrored


def ensure_framework(client: Any, settings: Settings, image: str) -> BuiltImage:
    """The framework's image in this engine; pulled where it isn't here yet.

    An image that is here under the given name is taken as it is: it may be the user's own, which no registry has.

    Raises:
        ImageUnavailable: it is neither here nor to be pulled.
    """
    if found := find_framework(client, settings, image):
        return found
    name = mirrored(image, settings.image_mirror)
    pull(client, settings, name)
    return BuiltImage(name, client.images.get(name).id, fresh=True)


def find_framework(client: Any, settings: Settings, image: str) -> BuiltImage | None:
    """The framework's image as far as it is in this engine already."""
    for name in (image, mirrored(image, settings.image_mirror)):
        if found := docker_engine.image_id(client, name):
            return BuiltImage(name, found, fresh=False)
    return None
