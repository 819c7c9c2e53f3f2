"""The catalogue of images (``docker/images.yaml``) and the names under which images are pulled."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.settings import home


@dataclass(frozen=True)
class BaseSpec:
    """What every image stands on.

    Attributes:
        image: the registry's image, by tag and digest.
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
class Catalogue:
    """All images, and the clone that their files lie in."""

    root: Path
    base: BaseSpec
    images: dict[str, ImageSpec]


def load_catalogue(root: Path | None = None) -> Catalogue:
    """Read ``docker/images.yaml`` of a clone, by default the one this harness belongs to."""
    clone = root or home()
    raw: dict[str, Any] = yaml.safe_load((clone / "docker" / "images.yaml").read_text(encoding="utf-8"))
    base = raw["base"]
    return Catalogue(
        root=clone,
        base=BaseSpec(
            image=base["image"],
            suite=base["bootstrap"]["suite"],
            source_date_epoch=base["bootstrap"]["source_date_epoch"],
            packages=tuple(base["packages"]),
        ),
        images={
            kind: ImageSpec(kind, entry["folder"], tuple(entry.get("locks", ())), entry.get("contexts", {}))
            for kind, entry in raw["images"].items()
        },
    )


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
