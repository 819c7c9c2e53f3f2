"""What an image is built from: a list of files, its digest, and the folder that BuildKit is given.

One folder for everything, because Engine 20.10's BuildKit knows no named build contexts. Modes are made equal, so that
the umask of whoever cloned the repository changes neither the digest nor the image.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.stack.images.catalogue import Catalogue, ImageSpec

SKIPPED_FOLDERS = {"__pycache__", ".git", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".venv", "node_modules"}
SKIPPED_SUFFIXES = (".pyc", ".pyo")


@dataclass(frozen=True)
class Entry:
    """One file of a build context: where it goes, and the file or the text that goes there."""

    path: str
    source: Path | bytes

    @property
    def executable(self) -> bool:
        return isinstance(self.source, Path) and os.access(self.source, os.X_OK)

    def content(self) -> bytes:
        return self.source if isinstance(self.source, bytes) else self.source.read_bytes()


def entries_for(catalogue: Catalogue, spec: ImageSpec) -> list[Entry]:
    """All files of an image's build context that lie in the clone, in a fixed order."""
    root = catalogue.root
    found = [*folder_entries(root / spec.folder, ""), *folder_entries(root / "docker" / "build", "build/")]
    for name in spec.locks:
        found.append(Entry(f"locks/{name}.txt", root / "docker" / "locks" / f"{name}.txt"))
    for name, what in spec.contexts.items():
        if isinstance(what, str):
            found += folder_entries(root / what, f"{name}/")
            continue
        for part in what:
            path = root / part
            found += (
                folder_entries(path, f"{name}/{path.name}/") if path.is_dir() else [Entry(f"{name}/{path.name}", path)]
            )
    return sorted(found, key=lambda entry: entry.path)


def folder_entries(folder: Path, prefix: str) -> list[Entry]:
    """All files below a folder, caches left out."""
    return [Entry(prefix + path.relative_to(folder).as_posix(), path) for path in walk(folder)]


def walk(folder: Path) -> Iterator[Path]:
    """Regular files below a folder in a fixed order, caches left out; links are not followed."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        for name in sorted(files):
            path = Path(place, name)
            if not name.endswith(SKIPPED_SUFFIXES) and path.is_file() and not path.is_symlink():
                yield path


def digest(entries: list[Entry], *facts: str) -> str:
    """The first 12 hex digits of a hash over files (path, executable or not, content) and further facts."""
    total = hashlib.sha256()
    for entry in entries:
        content = hashlib.sha256(entry.content()).hexdigest()
        total.update(f"{entry.path}\0{int(entry.executable)}\0{content}\n".encode())
    for fact in facts:
        total.update(f"{fact}\n".encode())
    return total.hexdigest()[:12]


def stage(entries: list[Entry], wheels: list[Path], folder: Path) -> None:
    """Put a build context together in an empty folder; wheels are hard links where the file system allows it."""
    for entry in entries:
        target = folder / entry.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(entry.content())
        target.chmod(0o755 if entry.executable else 0o644)
    (folder / "wheels").mkdir(exist_ok=True)
    for wheel in wheels:
        link_or_copy(wheel, folder / "wheels" / wheel.name)


def link_or_copy(source: Path, target: Path) -> None:
    """A hard link, or a copy where the two are on different file systems or not ours to link."""
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)
