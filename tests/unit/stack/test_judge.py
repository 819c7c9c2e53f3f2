"""A service's condition, decided from what the engine says and what the service answers."""

from __future__ import annotations

import socket
from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness.docker_engine import Container
from harness.stack import observe
from harness.stack.observe import Answer, judge

RUNNING = Container(
    id="c1",
    name="drydock-inference-1",
    service="inference",
    status="running",
    health="healthy",
    exit_code=0,
    oom_killed=False,
    image="drydock/llamacpp:1",
    image_id="sha256:1",
    started_at="",
    published_ports=(8080,),
    clone="",
)
GOOD = Answer(True, "generates tokens")
SILENT = Answer(False, "no answer on port 8080: connection refused")
LATE = Answer(False, "no answer on port 8080: nothing said within 5 s", late=True)


@pytest.mark.parametrize(
    ("change", "answer", "condition", "detail"),
    [
        ({}, GOOD, "ok", "generates tokens"),
        ({}, None, "ok", "running"),
        ({"health": "starting"}, GOOD, "ok", "generates tokens"),
        ({"health": "starting"}, SILENT, "starting", "no answer"),
        ({"health": "unhealthy"}, SILENT, "unhealthy", "no answer"),
        # One that the engine found healthy isn't starting: a busy machine, or the first seconds of a hang.
        ({}, LATE, "silent", "was ready before"),
        ({"health": "starting"}, LATE, "starting", "nothing said"),
        ({"health": "unhealthy"}, LATE, "unhealthy", "nothing said"),
        ({"status": "exited", "exit_code": 137}, SILENT, "exited", "SIGKILL"),
        ({"status": "exited", "exit_code": 1}, SILENT, "exited", "exit code 1"),
        ({"status": "exited", "exit_code": 137, "oom_killed": True}, SILENT, "exited", "out of memory"),
        ({"status": "paused"}, SILENT, "paused", "docker pause"),
        ({"status": "created"}, SILENT, "created", "not started"),
        ({"networks": ()}, GOOD, "unhealthy", "on no network"),
        ({"stopped_processes": ("7 llama",)}, SILENT, "stopped", "1 process stopped"),
        ({"stopped_processes": ("7 llama", "8 x")}, GOOD, "stopped", "2 processes stopped"),
    ],
)
def test_condition(change: dict[str, object], answer: Answer | None, condition: str, detail: str) -> None:
    service = judge("inference", 1, (replace(RUNNING, **change),), answer)  # type: ignore[arg-type]
    assert service.condition == condition
    assert detail in service.detail


def test_a_service_without_its_containers_is_missing() -> None:
    assert judge("inference", 1, (), GOOD).condition == "missing"
    assert judge("ray-worker", 3, (RUNNING,), None).detail == "1 of 3"


def test_the_worst_container_counts() -> None:
    dead = replace(RUNNING, status="exited", exit_code=1)
    assert judge("ray-worker", 2, (RUNNING, dead), None).condition == "exited"


def test_one_that_listens_and_says_nothing_is_late_and_one_that_is_not_there_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(observe, "PROBE_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        asked = SimpleNamespace(port=port, dashboard_port=port, key=lambda _: "")
        for ask in (observe.ask_server, observe.ask_ray):
            said = ask(asked)  # type: ignore[arg-type]
            assert (said.ok, said.late, "nothing said" in said.detail) == (False, True, True)
    said = observe.ask_server(asked)  # type: ignore[arg-type]
    assert (said.ok, said.late, "refused" in said.detail) == (False, False, True)
