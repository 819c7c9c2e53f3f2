"""``make lock``: what registries say of every image that may be pulled, held against ``docker/images.lock``.

Gather (``ask_all``), decide (``compare``), and the lock that follows. Without ``UPDATE=1`` only what changes nothing
for anybody is written: confirmations, and images that were not locked before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Literal

from harness.settings import Settings
from harness.stack.images import registry
from harness.stack.images.catalogue import Catalogue, mirrored
from harness.stack.images.lock import Lock, Locked, refuse_floating, tagged
from harness.stack.images.registry import Answer

Outcome = Literal["unchanged", "confirmed", "new", "moved", "gone", "not asked"]


@dataclass(frozen=True)
class Asked:
    """What a registry said of one image: of its tag, and of the digest that is locked where the tag leads elsewhere."""

    tag: Answer
    locked: Answer | None = None


@dataclass(frozen=True)
class Row:
    """What became of one image.

    Attributes:
        old: digest that was locked, or "".
        new: digest that its tag leads to, or "".
        note: what a person should know.
    """

    image: str
    outcome: Outcome
    old: str
    new: str
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self)


@dataclass(frozen=True)
class Locking:
    """The rows, and the lock as it is to be written."""

    rows: list[Row]
    lock: Lock

    @property
    def exit_code(self) -> int:
        """1: something would change, or is gone; 3: a registry could not be asked."""
        outcomes = {row.outcome for row in self.rows}
        return 1 if outcomes & {"moved", "gone"} else 3 if "not asked" in outcomes else 0


def wanted_images(catalogue: Catalogue, settings: Settings) -> list[str]:
    """Every image to lock, by tag: the catalogue's, the user's ``FRAMEWORK``, and what is locked already.

    Raises:
        FloatingTag: the user's has no version.
    """
    named = set(catalogue.pulled) | set(catalogue.lock.entries)
    if settings.framework:
        image = catalogue.framework_image(settings.framework, settings.engine)
        refuse_floating(image)
        named.add(tagged(image))
    return sorted(named)


def ask_all(images: Sequence[str], lock: Lock, mirror: str | None) -> dict[str, Asked]:
    """Ask for all images at once, through the mirror where there is one."""

    def one(image: str) -> Asked:
        tag = registry.ask(mirrored(image, mirror))
        entry = lock.entries.get(image)
        elsewhere = entry and (tag.failure == "gone" or (not tag.failure and tag.digest != entry.digest))
        return Asked(tag, registry.ask(mirrored(entry.reference, mirror)) if entry and elsewhere else None)

    with ThreadPoolExecutor(max_workers=8) as pool:
        return dict(zip(images, pool.map(one, images), strict=True))


def compare(lock: Lock, asked: Mapping[str, Asked], *, update: bool, today: str) -> Locking:
    """Decide what becomes of each image.

    Args:
        update: whether a tag that leads elsewhere changes the lock.
        today: YYYY-MM-DD.
    """
    entries = dict(lock.entries)
    rows = []
    for image, answers in asked.items():
        row = _row(image, lock.entries.get(image), answers)
        rows.append(row)
        if row.outcome in ("new", "confirmed") or (update and row.outcome == "moved"):
            entries[image] = Locked(image, row.new, True, today, answers.tag.platforms)
    return Locking(rows, Lock(entries))


def _row(image: str, entry: Locked | None, answers: Asked) -> Row:
    old, tag = entry.digest if entry else "", answers.tag
    still = "" if answers.locked is None else _still(answers.locked)
    if tag.failure == "gone":
        return Row(image, "gone", old, "", f"the registry has no such tag; {still}" if old else "no such tag")
    if tag.failure:
        return Row(image, "not asked", old, "", f"{registry.reason(tag)}: {tag.said[:160]}")
    if entry is None:
        return Row(image, "new", "", tag.digest)
    if tag.digest != entry.digest:
        return Row(image, "moved", old, tag.digest, still)
    return Row(image, "unchanged" if entry.verified else "confirmed", old, tag.digest)


def _still(answer: Answer) -> str:
    if answer.failure == "gone":
        return "the locked digest is gone from the registry"
    return (
        "whether the locked digest is still there is unknown" if answer.failure else "the locked digest is still there"
    )
