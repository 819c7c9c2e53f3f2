"""The lock of images: read back as written, and nothing else accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import FloatingTag, LockUnreadable
from harness.stack.images.lock import Lock, Locked, lock_path, read_lock, refuse_floating, write_lock

CLONE = Path(__file__).parents[4]
A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
ENTRIES = (
    Locked("debian:12", A, True, "2026-11-30", ("linux/amd64", "linux/arm64")),
    Locked("host.lan:5000/team/x:v1.2-post", B, False, source="a public file"),
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    lock = Lock({entry.image: entry for entry in ENTRIES})
    write_lock(tmp_path / "images.lock", lock)
    assert read_lock(tmp_path / "images.lock") == lock
    assert [path.name for path in tmp_path.iterdir()] == ["images.lock"]


def test_no_lock_locks_nothing(tmp_path: Path) -> None:
    assert read_lock(tmp_path / "images.lock") == Lock()


def test_the_clones_own_lock_says_where_every_unverified_digest_is_from() -> None:
    entries = read_lock(lock_path(CLONE)).entries.values()
    assert entries
    assert [entry.image for entry in entries if not entry.verified and not entry.source] == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("images: [", "can't be read"),
        ("- a", "no list `images`"),
        ("images: {}", "no list `images`"),
        ("images: [{state: verified}]", "entry 1: no `image`"),
        (f"images: [{{image: 'debian:12@{A[:-1]}', state: verified}}]", "64 digits"),
        ("images: [{image: 'debian:12', state: verified}]", "64 digits"),
        (f"images: [{{image: 'debian@{A}', state: verified}}]", "name:tag"),
        (f"images: [{{image: 'debian:latest@{A}', state: verified}}]", "moves by its nature"),
        (f"images: [{{image: 'debian:12@{A}', state: sure}}]", "neither of verified"),
        (f"images: [{{image: 'debian:12@{A}', state: verified, digest: x}}]", "`digest`"),
        (f"images: [{{image: 'debian:12@{A}', state: verified, platforms: all}}]", "platforms"),
        (f"images: [{{image: 'd:1@{A}', state: verified}}, {{image: 'd:1@{B}', state: verified}}]", "twice"),
    ],
)
def test_a_lock_by_hand_that_is_none_is_refused_by_entry(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "images.lock").write_text(text)
    with pytest.raises(LockUnreadable, match=says):
        read_lock(tmp_path / "images.lock")


def test_an_entry_holds_for_its_own_digest_only() -> None:
    lock = Lock({entry.image: entry for entry in ENTRIES})
    assert lock.of("debian:12") == ENTRIES[0]
    assert lock.of(f"debian:12@{A}") == ENTRIES[0]
    assert lock.of(f"debian:12@{B}") is None
    assert lock.pinned("debian:13") == "debian:13"


@pytest.mark.parametrize("image", ["debian", "debian:latest", "host.lan:5000/team/x", "host.lan:5000/team/x:latest"])
def test_a_name_without_a_version_is_refused(image: str) -> None:
    with pytest.raises(FloatingTag, match="tomorrow"):
        refuse_floating(image)


@pytest.mark.parametrize("image", ["debian:12", f"debian@{A}", "host.lan:5000/x:v1", f"x:latest@{A}"])
def test_a_version_or_a_digest_will_do(image: str) -> None:
    refuse_floating(image)
