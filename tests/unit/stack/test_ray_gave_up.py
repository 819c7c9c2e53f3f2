"""Ray's head gives up on its own start where a machine is busy; `up` then starts it again, and only then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import docker_engine
from harness.stack import up
from harness.stack.observe import Service
from tests.unit.stack.test_judge import RUNNING


class Engine:
    """Counts starts."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.containers = self

    def get(self, identity: str) -> Any:
        self.started.append(identity)
        return self

    def start(self) -> None:
        pass


@pytest.mark.parametrize(
    ("log", "again"),
    [
        ("Exception: The current node timed out during startup. This could happen …", True),
        ("The last 20 lines of /tmp/ray/d.log (it contains the error message from the dashboard): \nINFO …", True),
        ("ValueError: no such option", False),
    ],
)
def test_it_is_started_again(monkeypatch: pytest.MonkeyPatch, log: str, again: bool) -> None:
    monkeypatch.setattr(docker_engine, "log_tail", lambda *_: log)
    engine = Engine()
    head = replace(RUNNING, id="head", service="ray-head", status="exited", exit_code=1)
    service = Service("ray-head", 1, "exited", "exit code 1", (head,))
    assert up._started_again(engine, service) is again
    assert engine.started == (["head"] if again else [])
