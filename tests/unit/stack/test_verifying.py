"""What `make verify` makes of a configuration, images and containers."""

from __future__ import annotations

from dataclasses import replace

from harness.stack.images.lock import Lock, Locked
from harness.stack.verifying import Local, Running, Seen, decide, drifted

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
BASE, DEV, ENGINE = f"debian:12@{A}", "drydock/dev:1", f"vllm/vllm:v1@{B}"
SEEN = Seen(
    rendered={"dev": DEV, "inference": ENGINE},
    running=[Running("p-dev-1", "dev", DEV, "sha256:dev"), Running("p-inference-1", "inference", ENGINE, "sha256:e")],
    expected={DEV},
    local={
        BASE: Local("sha256:base", (BASE,), ("l1",)),
        DEV: Local("sha256:dev", (), ("l1", "l2")),
        ENGINE: Local("sha256:e", (ENGINE,), ("l9",)),
    },
    grounds=[BASE],
    namespace="drydock",
    lock=Lock(
        {"debian:12": Locked("debian:12", A, True, "2026-11-30"), "vllm/vllm:v1": Locked("vllm/vllm:v1", B, True)}
    ),
)


def states(seen: Seen) -> dict[str, str]:
    return {finding.subject: finding.state for finding in decide(seen)}


def drifts(seen: Seen) -> list[str]:
    return [f"{finding.subject}: {finding.text}" for finding in decide(seen) if finding.state == "drift"]


def test_what_is_locked_is_fine() -> None:
    assert not drifted(decide(SEEN))
    assert set(states(SEEN).values()) == {"ok"}


def test_behind_a_mirror_the_same_lock_holds() -> None:
    behind = f"m.lan/hub/{ENGINE}"
    local = {**SEEN.local, behind: SEEN.local[ENGINE]}
    running = [replace(SEEN.running[0]), replace(SEEN.running[1], image=behind)]
    seen = replace(SEEN, mirror="m.lan/hub", rendered={"dev": DEV, "inference": behind}, local=local, running=running)
    assert drifts(seen) == []


def test_an_unverified_digest_is_a_note_and_no_drift() -> None:
    lock = Lock({**SEEN.lock.entries, "debian:12": Locked("debian:12", A, False, source="a file")})
    assert states(replace(SEEN, lock=lock))["base debian:12"] == "note"


def test_another_digest_than_the_locks_is_a_drift_with_the_difference() -> None:
    lock = Lock({**SEEN.lock.entries, "vllm/vllm:v1": Locked("vllm/vllm:v1", A, True)})
    (found,) = [one for one in decide(replace(SEEN, lock=lock)) if one.state == "drift"]
    assert (found.expected, found.found) == (A, B)


def test_an_image_in_no_lock_is_a_drift_and_ones_own_is_not() -> None:
    pulled, own = "x/y:1", "mine:1"
    seen = replace(
        SEEN,
        running=[],
        rendered={"a": pulled, "b": own},
        local={**SEEN.local, pulled: Local("sha256:p", (f"x/y@{B}",), ()), own: Local("sha256:o", (), ())},
    )
    assert states(seen) == {"base debian:12": "ok", "service a": "drift", "service b": "note"}


def test_a_foreign_image_under_our_own_name_is_found() -> None:
    local = {**SEEN.local, DEV: Local("sha256:dev", (), ("other", "l2"))}
    assert drifts(replace(SEEN, local=local)) == [
        "service dev: it has the right name, and doesn't stand on what is locked"
    ]


def test_a_container_of_another_image_is_found() -> None:
    local = {**SEEN.local, DEV: Local("sha256:new", (), ("l1", "l2"))}
    assert drifts(replace(SEEN, local=local)) == ["container p-dev-1: runs another image"]
    stale = [replace(SEEN.running[0], image="drydock/dev:0"), SEEN.running[1]]
    assert drifts(replace(SEEN, running=stale)) == ["container p-dev-1: runs another image"]


def test_what_has_changed_since_the_last_up_is_found() -> None:
    (found,) = [one for one in decide(replace(SEEN, expected={"drydock/dev:2"})) if one.state == "drift"]
    assert (found.expected, found.found) == ("drydock/dev:2", DEV)
