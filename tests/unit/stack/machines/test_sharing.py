"""SHARE=: what becomes of the plan, and that without it nothing changes; what `make worker` asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadSetting, StackDown
from harness.settings import load_settings
from harness.stack import ray
from harness.stack.machines import worker
from harness.stack.machines.sharing import Node, newest
from harness.stack.plan import make_plan
from harness.stack.rendering import compose_for, variables


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()


SHARED = {"SHARE": "10.0.0.1", "PORT": "8080"}


def test_dev_is_the_head_and_the_server_is_found_at_the_shared_address() -> None:
    plan = make_plan(load_settings(environ=SHARED))
    assert plan.services == {"dev": 1, "inference": 1}
    assert plan.expected.head == "dev"
    assert plan.server.container_url == "http://10.0.0.1:8080/v1"
    assert plan.server.host_url == "http://127.0.0.1:8080/v1"


def test_without_share_nothing_of_it_is_rendered(tmp_path: Path) -> None:
    plan = make_plan(load_settings(environ={"RAY_PORT": "7000"}))
    values = variables(plan, dev_image="dev:1", inference_image="e:1", served=None, keys=tmp_path)
    assert plan.services == {"ray-head": 1, "dev": 1, "inference": 1}
    assert not [name for name in values if "SHARE" in name or "MEETING" in name or "RAY_FLAGS" in name]
    assert [path.name for path in compose_for(plan).files] == ["compose.yaml"]


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"SHARE": "localhost"}, "IPv4"),
        ({"SHARE": "127.0.0.1"}, "IPv4"),
        ({"SHARE": "0.0.0.0"}, "IPv4"),
        ({**SHARED, "WORKERS": "1"}, "exclude each other"),
        ({**SHARED, "RAY_AUTH": "off"}, "RAY_AUTH=off"),
        ({**SHARED, "ENGINE": "external", "OPENAI_BASE_URL": "http://127.0.0.1:3/v1"}, "loopback"),
    ],
)
def test_what_can_not_be_shared_is_refused(asked: dict[str, str], word: str) -> None:
    with pytest.raises(BadSetting, match=word):
        make_plan(load_settings(environ=asked))


def row(ip: str, state: str, host: str = "h") -> dict[str, Any]:
    return {"ip": ip, "hostname": host, "raylet": {"state": state}}


def test_a_node_that_has_joined_again_is_one() -> None:
    found = newest(
        [row("10.0.0.10", "DEAD"), row("10.0.0.2", "DEAD"), row("10.0.0.2", "ALIVE"), row("10.0.0.2", "DEAD")]
    )
    assert [(node.ip, node.state) for node in found] == [("10.0.0.2", "alive"), ("10.0.0.10", "dead")]


def test_a_node_that_ended_before_it_told_its_address_is_not_one_without() -> None:
    registered = {"raylet": {"state": "DEAD", "nodeManagerAddress": "10.0.0.3"}}
    found = newest([row("10.0.0.1", "ALIVE"), {"raylet": {"state": "DEAD"}}, registered, {}])
    assert [(node.ip, node.state) for node in found] == [("10.0.0.1", "alive"), ("10.0.0.3", "dead")]


def test_a_node_is_told_the_heads_ports_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("canary\n")
    settings = load_settings(environ={"HEAD": "10.0.0.1:7000", "TOKEN_FILE": str(tmp_path / "token")})
    host, ports, token = worker.asked_for(settings)
    values = worker.variables(settings, host, ports, "dev:1")
    assert token == "canary"
    assert "canary" not in str(values)
    assert values["DRYDOCK_HEAD"] == "10.0.0.1:7000"
    assert "--node-manager-port 7002" in values["DRYDOCK_RAY_FLAGS"]
    assert values["DRYDOCK_NODE_NETWORK"] == "host"


def test_what_worker_needs_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for asked, word in (
        ({}, "HEAD= and TOKEN_FILE="),
        ({"HEAD": "h", "TOKEN_FILE": str(tmp_path / "none")}, "can't be read"),
        ({"HEAD": "h", "TOKEN_FILE": str(tmp_path / "empty")}, "is empty"),
        ({"HEAD": "h:x", "TOKEN_FILE": str(tmp_path / "empty")}, "HOST:PORT"),
    ):
        with pytest.raises(BadSetting, match=word):
            worker.asked_for(load_settings(environ=asked))


def test_what_is_a_node_of_another_machine_has_no_cluster_to_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings(environ={})
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    (settings.state_dir / worker.RECORD).write_text('{"head": "10.0.0.1:7000"}')
    with pytest.raises(StackDown, match=r"a node of 10\.0\.0\.1:7000") as caught:
        ray.restart(None, settings)
    assert "on 10.0.0.1;" in caught.value.mend


def test_who_has_not_joined_again_is_named_and_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(load_settings(environ=SHARED))
    back, away = Node("10.0.0.2", "two", "alive"), Node("10.0.0.3", "three", "alive")
    monkeypatch.setattr(ray, "REJOIN_SECONDS", 0.0)
    monkeypatch.setattr(
        "harness.stack.machines.sharing.nodes", lambda *_, **__: [Node("10.0.0.1", "one", "alive"), back]
    )
    assert ray.others(plan) == [back]
    assert ray.wait_for(plan, [back, away]) == [away]
    assert ray.others(make_plan(load_settings(environ={}))) == []
