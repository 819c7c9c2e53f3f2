"""What Docker's refusals to start a container mean."""

from __future__ import annotations

import pytest

from harness.errors import ComposeFailed, LimitRefused
from harness.stack.starting import explained

RUNC = (
    "Error response from daemon: failed to create shim task: OCI runtime create failed: runc create failed: unable to "
    "start container process: error during container init: error setting rlimits for ready process: error setting "
    "rlimit type {}: operation not permitted: unknown"
)


@pytest.mark.parametrize(
    ("logs", "name"),
    [
        (RUNC.format(8), "memlock"),
        (RUNC.format(3), "stack"),
        ("crun: setrlimit `RLIMIT_MEMLOCK`: Operation not permitted: OCI permission denied", "memlock"),
    ],
)
def test_a_limit_that_docker_may_not_raise_is_named_with_its_mend(logs: str, name: str) -> None:
    found = explained(ComposeFailed("docker compose up gave up (exit code 1).", logs=logs))
    assert isinstance(found, LimitRefused)
    assert f"`{name}`" in found.what
    assert f"Limit{name.upper()}=infinity" in found.mend


@pytest.mark.parametrize("logs", ["", "no space left on device", RUNC.format(7), "crun: setrlimit `RLIMIT_CORE`: no"])
def test_any_other_failure_stays_what_it_is(logs: str) -> None:
    failed = ComposeFailed("docker compose up gave up (exit code 1).", logs=logs)
    assert explained(failed) is failed
