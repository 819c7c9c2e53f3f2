"""``docker/images.lock``: the digest of every image that is pulled. Written by ``make lock``, read by everybody.

One entry an image, as ``name:tag@digest``: readable, immutable, and the form that update bots know. An entry that no
registry has confirmed yet is ``unverified`` and says where its digest was found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.errors import FloatingTag, LockUnreadable
from harness.places import write_whole

HEADER = """\
# The digests of all images that are pulled: of the multi-platform index, where there is one. Written by `make lock`,
# which asks the registries; checked by `make verify`. By hand only to note a digest found elsewhere, as `unverified`.
"""
_REFERENCE = re.compile(r"(?P<image>[\w.:/-]+:[\w][\w.-]*)@(?P<digest>sha256:[0-9a-f]{64})")
_STATES = ("verified", "unverified")


@dataclass(frozen=True)
class Locked:
    """One image of the lock.

    Attributes:
        image: its name and tag.
        digest: ``sha256:…``.
        verified: whether a registry has confirmed that the tag led to this digest.
        date: when it did (YYYY-MM-DD), or "".
        platforms: ``os/architecture``, as the registry told.
        source: where an unverified digest was found.
    """

    image: str
    digest: str
    verified: bool
    date: str = ""
    platforms: tuple[str, ...] = ()
    source: str = ""

    @property
    def reference(self) -> str:
        """``name:tag@digest``."""
        return f"{self.image}@{self.digest}"


@dataclass(frozen=True)
class Lock:
    """All entries, by name and tag."""

    entries: dict[str, Locked] = field(default_factory=dict)

    def pinned(self, image: str) -> str:
        """An image's name with its locked digest; unchanged where it has one or none is locked."""
        found = self.entries.get(image)
        return found.reference if found else image

    def of(self, reference: str) -> Locked | None:
        """The entry that a full reference is pinned by; None where the lock has another digest or none."""
        found = self.entries.get(tagged(reference))
        return found if found and reference in (found.image, found.reference) else None


def lock_path(root: Path) -> Path:
    """The lock of a clone."""
    return root / "docker" / "images.lock"


def read_lock(path: Path) -> Lock:
    """Read the lock; a clone without one has nothing locked.

    Raises:
        LockUnreadable: it isn't what ``make lock`` writes; names the entry.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Lock()
    except RecursionError:
        raise LockUnreadable(f"{path} is nested too deeply.") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise LockUnreadable(f"{path} can't be read: {' '.join(str(error).split())}") from None
    rows = raw.get("images") if isinstance(raw, dict) else None
    if not isinstance(rows, list):
        raise LockUnreadable(f"{path} has no list `images`.")
    entries: dict[str, Locked] = {}
    for number, row in enumerate(rows, start=1):
        entry = _entry(path, number, row)
        if entry.image in entries:
            raise LockUnreadable(f"{path}, entry {number}: {entry.image} is there twice.")
        entries[entry.image] = entry
    return Lock(entries)


def write_lock(path: Path, lock: Lock) -> None:
    """Write the lock, whole or not at all."""
    rows = []
    for _, entry in sorted(lock.entries.items()):
        row: dict[str, Any] = {"image": entry.reference, "state": _STATES[not entry.verified]}
        for name, value in (("date", entry.date), ("platforms", list(entry.platforms)), ("source", entry.source)):
            if value:
                row[name] = value
        rows.append(row)
    write_whole(path, HEADER + yaml.safe_dump({"images": rows}, sort_keys=False, width=120))


def tagged(image: str) -> str:
    """An image's name without its digest."""
    return image.partition("@")[0]


def refuse_floating(image: str) -> None:
    """Refuse a name that means another image tomorrow.

    Raises:
        FloatingTag: neither a tag (other than ``latest``) nor a digest.
    """
    if "@sha256:" in image:
        return
    _, colon, tag = image.rpartition("/")[2].partition(":")
    if not colon or tag == "latest":
        raise FloatingTag(f"{image} names whatever is newest: tomorrow it is another image.")


def _entry(path: Path, number: int, row: Any) -> Locked:
    where = f"{path}, entry {number}"
    if not isinstance(row, dict) or not isinstance(row.get("image"), str):
        raise LockUnreadable(f"{where}: no `image`.")
    match = _REFERENCE.fullmatch(row["image"])
    if match is None:
        raise LockUnreadable(f"{where}: {row['image']} is not name:tag@sha256:… with 64 digits.")
    if match["image"].endswith(":latest"):
        raise LockUnreadable(f"{where}: {match['image']} is a tag that moves by its nature; lock a version.")
    if row.get("state") not in _STATES:
        raise LockUnreadable(f"{where}: state {row.get('state')!r} is neither of {', '.join(_STATES)}.")
    unknown = set(row) - {"image", "state", "date", "platforms", "source"}
    if unknown:
        raise LockUnreadable(f"{where}: nobody knows what `{sorted(unknown)[0]}` means.")
    platforms = row.get("platforms") or []
    if not isinstance(platforms, list) or not all(isinstance(one, str) for one in platforms):
        raise LockUnreadable(f"{where}: platforms is no list of os/architecture.")
    return Locked(
        image=match["image"],
        digest=match["digest"],
        verified=row["state"] == "verified",
        date=str(row.get("date") or ""),
        platforms=tuple(platforms),
        source=str(row.get("source") or ""),
    )
