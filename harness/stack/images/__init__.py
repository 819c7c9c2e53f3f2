"""The images of the stack: found by the hash of their content, else built.

    images = ensure_images(client, settings)
    images.dev          reference of the image of ``dev`` and every Ray node
    images.inference    reference of the engine's image, None with ENGINE=external
    find_images(…)      the same without building or pulling anything; None where something would have to be

How one stands on another::

    base (registry or bootstrap)  ->  llamacpp | vllm | areal | verl
    an engine project's own       ->  gpu-engine
    base, or FRAMEWORK=           ->  node  ->  user, where there is something to install  ->  dev

``node`` is Python with Ray and the debugging tools; ``dev`` puts the harness itself on top, last, so that a change of
it costs a second and not the reinstallation of the user's project.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from harness import console
from harness.settings import Settings
from harness.stack.images import context
from harness.stack.images.base import CARRIED, carried_name, ensure_base, find_base, made_name
from harness.stack.images.build import NAMESPACE_LABEL, BuiltImage, Recipe, build, existing
from harness.stack.images.catalogue import Catalogue, ImageSpec, load_catalogue
from harness.stack.images.fingerprint import Fingerprint, fingerprint
from harness.stack.images.framework import ensure_foreign, find_foreign
from harness.stack.images.host_config import HostConfig, read_host_config
from harness.stack.images.ledger import Removed, remove_build_cache, remove_pulled
from harness.stack.images.lock import Lock
from harness.stack.images.pip_config import locked_wheels
from harness.stack.images.user import find_user_project

__all__ = [
    "BuiltImage",
    "Fingerprint",
    "Images",
    "Removed",
    "all_images",
    "ensure_base_image",
    "ensure_framework_image",
    "ensure_images",
    "find_images",
    "fingerprint",
    "grounds",
    "image_references",
    "remove_build_cache",
    "remove_images",
]


@dataclass(frozen=True)
class Images:
    """References of the images that the stack runs.

    Attributes:
        fresh: kinds that were built or pulled just now; empty when everything was there.
    """

    dev: str
    inference: str | None
    fresh: tuple[str, ...]
    seconds: float


class _Builder:
    """The images of one call; this machine's configuration is read only if something has to be built."""

    def __init__(self, client: Any, settings: Settings, catalogue: Catalogue) -> None:
        self.client = client
        self.settings = settings
        self.catalogue = catalogue
        self.fresh: list[str] = []
        self._host: HostConfig | None = None

    @property
    def host(self) -> HostConfig:
        if self._host is None:
            self._host = read_host_config(self.settings)
            for server in self._host.local_servers:
                console.note(f"builds use this machine's network, because {server} is on its loopback")
        return self._host

    def note(self, kind: str, image: BuiltImage) -> BuiltImage:
        if image.fresh:
            self.fresh.append(kind)
        return image

    def base(self) -> BuiltImage:
        return self.note("base", ensure_base(self.client, self.settings, self.catalogue, lambda: self.host))

    def foreign(self, image: str) -> BuiltImage:
        return self.note("foreign", ensure_foreign(self.client, self.settings, self.catalogue.lock, image))

    def catalogued(
        self, kind: str, base: BuiltImage, title: str, extra: list[context.Entry] | None = None, **more: Any
    ) -> BuiltImage:
        """An image of the catalogue, built if there is none of that content."""
        spec = self.catalogue.images[kind]
        entries = sorted([*context.entries_for(self.catalogue, spec), *(extra or [])], key=lambda entry: entry.path)
        recipe = Recipe(kind, base.reference, base.id, entries, **more)
        if found := existing(self.client, recipe.tag(self.settings.namespace)):
            return found
        return self.build(spec, recipe, title)

    def build(self, spec: ImageSpec, recipe: Recipe, title: str) -> BuiltImage:
        locks = [self.catalogue.root / "docker" / "locks" / f"{name}.txt" for name in spec.locks]
        wheels = locked_wheels(list(self.host.wheel_folders), locks)
        return self.note(spec.kind, build(self.client, self.settings, recipe, self.host, wheels, title))


class _NotHere(Exception):
    """An image would have to be built or pulled."""


class _Finder(_Builder):
    """Finds what is here and makes nothing."""

    def __init__(self, client: Any, settings: Settings, catalogue: Catalogue) -> None:
        super().__init__(client, settings, catalogue)
        self.stood_on: set[str] = set()
        self.passed: dict[str, BuiltImage] = {}

    def catalogued(self, kind: str, base: BuiltImage, title: str, *more: Any, **named: Any) -> BuiltImage:
        return self._passed(super().catalogued(kind, base, title, *more, **named))

    def base(self) -> BuiltImage:
        found = self._found(find_base(self.client, self.settings, self.catalogue))
        if found.reference == made_name(self.settings, self.catalogue):
            self.stood_on.add(found.reference)
        else:
            self._below(self._found(find_foreign(self.client, self.settings, Lock(), self.catalogue.base.image)))
        return self._passed(found)

    def foreign(self, image: str) -> BuiltImage:
        found = self._found(find_foreign(self.client, self.settings, self.catalogue.lock, image))
        return self._below(found, self.catalogue.lock.pinned(image))

    def build(self, spec: ImageSpec, recipe: Recipe, title: str) -> BuiltImage:  # noqa: ARG002
        raise _NotHere

    def _passed(self, image: BuiltImage) -> BuiltImage:
        self.passed[image.reference] = image
        return image

    def _below(self, image: BuiltImage, asked: str = "") -> BuiltImage:
        """Note an image of others, by the name that it is to have where it is carried to."""
        self.stood_on.add(image.reference)
        self.passed[carried_name(self.settings, asked or self.catalogue.base.image)] = image
        return image

    def _found(self, image: BuiltImage | None) -> BuiltImage:
        if image is None:
            raise _NotHere
        return image


