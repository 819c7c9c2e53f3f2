"""A stack in one folder, for machines without a network: what lies in it, and whether it is whole.

manifest.json       what it is (Manifest)
images.tar          every image, as `docker save` writes them
weights.tar         the model's files, under models/ (our cache) or hub/ (Hugging Face's)
wheels/             the packages of .venv
drydock.tar.gz      the clone that all this belongs to
README.txt          what to type on the other machine
SHA256SUMS          of all the others; `sha256sum --check SHA256SUMS` says the same as we do
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.errors import SavedUnusable

FORMAT = 1
MANIFEST, SUMS, README = "manifest.json", "SHA256SUMS", "README.txt"
IMAGES, WEIGHTS, SOURCE, WHEELS = "images.tar", "weights.tar", "drydock.tar.gz", "wheels"
CHUNK = 4 * 2**20


class Manifest(BaseModel):
    """What a saved stack is.

    Attributes:
        settings: those that decide what it consists of, by their names in the environment.
        images: name to id, as they have to be in the engine that loads them.
        commit: of the model on its hub, where it came from one.
        architecture: of the engine that the images are from, as Docker names it.
        python: of the wheels, ``3.11``.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: int
    made: str
    version: str
    settings: dict[str, str]
    images: dict[str, str]
    commit: str | None
    architecture: str
    python: str


class Hashed:
    """Writes a file and knows its SHA-256 at the end, so that it need not be read again."""

    def __init__(self, file: IO[bytes], progress: Callable[[int], None] = lambda _: None) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._progress = progress
        self.size = 0

    def write(self, data: bytes) -> int:
        """Write; the number of bytes, as files return it."""
        self._file.write(data)
        self._hash.update(data)
        self.size += len(data)
        self._progress(self.size)
        return len(data)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def write_sums(folder: Path, sums: dict[str, str]) -> None:
    """Write the checksums, last of all: a folder without them is not whole."""
    text = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
    (folder / SUMS).write_text(text, encoding="utf-8")


def read(folder: Path) -> Manifest:
    """What a folder says it is.

    Raises:
        SavedUnusable: it isn't one that `make save` has finished, or a newer Drydock wrote it.
    """
    if not (folder / SUMS).is_file():
        raise SavedUnusable(f"{folder} has no {SUMS}: `make save` didn't write it, or didn't end.")
    try:
        manifest = Manifest.model_validate_json((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, ValidationError) as error:
        raise SavedUnusable(f"{folder / MANIFEST} can't be read: {str(error).splitlines()[0]}.") from None
    if manifest.format != FORMAT:
        raise SavedUnusable(
            f"{folder} has format {manifest.format}, and this Drydock reads {FORMAT}.",
            mend=f"tar -xzf {folder / SOURCE} -C DIRECTORY   # the Drydock that belongs to it",
        )
    return manifest


def check(folder: Path, progress: Callable[[str], None]) -> None:
    """Hold every file against its checksum; takes as long as reading them all.

    Raises:
        SavedUnusable: files are missing or differ; names them.
    """
    missing, wrong = [], []
    for name, expected in _sums(folder):
        try:
            with (folder / name).open("rb") as file:
                found = sha256(file, lambda done, name=name: progress(f"{name} {done / 2**20:,.0f} MB"))  # type: ignore[misc]
        except (OSError, ValueError):  # no file can have a name with a zero byte in it
            missing.append(name)
            continue
        if found != expected:
            wrong.append(name)
    if missing or wrong:
        said = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"changed: {', '.join(wrong)}"] * bool(wrong)
        raise SavedUnusable(
            f"{folder} isn't whole; {'; '.join(said)}.",
            mend="copy it again from where it was saved, the whole folder; or: make save OUT=FOLDER",
        )


def _sums(folder: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate((folder / SUMS).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        expected, _, name = line.partition("  ")
        if len(expected) != 64 or not name or name.startswith("/") or ".." in Path(name).parts:
            raise SavedUnusable(f"Line {number} of {folder / SUMS} is no checksum of a file in it: {line[:80]!r}.")
        yield name, expected


def sha256(file: IO[bytes], progress: Callable[[int], None] = lambda _: None) -> str:
    """The SHA-256 of what is left to read of a file."""
    found, done = hashlib.sha256(), 0
    while chunk := file.read(CHUNK):
        found.update(chunk)
        done += len(chunk)
        progress(done)
    return found.hexdigest()
