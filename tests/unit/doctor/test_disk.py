"""Room, inodes and the right to write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.doctor.topics.disk import GB, IMAGE_BYTES, STANDING_BYTES, Place, decide, gather, image_bytes

PLACE = Place(
    name="our cache",
    path=Path("/cache"),
    needed=1 * GB,
    device=1,
    free=10 * GB,
    total=100 * GB,
    inodes=1_000_000,
    read_only=False,
    writable=True,
    mend="make up DRYDOCK_CACHE=/another/folder",
)


@pytest.mark.parametrize(("free", "sign"), [(10, "ok"), (1.5, "warn"), (0.5, "bad")])
def test_room(free: float, sign: str) -> None:
    findings = decide([replace(PLACE, free=int(free * GB))])
    assert [finding.sign for finding in findings] == [sign]


def test_places_on_one_disk_need_room_together() -> None:
    three = [replace(PLACE, name=name, needed=4 * GB) for name in ("a", "b", "c")]
    assert [finding.sign for finding in decide(three)] == ["bad"]
    assert [finding.sign for finding in decide([replace(p, device=n) for n, p in enumerate(three)])] == ["ok"] * 3


def test_a_full_cache_can_be_put_elsewhere() -> None:
    assert "DRYDOCK_CACHE=" in decide([replace(PLACE, free=0)])[0].mend


@pytest.mark.parametrize(("inodes", "sign"), [(5_000, "bad"), (50_000, "warn"), (None, None), (1_000_000, None)])
def test_inodes(inodes: int | None, sign: str | None) -> None:
    findings = decide([replace(PLACE, inodes=inodes)])
    assert [finding.sign for finding in findings] == ["ok", *([sign] if sign else [])]


def test_read_only_and_somebody_elses() -> None:
    read_only = decide([replace(PLACE, read_only=True, writable=False)])[0]
    assert read_only.sign == "bad"
    assert "read-only" in read_only.text
    other = decide([replace(PLACE, writable=False)])[0]
    assert other.sign == "bad"
    assert "this user" in other.text


def test_a_folder_that_is_not_there_yet_is_judged_by_the_one_above(tmp_path: Path) -> None:
    place = gather("x", tmp_path / "a" / "b", 0, "")
    assert place.device == tmp_path.stat().st_dev
    assert place.writable


def test_images_that_are_built_need_no_more_room() -> None:
    assert image_bytes("vllm", frozenset()) > sum(IMAGE_BYTES.values()) > image_bytes("external", frozenset({"base"}))
    assert image_bytes("llamacpp", frozenset({"base", "node", "dev", "llamacpp"})) == STANDING_BYTES
    assert image_bytes("external", frozenset({"base", "node", "dev"})) == STANDING_BYTES
