"""The catalogue of images (``docker/images.yaml``, with its lock) and the names under which images are pulled."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.settings import home
from harness.stack.images.lock import Lock, lock_path, read_lock, refuse_floating


@dataclass(frozen=True)
class BaseSpec:
    """What every image stands on.

    Attributes:
        image: the registry's image, by tag and, as far as it is locked, digest.
        suite: Debian suite that the same is made from where no registry answers.
        source_date_epoch: the time that all files made then carry, so that it comes out the same twice.
        packages: Debian packages added to either.
    """

    image: str
    suite: str
    source_date_epoch: int
    packages: tuple[str, ...]


@dataclass(frozen=True)
class ImageSpec:
    """One image that we build.

    Attributes:
        kind: its name in the catalogue, and the last part of the image's name.
        folder: its own files, relative to the clone.
        locks: names of its lists of Python packages in ``docker/locks``.
        contexts: what else of the clone it is built from: name in the build to path in the clone. A list of paths
            puts each under that name; one path puts its content there.
    """

    kind: str
    folder: str
    locks: tuple[str, ...] = ()
    contexts: dict[str, str | list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class FrameworkSpec:
    """A framework's own image, and the pair that it is built for.

    Attributes:
        image: for ``dev`` and the Ray nodes, by tag.
        engine: the engine that it calls.
        engine_image: that engine's image, by tag.
    """

    name: str
    image: str
    engine: str
    engine_image: str


@dataclass(frozen=True)
class Catalogue:
    """All images, and the clone that their files lie in.

    Attributes:
        images: those that we build, by kind.
        engines: images of engines on a GPU, by engine and tag.
        frameworks: by what ``FRAMEWORK=`` names them.
        lock: the digests of all that is pulled.
    """

    root: Path
    base: BaseSpec
    images: dict[str, ImageSpec]
    engines: dict[str, str] = field(default_factory=dict)
    frameworks: dict[str, FrameworkSpec] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    @property
    def pulled(self) -> list[str]:
        """Every image that may be pulled, by tag."""
        named = [one for spec in self.frameworks.values() for one in (spec.image, spec.engine_image)]
        return sorted({self.base.image.partition("@")[0], *self.engines.values(), *named})

    def framework_image(self, framework: str) -> str:
        """The image that ``FRAMEWORK=`` means: of a framework that is known by name, or the image itself."""
        known = self.frameworks.get(framework.lower())
        return known.image if known else framework

    def engine_image(self, engine: str, framework: str | None) -> str:
        """The image of an engine on a GPU; the framework's own pair goes first."""
        known = self.frameworks.get((framework or "").lower())
        return known.engine_image if known and known.engine == engine else self.engines[engine]


def load_catalogue(root: Path | None = None) -> Catalogue:
    """Read ``docker/images.yaml`` and its lock of a clone, by default the one this harness belongs to.

    Raises:
        LockUnreadable: the lock was changed into something that can't be read.
        FloatingTag: an image is named without a version.
    """
    clone = root or home()
    raw: dict[str, Any] = yaml.safe_load((clone / "docker" / "images.yaml").read_text(encoding="utf-8"))
    base = raw["base"]
    lock = read_lock(lock_path(clone))
    catalogue = Catalogue(
        root=clone,
        base=BaseSpec(
            image=lock.pinned(base["image"]),
            suite=base["bootstrap"]["suite"],
            source_date_epoch=base["bootstrap"]["source_date_epoch"],
            packages=tuple(base["packages"]),
        ),
        images={
            kind: ImageSpec(kind, entry["folder"], tuple(entry.get("locks", ())), entry.get("contexts", {}))
            for kind, entry in raw["images"].items()
        },
        engines={name: entry["image"] for name, entry in raw.get("engines", {}).items()},
        frameworks={
            name: FrameworkSpec(name, entry["image"], entry["engine"], entry["engine_image"])
            for name, entry in raw.get("frameworks", {}).items()
        },
        lock=lock,
    )
    for image in catalogue.pulled:
        refuse_floating(image)
    return catalogue


def mirrored(image: str, prefix: str | None) -> str:
    """The name of an image behind a mirror; tag and digest stay as they are.

    Docker Hub's images lie below the prefix under their full names, ``library/debian`` for ``debian``, as pull-through
    mirrors have them; an image of another registry keeps that registry's name as the first part of its path.
    """
    if not prefix:
        return image
    return f"{prefix.rstrip('/')}/{full_path(image)}"


def full_path(image: str) -> str:
    """An image's path with Docker Hub's unwritten ``library/``, and without Docker Hub's own host name."""
    head, slash, rest = image.partition("/")
    if not slash:
        return f"library/{image}"
    if head in ("docker.io", "index.docker.io"):
        return rest if "/" in rest else f"library/{rest}"
    return image
