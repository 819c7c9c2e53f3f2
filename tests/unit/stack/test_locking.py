"""What `make lock` makes of a registry's answers."""

from __future__ import annotations

import pytest

from harness.stack.images.lock import Lock, Locked
from harness.stack.images.registry import Answer, Failure, judge
from harness.stack.locking import Asked, compare

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
TODAY = "2026-11-30"
GONE = Answer(failure="gone", said="manifest unknown")


def locked(verified: bool = True) -> Lock:
    return Lock({"x:1": Locked("x:1", A, verified, source="" if verified else "a public file")})


def test_an_image_that_was_not_locked_is() -> None:
    found = compare(Lock(), {"x:1": Asked(Answer(A, ("linux/amd64",)))}, update=False, today=TODAY)
    assert found.lock.entries["x:1"] == Locked("x:1", A, True, TODAY, ("linux/amd64",))
    assert (found.rows[0].outcome, found.exit_code) == ("new", 0)


def test_an_unverified_digest_that_is_right_becomes_verified() -> None:
    found = compare(locked(False), {"x:1": Asked(Answer(A))}, update=False, today=TODAY)
    assert found.lock.entries["x:1"].verified
    assert found.rows[0].outcome == "confirmed"


def test_a_moved_tag_is_shown_and_taken_only_when_asked() -> None:
    answers = {"x:1": Asked(Answer(B), Answer(A))}
    shown = compare(locked(), answers, update=False, today=TODAY)
    assert shown.lock == locked()
    assert (shown.rows[0].outcome, shown.rows[0].old, shown.rows[0].new, shown.exit_code) == ("moved", A, B, 1)
    assert "still there" in shown.rows[0].note
    assert compare(locked(), answers, update=True, today=TODAY).lock.entries["x:1"].digest == B


def test_a_digest_that_is_gone_is_said_and_nothing_is_lost() -> None:
    found = compare(locked(), {"x:1": Asked(GONE, GONE)}, update=True, today=TODAY)
    assert found.lock == locked()
    assert (found.rows[0].outcome, found.exit_code) == ("gone", 1)
    assert "locked digest is gone" in found.rows[0].note


def test_a_registry_that_does_not_answer_changes_nothing() -> None:
    found = compare(locked(), {"x:1": Asked(Answer(failure="limited", said="429"))}, update=True, today=TODAY)
    assert found.lock == locked()
    assert (found.rows[0].outcome, found.exit_code) == ("not asked", 3)


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        # As Docker Engine 20.10 says it.
        (404, "manifest unknown: manifest unknown", "gone"),
        (500, 'Head "http://h/v2/x/manifests/1": no basic auth credentials', "login"),
        (401, "unauthorized: authentication required", "login"),
        (403, "denied", "login"),
        (429, "toomanyrequests: You have reached your pull rate limit", "limited"),
        (500, 'Get "https://h/v2/": x509: certificate signed by unknown authority', "untrusted"),
        (500, 'Get "http://h/v2/": dial tcp 127.0.0.1:1: connect: connection refused', "unreachable"),
        (500, 'Get "https://h/v2/": dial tcp: lookup h on 10.0.0.1:53: no such host', "unreachable"),
        (500, "received unexpected HTTP status: 503 Service Unavailable", "faulty"),
    ],
)
def test_a_refusal_is_understood(status: int, said: str, kind: Failure) -> None:
    assert judge(status, said) == kind
