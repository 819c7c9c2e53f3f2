"""One cluster over three machines: what is seen of it, also when one is cut off, slow, killed, or comes back."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness import CLONE, HARNESS, docker, wait_for
from tests.support.machines import PROGRAM, Cluster

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture
def ranks(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One actor on each machine, in the method that the test names."""
    with cluster.acting(request.param, 3):
        yield cluster


@pytest.mark.parametrize("ranks", ["wait_for_weights"], indirect=True)
def test_every_machine_is_dumped_and_a_cut_off_one_is_reported_not_waited_for(ranks: Cluster) -> None:
    whole = ranks.dump().json()
    assert len(ranks.waiting_on(whole)) == 3
    assert whole["state"] == "hung"
    cut = ranks.lan.machines[1]
    cut.cut_off()
    wait_for("the status to tell", lambda: ranks.states()[cut.address] != "alive", 20)
    ended = ranks.dump()
    answer = ended.json()
    assert len(ranks.waiting_on(answer)) == 2
    assert [note for note in answer["notes"] if "machine3" in note and "can't be reached" in note]
    # Ray itself takes a minute and more to notice.
    assert ended.seconds < 40
    ended = ranks.head.run("status")
    assert ended.code == 0
    assert f"{cut.address:<15} silent" in ended.stdout


@pytest.mark.parametrize("ranks", ["stop_here"], indirect=True)
def test_breakpoints_of_every_machine_are_listed_also_when_one_is_cut_off(ranks: Cluster) -> None:
    wait_for("all to be paused", lambda: len(ranks.paused()) == 3, 60)
    ranks.lan.machines[0].cut_off()
    started = time.monotonic()
    known = [one["node"] for one in ranks.paused() if one["file"].endswith("ranks.py") and one["line"]]
    assert set(known) == {ranks.lan.address, ranks.lan.machines[1].address}
    text = ranks.head.run("breakpoints").stdout
    assert f"{ranks.lan.machines[0].address} can't be reached" in " ".join(text.split())
    assert time.monotonic() - started < 40


@pytest.mark.parametrize("ranks", ["wait_for_weights"], indirect=True)
def test_a_slow_network_makes_a_dump_later_and_not_less(ranks: Cluster) -> None:
    ranks.lan.machines[0].slow("8mbit", loss=0.02)
    answer = ranks.dump().json()
    assert len(ranks.waiting_on(answer)) == 3


