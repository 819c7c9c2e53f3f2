"""Every node of a Ray cluster that hangs, with all its CPUs taken; what doesn't answer is named and not waited for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scenarios.hang_ray.conftest import Cluster
from tests.support.harness import docker, wait_for

# Four Ray nodes: on a machine that is busy otherwise Ray itself gives up on their start.
pytestmark = [pytest.mark.docker, pytest.mark.slow]


def hosts_of(dump: dict[str, Any], command: str) -> set[str]:
    """Nodes on which a process with this in its command line was found, each with stacks."""
    return {p["host"] for p in dump["processes"] if p["role"] == command and p.get("group") is not None}


def test_every_node_of_a_full_cluster_is_sampled_and_nothing_stays(cluster: Cluster) -> None:
    dump = cluster.dump("head", "head:6379")
    assert hosts_of(dump, "worker") == {"head", "node1", "node2"}, dump
    assert hosts_of(dump, "driver") == {"node1"}
    assert dump["state"] == "hung"
    assert "TooLarge" in json.dumps(dump["evidence"])
    wait_for("everything to be gone", lambda: not cluster.left_behind())


def test_another_cluster_beside_it_is_left_alone(cluster: Cluster) -> None:
    before = cluster.jobs("other")
    dump = cluster.dump("node2", "head:6379")
    assert "other" not in {process["host"] for process in dump["processes"]}
    # Asking adds a job of its own each time.
    assert len(cluster.jobs("other")) == len(before) + 1


@pytest.mark.parametrize("address", ["auto", "head"])
def test_an_address_that_might_be_anybodys_is_refused(cluster: Cluster, address: str) -> None:
    found = cluster.dump("head", address)
    assert found["error"] == "BadSetting"


@pytest.mark.parametrize(
    ("address", "token", "reason"),
    [("head:1", None, "nobody answers"), ("nowhere:6379", None, "nobody answers"), ("head:6379", "wrong" * 8, "")],
)
def test_a_cluster_that_cannot_be_joined_says_why(
    cluster: Cluster, address: str, token: str | None, reason: str
) -> None:
    environment = ["env", f"RAY_AUTH_TOKEN={token}"] if token else ["env"]
    said = cluster.run("node2", *environment, "harness", "hang-dump", "--ray-address", address, "--json", check=False)
    assert f"Ray at {address}" in said, said
    assert reason in said


def test_a_raylet_that_is_stopped_is_named_and_the_rest_is_sampled(cluster: Cluster) -> None:
    cluster.run("node2", "pkill", "-STOP", "-x", "raylet")
    try:
        dump = cluster.dump("head", "head:6379")
    finally:
        cluster.run("node2", "pkill", "-CONT", "-x", "raylet")
    assert hosts_of(dump, "worker") == {"head", "node1"}
    [note] = [note for note in dump["notes"] if note.startswith("node2 (Ray node ")]
    assert "no process of Ray came up on it" in note or "given it up" in note


def test_a_node_that_was_killed_is_named(cluster: Cluster) -> None:
    docker("kill", cluster.containers.pop("node2"))
    dump = cluster.dump("head", "head:6379")
    assert hosts_of(dump, "worker") == {"head", "node1"}
    assert any(note.startswith("node2 (Ray node ") for note in dump["notes"]), dump["notes"]
