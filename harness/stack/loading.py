"""``make load``: what `make save` wrote, into this machine's engine and caches; asks no network."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import docker.errors
import requests.exceptions

from harness import console, docker_engine, models
from harness.errors import EnvironmentUnfit, NoSpace, SavedUnusable
from harness.models import carrying
from harness.settings import Settings
from harness.stack import guard, saved
from harness.stack.saved import Manifest

PART = ".drydock-part"


@dataclass(frozen=True)
class Loaded:
    """What was brought in.

    Attributes:
        images: how many were new.
        files: how many files of weights were new.
    """

    manifest: Manifest
    images: int
    files: int


def load(settings: Settings, folder: Path) -> Loaded:
    """Check the whole folder, then load its images and put its weights in place.

    Raises:
        SavedUnusable: it isn't whole, or not for this machine.
        NoSpace: a disk is full; what was loaded before stays and is found by the next `load`.
    """
    manifest = saved.read(folder)
    client = guard.docker_fit()
    here = str(client.version().get("Arch"))
    if here != manifest.architecture:
        raise SavedUnusable(
            f"{folder} is for {manifest.architecture}, and this machine's engine runs {here}.",
            mend=f"make save OUT=FOLDER   # on a machine with {here}",
        )
    with console.step(f"checking {folder}") as step:
        saved.check(folder, step.update)
    with guard.only_one(settings):
        missing = {name for name, id_ in manifest.images.items() if docker_engine.image_id(client, name) != id_}
        if missing:
            with console.step(f"{len(manifest.images)} images") as step:
                _load_images(folder / saved.IMAGES, step.update)
            _compare(client, manifest)
        with console.step("weights", quiet_below=0.5):
            files = _place_weights(folder / saved.WEIGHTS, carrying.places(settings))
    return Loaded(manifest, len(missing), files)


def note_revision(settings: Settings, manifest: Manifest) -> None:
    """So that the revision that was asked for there isn't asked of a hub here."""
    if settings.engine != "external":
        carrying.arrived(models.resolve(settings), settings.engine, settings, manifest.commit)


class _Counted:
    """A file whose reader shows how far it is."""

    def __init__(self, file: IO[bytes], size: int, say: Callable[[str], None]) -> None:
        self._file, self._size, self._say = file, size, say

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._say(f"{self._file.tell() / max(1, self._size):.0%} of {self._size / 1e9:.2f} GB")
        return data

    def __iter__(self) -> Any:
        return iter(lambda: self.read(saved.CHUNK), b"")


def _load_images(path: Path, say: Callable[[str], None]) -> None:
    patient = docker_engine.connect(timeout=600)
    try:
        with path.open("rb") as file:
            patient.images.load(_Counted(file, path.stat().st_size, say))
    except (docker.errors.APIError, docker.errors.ImageLoadError, requests.exceptions.RequestException) as error:
        said = str(getattr(error, "explanation", None) or error)
        if "no space left" in said:
            raise NoSpace(f"The engine's disk is full: {said[:200]}.") from None
        raise EnvironmentUnfit(
            f"The engine didn't take the images: {said[:300]}.",
            consequence="The stack can't be started from them.",
            mend="make load FROM=FOLDER   # again, once that is mended",
        ) from None


def _compare(client: Any, manifest: Manifest) -> None:
    other = [name for name, id_ in manifest.images.items() if docker_engine.image_id(client, name) != id_]
    if other:
        raise EnvironmentUnfit(
            f"This engine gives images other ids than the one they were saved from: {', '.join(sorted(other)[:3])}.",
            consequence="`make up` would not find them. "
            "It is so between engines with and without the containerd image store.",
            mend="save them from an engine with the same store; docker info shows it as Storage Driver",
        )


def _place_weights(path: Path, places: dict[str, Path]) -> int:
    """Put each file in its place that isn't there yet; returns how many."""
    new = 0
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                target = _target(member, places)
                if not target.exists():
                    _put(tar, member, target)
                    new += 1
    except (tarfile.TarError, EOFError, ValueError, TypeError, LookupError) as error:
        raise SavedUnusable(f"{path} can't be read: {error}.") from None
    except OSError as error:
        raise NoSpace(f"The weights can't be put in place: {error.strerror}.") from None
    return new


def _put(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Unpack a file beside its place and move it there, so that no reader ever sees half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + PART)
    part.unlink(missing_ok=True)
    try:
        if member.issym():
            part.symlink_to(member.linkname)
        else:
            source = tar.extractfile(member)
            assert source is not None
            with part.open("wb") as file:
                shutil.copyfileobj(source, file, saved.CHUNK)
            part.chmod(0o644)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def _target(member: tarfile.TarInfo, places: dict[str, Path]) -> Path:
    """Where a member belongs.

    Raises:
        SavedUnusable: nowhere in our places; checksums say that nothing changed on the way, not who wrote it.
    """
    place, _, inside = member.name.partition("/")
    root = places.get(place)
    if root is None or not inside or not (member.isfile() or member.issym()):
        raise SavedUnusable(f"The saved weights have something that is no weight: {member.name[:80]!r}.")
    root = Path(os.path.abspath(root))
    target = Path(os.path.normpath(root / inside))
    leads = Path(os.path.normpath(target.parent / member.linkname)) if member.issym() else target
    if not (
        target.is_relative_to(root)
        and leads.is_relative_to(root)
        and target.parent.resolve().is_relative_to(root.resolve())
    ):
        raise SavedUnusable(f"The saved weights have a file that leads out of its folder: {member.name[:80]!r}.")
    return target