@pytest.mark.parametrize("ranks", ["wait_for_weights"], indirect=True)
def test_a_node_killed_in_mid_dump_is_reported_and_the_others_are_dumped(ranks: Cluster) -> None:
    machine = ranks.lan.machines[1]
    node = ranks.nodes[machine.name]
    process = subprocess.Popen(
        [str(HARNESS), "hang-dump", "--json", "--gap", "20"],
        env=ranks.head.environment(), cwd=CLONE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    container = node.container("node")
    wait_for("the sampler to run there", lambda: "sampler.pyz" in docker("top", container), 60)
    docker("kill", container)
    killed = time.monotonic()
    try:
        output, complaint = process.communicate(timeout=120)
        took = time.monotonic() - killed
        ended = node.run("status")
    finally:
        # And back again, as the same machine: other tests want three.
        again = ranks.worker(machine)
    answer = json.loads(output)
    assert len(ranks.waiting_on(answer)) == 2, answer["notes"]
    assert took < 60, complaint
    assert [note for note in answer["notes"] if "machine3" in note]
    assert ended.code == 1
    assert "exited" in ended.stdout
    again.ok()
    # Ray's dashboard lists a node some seconds after that has joined.
    wait_for("the head to list it", lambda: ranks.states()[machine.address] == "alive", 60)


@pytest.mark.parametrize("ranks", ["gets_on"], indirect=True)
def test_a_log_point_is_set_on_every_machine(ranks: Cluster) -> None:
    line = 1 + next(n for n, text in enumerate(PROGRAM.read_text().splitlines()) if "self.steps += 1" in text)
    ended = ranks.head.run("trace", AT=f"ranks.py:{line}", LOG="{self.rank}", N="60").ok()
    hits = [json.loads(hit) for hit in ended.stdout.splitlines()]
    assert {hit["text"] for hit in hits} == {"0", "1", "2"}


def test_a_task_on_every_machine_finds_the_heads_model_server(cluster: Cluster) -> None:
    with cluster.acting("asks_the_server", 3) as log:
        dev = cluster.head.container("dev")
        wait_for("answers", lambda: docker("exec", dev, "cat", log).count("was answered 200") == 3, 120)


def test_the_doctor_finds_nothing_wrong_with_a_shared_cluster_and_its_nodes(cluster: Cluster) -> None:
    topics = "docker,ports,stack,debugger,settings"
    for stack in (cluster.head, cluster.nodes[cluster.lan.machines[0].name]):
        found = stack.run("doctor", "--topic", topics, "--json").json()
        wrong = [one for one in found["findings"] if one["sign"] == "bad"]
        assert not wrong, wrong


def test_every_part_of_it_is_what_is_locked(cluster: Cluster) -> None:
    for stack in (cluster.head, cluster.nodes[cluster.lan.machines[0].name]):
        found = stack.run("verify", "--json").json()["findings"]
        assert not [one for one in found if one["state"] == "drift"], found
        assert [one["state"] for one in found if one["subject"].startswith("container ")] == ["ok"] * len(stack.ids())


def test_a_machine_that_was_given_up_joins_again_by_itself(cluster: Cluster) -> None:
    machine = cluster.lan.machines[0]
    machine.cut_off()
    wait_for("Ray to give it up", lambda: cluster.states()[machine.address] == "dead", 240)
    assert cluster.nodes[machine.name].run("status").code == 1
    machine.plug_in()
    wait_for("it to be back", lambda: cluster.states()[machine.address] == "alive", 300)
    wait_for("it to know", lambda: cluster.nodes[machine.name].run("status").code == 0, 60)


def test_the_checks_run_on_a_shared_cluster(cluster: Cluster) -> None:
    ended = cluster.head.run("check", "--stage", "1")
    assert ended.code == 0, str(ended)


def test_up_again_changes_nothing(cluster: Cluster) -> None:
    before = cluster.head.ids()
    assert "nothing was changed" in cluster.head.run("up").ok().stdout
    assert cluster.head.ids() == before


def test_ray_is_restarted_on_the_head_and_the_machines_join_again(cluster: Cluster) -> None:
    before = set(cluster.states())
    node = cluster.nodes[cluster.lan.machines[0].name].run("restart-ray")
    assert node.code != 0
    assert f"a node of {cluster.address}" in node.stderr
    answer = cluster.head.run("restart-ray", "--json").ok().json()
    assert [one for one in answer["restarted"] if "-dev-" in one]
    # On a busy machine it takes some of them longer than it waits: they are named, and try again by themselves.
    assert {one["ip"] for one in answer["missing"]} < before
    wait_for("all to be back", lambda: cluster.states() == dict.fromkeys(before, "alive"), 600)


def test_what_a_head_does_not_take_is_said(cluster: Cluster, tmp_path: Path) -> None:
    machine = cluster.machine()
    node = tmp_path / "token"
    node.write_text("0" * 64)
    wrong = cluster.worker(machine, TOKEN_FILE=str(node))
    assert wrong.code == 3
    assert "doesn't know this token" in wrong.stderr
    assert "nobody" in cluster.worker(machine, HEAD=f"{cluster.lan.address}:9000").stderr.lower()
    # The head doesn't get through to this machine: its node would join, and hang.
    manager = str(int(cluster.head.settings["RAY_PORT"]) + 2)
    machine.inside("iptables", "-A", "INPUT", "-p", "tcp", "--dport", manager, "-j", "DROP")
    closed = cluster.worker(machine)
    assert closed.code == 3
    assert f"Closed from the head to this node {machine.address}: {manager}" in closed.stderr
    assert "make ports" in closed.stderr
    assert nothing_left(machine.name)
    assert len(cluster.states()) == 3


def test_a_node_of_another_version_ends_with_the_difference(cluster: Cluster) -> None:
    image = cluster.image
    machine = cluster.lan.machines[0]
    other = f"{cluster.head.project}-other"
    change = "sed -i 's/^Version: .*/Version: 2.0.0/' /opt/venv/lib/python3*/site-packages/ray-*.dist-info/METADATA"
    docker("run", "--name", other, "--user", "0", "--entrypoint", "sh", image, "-c", change)
    try:
        docker("commit", other, f"{other}:1")
        done = subprocess.run(
            ["docker", "run", "--rm", "--user", "0", "--network", machine.network,
             "-v", f"{cluster.token_file}:/run/secrets/ray_token:ro", "-e", f"RAY_ADDRESS={cluster.address}",
             "-e", f"DRYDOCK_IMAGE={image}", "-e", "DRYDOCK_RAY_FLAGS=--num-cpus 1",
             "--entrypoint", "/opt/drydock/entrypoint.sh", f"{other}:1", "node"],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    finally:
        docker("rm", "-f", other)
        docker("rmi", "-f", f"{other}:1", check=False)
    assert done.returncode == 22, done.stderr
    assert "Ray 2.0.0 here, 2." in done.stderr


def test_down_leaves_nothing_behind(cluster: Cluster) -> None:
    machine = cluster.lan.machines[1]
    cluster.nodes[machine.name].run("down").ok()
    assert nothing_left(machine.name)
    wait_for("the head to notice", lambda: cluster.states().get(machine.address) != "alive", 120)
    cluster.worker(machine).ok()


def nothing_left(project: str) -> bool:
    """Whether a node left neither container nor volume nor a token."""
    label = f"label=com.docker.compose.project={project}"
    left = docker("ps", "-aq", "--filter", label) + docker("volume", "ls", "-q", "--filter", label)
    folder = CLONE / ".drydock" / project
    return not left and not (folder / "worker").exists() and not (folder / "worker.json").exists()
