"""The catalogue of images (``docker/images.yaml``, with its lock) and the names under which images are pulled."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness import engines
from harness.errors import CatalogueUnreadable
from harness.places import home
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
class Pair:
    """A framework's own image, and the engine's that it is built for.

    Attributes:
        image: for ``dev`` and the Ray nodes, by tag.
        engine_image: the engine's image, by tag.
    """

    image: str
    engine_image: str


@dataclass(frozen=True)
class Catalogue:
    """All images, and the clone that their files lie in.

    Attributes:
        images: those that we build, by kind.
        engines: images of engines on a GPU, by engine and tag (harness/engines).
        frameworks: by what ``FRAMEWORK=`` names them, their pairs by engine; the first is the framework's own choice.
        lock: the digests of all that is pulled.
    """

    root: Path
    base: BaseSpec
    images: dict[str, ImageSpec]
    engines: dict[str, str] = field(default_factory=dict)
    frameworks: dict[str, dict[str, Pair]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    @property
    def pulled(self) -> list[str]:
        """Every image that may be pulled, by tag."""
        pairs = [pair for known in self.frameworks.values() for pair in known.values()]
        named = [image for pair in pairs for image in (pair.image, pair.engine_image)]
        return sorted({self.base.image.partition("@")[0], *self.engines.values(), *named})

    def pairs(self, framework: str | None) -> dict[str, Pair]:
        """A known framework's pairs by engine; empty for any other image."""
        return self.frameworks.get((framework or "").lower(), {})

    def framework_image(self, framework: str, engine: str) -> str:
        """The image that ``FRAMEWORK=`` means: of a framework that is known by name, or the image itself.

        With an engine that the framework has no image for, it is that of the framework's own choice.
        """
        pairs = self.pairs(framework)
        return (pairs.get(engine) or next(iter(pairs.values()))).image if pairs else framework

    def engine_image(self, engine: str, framework: str | None) -> str:
        """The image of an engine on a GPU; the framework's own pair goes first."""
        pair = self.pairs(framework).get(engine)
        return pair.engine_image if pair else self.engines[engine]


def load_catalogue(root: Path | None = None) -> Catalogue:
    """Read ``docker/images.yaml`` and its lock of a clone, by default the one this harness belongs to.

    Raises:
        CatalogueUnreadable, LockUnreadable: one of the two was changed into something that can't be read.
        FloatingTag: an image is named without a version.
    """
    clone = root or home()
    path, lock = clone / "docker" / "images.yaml", read_lock(lock_path(clone))
    try:
        catalogue = _catalogue(clone, yaml.safe_load(path.read_text(encoding="utf-8")), lock)
    except (OSError, ValueError, yaml.YAMLError, LookupError, TypeError, AttributeError, RecursionError) as error:
        what = f"{type(error).__name__} {error}" if isinstance(error, LookupError) else " ".join(str(error).split())
        raise CatalogueUnreadable(f"{path} can't be read: {what[:300]}.") from None
    for image in catalogue.pulled:
        refuse_floating(image)
    return catalogue


def _catalogue(clone: Path, raw: dict[str, Any], lock: Lock) -> Catalogue:
    base = raw["base"]
    served = engines.every(clone / "harness" / "engines")
    from_cpu = {name: engine.cpu.image for name, engine in served.items() if engine.cpu}
    found = Catalogue(
        root=clone,
        base=BaseSpec(
            image=lock.pinned(base["image"]),
            suite=base["bootstrap"]["suite"],
            source_date_epoch=base["bootstrap"]["source_date_epoch"],
            packages=tuple(base["packages"]),
        ),
        images={
            kind: ImageSpec(kind, entry["folder"], tuple(entry.get("locks", ())), entry.get("contexts", {}))
            for kind, entry in (raw["images"] | from_cpu).items()
        },
        engines={name: engine.gpu.image for name, engine in served.items() if engine.gpu},
        frameworks={
            name: {engine: Pair(**pair) for engine, pair in entry.items() if engine != "why"}
            for name, entry in raw.get("frameworks", {}).items()
        },
        lock=lock,
    )
    if not all(isinstance(image, str) for image in found.pulled):
        raise ValueError("an image's name is no text")
    return found


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
