"""Checksums of the weights that are served, file by file, and of what they should be where somebody knows that.

Files of the hub cache are named by their checksum: sha256 for large ones, git's id (SHA-1 over a header and the
content) for small ones. The default model's file is pinned in the catalogue. What is the user's own is only hashed.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.models import catalogue
from harness.models.packages import package_file
from harness.models.weights import ModelFiles

_CHUNK = 1 << 20


@dataclass(frozen=True)
class FileSum:
    """One file of a model.

    Attributes:
        name: its path within the model.
        sha256: of its content now; "" where it was not asked for and nobody knows it.
        good: whether the content is what its name in the cache or the catalogue says; None where nothing says it.
    """

    name: str
    size: int
    sha256: str
    good: bool | None


def known_sums(files: ModelFiles) -> dict[str, str]:
    """The checksums that are known without reading a file, by path within the model."""
    return {name: found for name, path in files_of(files) if (found := _expected(path, files)[0])}


def check_sums(files: ModelFiles) -> list[FileSum]:
    """Read all files and hold them against what is known of them. Takes about a second for a gigabyte."""
    return [found for name, path in files_of(files) if (found := check_sum(name, path, files))]


def is_known(path: Path, files: ModelFiles) -> bool:
    """Whether anything says what a file's content should be."""
    return any(_expected(path, files))


def check_sum(name: str, path: Path, files: ModelFiles, seconds: float = float("inf")) -> FileSum | None:
    """Read one file and hold it against what is known of it; None where that took longer than it may."""
    started = time.monotonic()
    wanted, git_id = _expected(path, files)
    size = path.stat().st_size
    sha, git = hashlib.sha256(), hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            sha.update(chunk)
            if git_id:
                git.update(chunk)
            if time.monotonic() - started > seconds:
                return None
    good = sha.hexdigest() == wanted if wanted else git.hexdigest() == git_id if git_id else None
    return FileSum(name, size, sha.hexdigest(), good)


def files_of(files: ModelFiles) -> Iterator[tuple[str, Path]]:
    """All files of the model as it is mounted, by path within it."""
    inside = Path(files.container_path).relative_to(files.mount_target)
    place = files.host_path / inside if inside.parts else files.host_path
    if place.is_dir():
        for path in sorted(place.rglob("*")):
            if path.is_file():
                yield path.relative_to(place).as_posix(), path
    elif place.is_file():
        yield place.name, place


def _expected(path: Path, files: ModelFiles) -> tuple[str, str]:
    """A file's sha256 and git id, as far as its place says them."""
    blob = path.resolve()
    if blob.parent.name == "blobs":
        return (
            blob.name if re.fullmatch(r"[0-9a-f]{64}", blob.name) else "",
            blob.name if re.fullmatch(r"[0-9a-f]{40}", blob.name) else "",
        )
    for entry in catalogue.load().values():
        package = entry.package
        if package and package.version == files.revision and blob.name == package_file(blob.parent, package).name:
            return package.sha256, ""
    return "", ""
