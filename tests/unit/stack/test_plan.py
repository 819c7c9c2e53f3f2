"""What the settings ask for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.errors import BadSetting
from harness.settings import load_settings
from harness.stack.plan import Plan, make_plan
from harness.stack.status import gone_back, remember


def plan(tmp_path: Path, **environ: str) -> Plan:
    (tmp_path / "examples").mkdir(exist_ok=True)
    return make_plan(load_settings(environ=environ))


def test_the_default_stack(tmp_path: Path) -> None:
    made = plan(tmp_path)
    assert made.services == {"ray-head": 1, "dev": 1, "inference": 1}
    assert made.ray_nodes == 2
    assert made.server.host_url == "http://127.0.0.1:8080/v1"
    assert made.server.anthropic_container_url == "http://inference:8080"


def test_workers_are_counted_as_nodes(tmp_path: Path) -> None:
    made = plan(tmp_path, WORKERS="3")
    assert made.services["ray-worker"] == 3
    assert made.ray_nodes == 5


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://127.0.0.1:30000/v1", 30000),
        ("http://localhost:30000/v1/", 30000),
        ("http://[::1]:9/v1", 9),
        ("http://localhost/v1", 80),
        ("https://localhost/v1", 443),
        ("https://api.example.com/v1", None),
        ("http://10.0.0.7:8000/v1", None),
    ],
)
def test_only_a_server_on_this_machines_loopback_needs_the_relay(tmp_path: Path, url: str, port: int | None) -> None:
    made = plan(tmp_path, ENGINE="external", OPENAI_BASE_URL=url)
    assert made.server.relay_port == port
    assert ("host-relay" in made.services) == (port is not None)
    assert "inference" not in made.services
    assert made.server.host_url == url.rstrip("/")
    # The very same address, except that containers have no IPv6.
    assert made.server.container_url == url.rstrip("/").replace("[::1]", "localhost")


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://127.0.0.1:9/v1", "127.0.0.1:9"),
        ("http://0.0.0.0:9/v1", "127.0.0.1:9"),
        ("http://localhost:9/v1", "localhost:9"),
        ("http://[::1]:9/v1", "[::1]:9"),
    ],
)
def test_the_relay_leads_to_the_loopback_that_was_named(tmp_path: Path, url: str, target: str) -> None:
    assert plan(tmp_path, ENGINE="external", OPENAI_BASE_URL=url).server.relay_target == target


@pytest.mark.parametrize("url", ["", "127.0.0.1:30000", "ftp://x/v1", "http:///v1", "http://h:notaport/v1"])
def test_an_external_server_without_an_address_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(BadSetting, match="OPENAI_BASE_URL"):
        plan(tmp_path, ENGINE="external", OPENAI_BASE_URL=url)


def test_a_workspace_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="doesn't exist"):
        plan(tmp_path, WORKSPACE="nowhere")
    (tmp_path / "file.py").touch()
    with pytest.raises(BadSetting, match="is a file"):
        plan(tmp_path, WORKSPACE="file.py")


@pytest.mark.parametrize(
    ("me", "owner", "expected"),
    [(0, 0, (1000, 1000)), (0, 1234, (1234, 55)), (1234, 1234, (1234, 55)), (1234, 0, (1234, 77)), (1, 2, (1, 77))],
)
def test_containers_run_as_the_workspaces_owner_but_never_as_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, me: int, owner: int, expected: tuple[int, int]
) -> None:
    class Stat:
        st_uid, st_gid, st_mode = owner, 55, 0o40755

    monkeypatch.setattr(os, "geteuid", lambda: me)
    monkeypatch.setattr(os, "getegid", lambda: 77)
    (tmp_path / "examples").mkdir()
    settings = load_settings(environ={})
    monkeypatch.setattr(Path, "stat", lambda self, **_: Stat())
    made = make_plan(settings)
    assert (made.uid, made.gid) == expected


def test_a_frameworks_checkout_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "verl").mkdir()
    assert plan(tmp_path, FRAMEWORK_SRC="verl").framework_target == "/framework/verl"


def test_what_the_last_up_had_and_this_one_lacks_is_told(tmp_path: Path) -> None:
    remember(plan(tmp_path, MODEL="qwen2.5-0.5b", WORKERS="2"), ("qwen2.5-0.5b",))
    assert gone_back(load_settings(environ={"WORKERS": "1"})) == {"MODEL": "qwen2.5-0.5b"}
    assert gone_back(load_settings(environ={"MODEL": "smollm2-135m", "WORKERS": "2"})) == {}


def test_a_stack_is_looked_at_when_its_folders_are_gone(tmp_path: Path) -> None:
    settings = load_settings(environ={"WORKSPACE": "gone", "FRAMEWORK_SRC": "gone/too"})
    with pytest.raises(BadSetting, match="doesn't exist"):
        make_plan(settings)
    made = make_plan(settings, to_start=False)
    assert made.framework_target == "/framework/too"
    assert made.services == {"ray-head": 1, "dev": 1, "inference": 1}
