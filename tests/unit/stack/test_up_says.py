"""What an `up` says that it did: changed something, only waited, or neither."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.cli.already import how_it_went
from harness.stack.observe import Condition, Service
from harness.stack.up import hopeless, not_ready
from tests.unit.stack.test_judge import RUNNING


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


def test_what_no_waiting_brings_back_is_not_waited_for() -> None:
    def service(condition: Condition, *networks: str) -> Service:
        container = replace(RUNNING, networks=networks)
        return Service("dev", 1, condition, "", (container,))

    assert hopeless(service("exited", "n"))
    assert hopeless(service("unhealthy")), "on no network any more"
    # A busy machine may need longer than a health check has patience.
    assert not hopeless(service("unhealthy", "n"))
    assert not hopeless(service("starting", "n"))