def ensure_images(
    client: Any, settings: Settings, catalogue: Catalogue | None = None, *, on_gpu: bool = False
) -> Images:
    """Find or build the images that these settings need; nothing is built that did not change.

    Args:
        client: a connected Docker client (docker_engine.connect).
        catalogue: by default the clone's own.
        on_gpu: whether the engine computes on GPUs, in its project's own image.

    Raises:
        BadSetting: REQUIREMENTS or FRAMEWORK_SRC can't be installed from.
        RequirementsConflict: the user's project asks for what the image must not have.
        FrameworkRefused: FRAMEWORK's Python or Ray won't do.
        ImageUnavailable, BaseUnavailable: nothing to build on.
        BuildFailed: and its subclasses, by cause; carries the last lines of the build.
        NoSpace: a disk became full.
    """
    return _all_images(_Builder(client, settings, catalogue or load_catalogue()), on_gpu)


def find_images(
    client: Any, settings: Settings, catalogue: Catalogue | None = None, *, on_gpu: bool = False
) -> Images | None:
    """The images that `ensure_images` would return without making any; None where one isn't here.

    Raises:
        BadSetting, RequirementsConflict: see there.
    """
    try:
        return _all_images(_Finder(client, settings, catalogue or load_catalogue()), on_gpu)
    except _NotHere:
        return None


def all_images(client: Any, settings: Settings, catalogue: Catalogue, *, on_gpu: bool = False) -> dict[str, BuiltImage]:
    """Every image that `find_images` passes on its way, by the name by which it finds it in an engine that loaded it.

    Returns:
        empty where one isn't here.
    """
    finder = _Finder(client, settings, catalogue)
    try:
        _all_images(finder, on_gpu)
    except _NotHere:
        return {}
    return finder.passed


def grounds(
    client: Any, settings: Settings, catalogue: Catalogue, *, on_gpu: bool = False
) -> tuple[list[str], list[str]]:
    """References of the images that these settings lead to, and of those not of ours that they stand on; builds none.

    Returns:
        both empty where one isn't here.
    """
    finder = _Finder(client, settings, catalogue)
    try:
        images = _all_images(finder, on_gpu)
    except _NotHere:
        return [], []
    return [name for name in (images.dev, images.inference) if name], sorted(finder.stood_on)


def _all_images(builder: _Builder, on_gpu: bool) -> Images:
    started, settings = time.monotonic(), builder.settings
    project = find_user_project(settings)
    inference = None
    base = None
    if on_gpu:
        image = builder.catalogue.engine_image(settings.engine, settings.framework)
        title = f"image of the inference server ({settings.engine} on GPUs)"
        inference = builder.catalogued("gpu-engine", builder.foreign(image), title, args={"ENGINE": settings.engine})
    elif settings.engine != "external":
        base = builder.base()
        inference = builder.catalogued(settings.engine, base, f"image of the inference server ({settings.engine})")
    framework = builder.catalogue.framework_image(settings.framework, settings.engine) if settings.framework else ""
    ground = builder.foreign(framework) if framework else base or builder.base()
    layer = builder.catalogued(
        "node",
        ground,
        "image of the Ray nodes (Python, Ray, debugging tools)",
        args={"GROUND": "framework" if settings.framework else "base"},
    )
    if project is not None:
        layer = builder.catalogued(
            "user",
            layer,
            f"your project: {project.described}",
            extra=project.counted,
            uncounted=project.uncounted,
        )
    dev = builder.catalogued("dev", layer, "image of dev (the harness)")
    return Images(
        dev=dev.reference,
        inference=inference.reference if inference else None,
        fresh=tuple(builder.fresh),
        seconds=time.monotonic() - started,
    )


def ensure_base_image(client: Any, settings: Settings) -> BuiltImage:
    """Find or make the base image alone; see :func:`ensure_images` for what may go wrong."""
    return _Builder(client, settings, load_catalogue()).base()


def ensure_framework_image(client: Any, settings: Settings, framework: str) -> BuiltImage:
    """Find or make the image with a framework's virtual environment; see :func:`ensure_images` for what may go wrong.

    Args:
        framework: ``areal`` or ``verl``.
    """
    builder = _Builder(client, settings, load_catalogue())
    name = {"areal": "AReaL", "verl": "verl"}[framework]
    return builder.catalogued(framework, builder.base(), f"{name} for stage 4 (once; some minutes)")


def image_references(client: Any, settings: Settings) -> list[str]:
    """Names of all images of our namespace in this engine, of this and earlier versions."""
    found = client.images.list(filters={"label": f"{NAMESPACE_LABEL}={settings.namespace}"})
    found += client.images.list(name=f"{settings.namespace}/{CARRIED}")
    return sorted({tag for image in found for tag in image.tags if tag.startswith(f"{settings.namespace}/")})


def remove_images(client: Any, settings: Settings) -> list[str]:
    """Remove all our images, and those that were not here before we pulled them; returns their names.

    Raises:
        docker.errors.APIError: a container still uses one.
    """
    removed = []
    # Those that stand on others first.
    order = {"dev": 0, "user": 1, "node": 2, "base": 4}

    def rank(name: str) -> int:
        return order.get(name.rpartition("/")[2].partition(":")[0], 3)

    for name in sorted(image_references(client, settings), key=rank):
        client.images.remove(name)
        removed.append(name)
    ours = {"label": f"{NAMESPACE_LABEL}={settings.namespace}", "dangling": True}
    for image in client.images.list(all=True, filters=ours):
        client.images.remove(image.id)
        removed.append(image.short_id)
    return removed + remove_pulled(client, settings)
