"""What an `up` says that it did: changed something, only waited, or neither."""

from __future__ import annotations

import pytest

from harness.cli.already import how_it_went
from harness.stack.observe import Condition, Service
from harness.stack.up import not_ready


@pytest.mark.parametrize(
    ("changed", "awaited", "said"),
    [
        ((), (), "everything is up already; nothing was changed (2.0 s)"),
        (("dev",), ("inference",), "up in 2.0 s (dev)"),
        ((), ("inference", "ray-head"), "up in 2.0 s (nothing was changed; waited for inference, ray-head)"),
    ],
)
def test_the_last_line(changed: tuple[str, ...], awaited: tuple[str, ...], said: str) -> None:
    assert how_it_went(changed, awaited, 2.0) == said


def test_an_up_that_was_broken_off_leaves_services_to_wait_for() -> None:
    conditions: dict[str, Condition] = {"dev": "ok", "inference": "starting", "ray-head": "silent"}
    before = [Service(name, 1, condition, "", ()) for name, condition in conditions.items()]
    assert not_ready(before, ("ray-head",)) == ("inference",)
