"""The running stack: conditions, images, keys, versions, mounts."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from harness import __version__
from harness.docker_engine import Container
from harness.doctor.topics.inside import Mount, Node, decide_mounts, decide_versions
from harness.doctor.topics.stack import (
    KeyFile,
    decide_images,
    decide_keys,
    decide_node,
    decide_samplers,
    decide_services,
    gather_keys,
)
from harness.stack.machines.worker import State
from harness.stack.observe import Service

CONTAINER = Container(
    id="1",
    name="drydock-dev-1",
    service="dev",
    status="running",
    health="",
    exit_code=0,
    oom_killed=False,
    image="drydock/dev:1",
    image_id="sha256:1",
    started_at="",
    published_ports=(),
)
VERSIONS: dict[str, str | None] = {"ray": "2.60.0", "debugpy": "1.8.22", "drydock": __version__}
DEV = Node("drydock-dev-1", "dev", "3.11.2", VERSIONS)
HEAD = Node("drydock-ray-head-1", "ray-head", "3.11.2", VERSIONS)


@pytest.mark.parametrize(
    ("service", "sign"),
    [
        (Service("dev", 1, "ok", "running", (CONTAINER,)), "ok"),
        (Service("dev", 1, "starting", "no answer", (CONTAINER,)), "warn"),
        (Service("dev", 1, "silent", "was ready before", (CONTAINER,)), "warn"),
        (Service("dev", 1, "exited", "exit code 1", (CONTAINER,)), "bad"),
        (Service("dev", 1, "missing", "not created", ()), "bad"),
        (Service("dev", 0, "ok", "running", (CONTAINER,)), "warn"),
    ],
)
def test_services(service: Service, sign: str) -> None:
    assert [f.sign for f in decide_services([service], "drydock")] == [sign]


def test_a_stack_that_is_not_up_is_no_fault() -> None:
    findings = decide_services([], "drydock")
    assert [(f.sign, f.mend) for f in findings] == [("note", "make up")]


def test_ray_nodes_of_different_images() -> None:
    worker = replace(CONTAINER, name="w", service="ray-worker", image="drydock/dev:2", image_id="sha256:2")
    assert decide_images([CONTAINER, worker], {})[0].sign == "bad"
    # The inference server is of an image of its own.
    engine = replace(worker, service="inference")
    assert [f.sign for f in decide_images([CONTAINER, engine], {})] == ["ok"]


def test_a_container_of_an_older_image() -> None:
    findings = decide_images([CONTAINER], {"dev": "drydock/dev:2"})
    assert findings[0].sign == "warn"
    assert "drydock/dev:2" in findings[0].text
    assert [f.sign for f in decide_images([CONTAINER], {"dev": "drydock/dev:1"})] == ["ok"]
    assert [f.sign for f in decide_images([CONTAINER], None)] == ["warn"]  # `up` would build one first
    assert decide_images([], {"dev": "drydock/dev:2"}) == []


def test_a_container_without_a_sampler() -> None:
    [missing] = decide_samplers(3, ["drydock-dev-1"])
    assert (missing.sign, "drydock-dev-1" in missing.text) == ("warn", True)
    assert [f.sign for f in decide_samplers(3, [])] == ["ok"]
    assert decide_samplers(0, []) == []


def keys(folder: Path, **change: object) -> list[KeyFile]:
    whole = [KeyFile(folder, "here", 0o700, 1000)]
    whole += [KeyFile(folder / name, "here", 0o600, 1000) for name in ("api_key", "ray_token", "hf_token")]
    return [whole[0], replace(whole[1], **change), *whole[2:]]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "sign", "text"),
    [
        ({}, "ok", "mode 0600"),
        ({"mode": 0o644}, "bad", "read by others (mode 0644)"),
        ({"mode": 0o640}, "bad", "read by others"),
        ({"uid": 0}, "bad", "belongs to user 0"),
        ({"state": "missing"}, "bad", "is missing"),
        ({"state": "hidden"}, "note", "belongs to another user"),
    ],
)
def test_keys(change: dict[str, object], sign: str, text: str) -> None:
    findings = decide_keys(keys(Path("/s"), **change), 1000, up=True)
    assert [f.sign for f in findings] == [sign]
    assert text in findings[0].text


def test_keys_before_the_first_up_and_after_a_loss(tmp_path: Path) -> None:
    none = gather_keys(tmp_path / "secrets")
    assert [f.sign for f in decide_keys(none, 1000, up=False)] == ["note"]
    assert [f.sign for f in decide_keys(none, 1000, up=True)] == ["bad"]


def test_key_files_are_looked_at_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "api_key").touch(mode=0o600)
    (tmp_path / "ray_token").touch()
    (tmp_path / "ray_token").chmod(0o604)
    found = gather_keys(tmp_path)
    assert [key.state for key in found] == ["here", "here", "here", "missing"]
    findings = decide_keys(found, os.getuid(), up=False)
    assert [f.sign for f in findings] == ["bad"]
    assert "ray_token" in findings[0].text


def test_versions_that_agree() -> None:
    findings = decide_versions([DEV, HEAD, Node("drydock-inference-1", "inference")])
    assert [f.sign for f in findings] == ["ok"]
    assert findings[0].text == f"Python 3.11.2, Ray 2.60.0, debugpy 1.8.22, Drydock {__version__} in all 2 Ray nodes"


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (replace(HEAD, python="3.12.1"), "Python differs: 3.11.2 in drydock-dev-1, 3.12.1 in drydock-ray-head-1"),
        (replace(HEAD, packages={**VERSIONS, "ray": "2.52.0"}), "Ray differs"),
        (replace(HEAD, packages={**VERSIONS, "debugpy": None}), "none in drydock-ray-head-1"),
    ],
)
def test_versions_that_differ(node: Node, text: str) -> None:
    findings = decide_versions([DEV, node])
    assert [f.sign for f in findings] == ["bad"]
    assert text in findings[0].text


def test_no_ray_an_old_drydock_and_a_container_that_does_not_tell() -> None:
    without = replace(DEV, packages={**VERSIONS, "ray": None})
    assert "There is no Ray" in decide_versions([without])[0].text
    old = replace(DEV, packages={**VERSIONS, "drydock": "0.0.1"})
    assert [f.sign for f in decide_versions([old])] == ["ok", "warn"]
    silent = Node("drydock-dev-1", "dev", problem="OCI runtime exec failed")
    assert [f.sign for f in decide_versions([silent])] == ["warn"]
    assert decide_versions([]) == []


def test_mounts() -> None:
    good = Mount("/home/me/project", "/workspace", here=True, same=True)
    unseen = Mount("/secret", "/run/secrets/x", here=None, same=None)
    assert [f.sign for f in decide_mounts([replace(DEV, mounts=(good, unseen))])] == ["ok"]
    gone = replace(good, here=False, same=None)
    findings = decide_mounts([replace(DEV, mounts=(gone,)), replace(HEAD, mounts=(gone,))])
    assert [f.sign for f in findings] == ["bad"]  # once for the folder, not once a container
    assert "drydock-dev-1, drydock-ray-head-1" in findings[0].text
    assert "was replaced" in decide_mounts([replace(DEV, mounts=(replace(good, same=False),))])[0].text
    assert decide_mounts([]) == []


def test_a_machine_that_is_a_node_of_another_is_looked_at_as_one() -> None:
    good = decide_node(State("10.0.0.1:6379", "ok", "10.0.0.2, one of 3 nodes"))
    assert (good.sign, good.text) == ("ok", "node of 10.0.0.1:6379 ok: 10.0.0.2, one of 3 nodes")
    cut = decide_node(State("10.0.0.1:6379", "cut off", "no answer"))
    assert cut.sign == "bad"
    assert "S=node" in cut.mend
