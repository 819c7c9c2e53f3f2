"""Client, plugins, and the engine's kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.doctor.engine import Engine, explained, is_elsewhere, product_of
from harness.doctor.topics.docker import Client, decide_client, decide_engine, version_in
from harness.doctor.versions import numbers
from harness.errors import DockerMissing, DockerUnreachable

OLDEST = {"compose": (2, 20), "buildx": (0, 10)}
GOOD = Engine(
    address="unix:///var/run/docker.sock",
    context="default",
    version="28.1.0",
    product="Docker Engine",
    driver="overlay2",
    root_dir="/var/lib/docker",
)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Docker version 28.2.2, build e6534b4", "28.2.2"),
        ("Docker Compose version v2.26.1-4", "2.26.1-4"),
        ("github.com/docker/buildx 0.13.1+ds1 0.13.1+ds1-3", "0.13.1+ds1"),
        ("github.com/docker/buildx v0.24.0 d0e5e86", "0.24.0"),
        ("podman version 4.3.1", "4.3.1"),
        ("", None),
    ],
)
def test_versions_are_read(text: str, version: str | None) -> None:
    assert version_in(text) == version


def test_versions_are_compared_as_numbers() -> None:
    assert numbers("2.9.0") < numbers("2.20.0-1") < numbers("v2.26.1-4")
    assert numbers("20.10.24+dfsg1") == (20, 10)
    assert numbers("28") == (28, 0)


def test_all_is_well() -> None:
    client = Client("28.2.2", {"compose": "2.26.1", "buildx": "0.13.1"})
    assert [f.sign for f in decide_client(client, OLDEST, needed=True)] == ["ok"] * 3
    assert [f.sign for f in decide_engine(GOOD, (20, 10), needed=True)] == ["ok"]


def test_missing_and_old_plugins() -> None:
    findings = decide_client(Client("20.10.24", {"compose": "2.9.0", "buildx": None}), OLDEST, needed=True)
    assert [f.sign for f in findings] == ["ok", "bad", "bad"]
    assert "2.20 is the oldest" in findings[1].text
    assert all(f.mend for f in findings[1:])


def test_no_docker_matters_only_where_a_stack_could_run() -> None:
    none = Client(None, {})
    assert [f.sign for f in decide_client(none, OLDEST, needed=True)] == ["bad"]
    assert [f.sign for f in decide_client(none, OLDEST, needed=False)] == ["note"]
    unreachable = Engine(DockerUnreachable("The Docker daemon isn't running."))
    assert decide_engine(unreachable, (20, 10), needed=True)[0].sign == "bad"
    assert decide_engine(unreachable, (20, 10), needed=False)[0].sign == "note"


def test_missing_python_packages_don_t_hide_the_reason() -> None:
    engine = Engine(DockerMissing("The Python package docker isn't installed."), packages_missing=True)
    assert "docker isn't installed" in decide_engine(engine, None, needed=True)[0].text


def test_an_engine_too_old() -> None:
    finding = decide_engine(replace(GOOD, version="19.3.15"), (20, 10), needed=True)[0]
    assert finding.sign == "bad"
    assert "20.10 is the oldest" in finding.text


def test_engines_before_28_expose_loopback_ports_but_ours_ask_for_keys() -> None:
    findings = decide_engine(replace(GOOD, version="20.10.24"), (20, 10), needed=True)
    notes = [f for f in findings if f.sign == "note"]
    assert len(notes) == 1
    assert "neighbours on the local network" in notes[0].text
    assert "ask for a key" in notes[0].consequence


@pytest.mark.parametrize(
    ("change", "sign", "text"),
    [
        ({"product": "Podman", "version": "4.3.1"}, "warn", "Podman"),
        ({"product": "Docker Desktop", "memory": 8_000_000_000}, "note", "8.0 GB"),
        ({"rootless": True}, "warn", "rootless"),
        ({"address": "ssh://box", "name": "box"}, "bad", "another machine (box)"),
        ({"driver": "vfs"}, "warn", "vfs"),
        ({"proxies": {"HttpProxy": "http://me:secret@p:3128"}}, "note", "HttpProxy http://p:3128"),
        ({"driver": "aufs"}, "warn", "aufs"),
        ({"root_dir": "/var/snap/docker/common/var-lib-docker"}, "warn", "snap"),
    ],
)
def test_kinds_of_engines(change: dict[str, object], sign: str, text: str) -> None:
    findings = decide_engine(replace(GOOD, **change), (20, 10), needed=True)  # type: ignore[arg-type]
    assert any(f.sign == sign and text in f.text for f in findings)


@pytest.mark.parametrize(
    ("address", "elsewhere"),
    [
        ("unix:///var/run/docker.sock", False),
        ("npipe:////./pipe/docker_engine", False),
        ("tcp://127.0.0.1:2375", False),
        ("tcp://localhost:2375", False),
        ("tcp://10.0.0.7:2376", True),
        ("ssh://me@box", True),
        ("", False),
    ],
)
def test_whose_folders_an_engine_mounts(address: str, elsewhere: bool) -> None:
    assert is_elsewhere(address) is elsewhere


def test_products_are_told_apart() -> None:
    assert product_of({"Components": [{"Name": "Podman Engine"}]}, {}) == "Podman"
    assert product_of({}, {"OperatingSystem": "Docker Desktop"}) == "Docker Desktop"
    assert product_of({"Components": [{"Name": "Engine"}]}, {"OperatingSystem": "Debian"}) == "Docker Engine"


def test_an_address_given_by_hand_is_not_mended_by_starting_a_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    error = explained(DockerUnreachable("The Docker daemon isn't running."), "tcp://127.0.0.1:1")
    assert "tcp://127.0.0.1:1" in error.what
    assert "DOCKER_HOST" in error.what
    assert error.mend.startswith("unset DOCKER_HOST")
    usual = DockerUnreachable("The Docker daemon isn't running.")
    assert explained(usual, "unix:///var/run/docker.sock") is usual
