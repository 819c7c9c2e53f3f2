"""A Ray cluster of three containers, none of them Drydock's stack; another one beside it; and a job that hangs."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness import docker_engine
from harness.settings import load_settings
from harness.stack.images import ensure_images
from tests.support.harness import docker, own_project, wait_for

# Fills every CPU with actors that wait for ever, asks for one more that fits nowhere, and says when all is so.
JOB = """
import ray, threading, time
ray.init()
@ray.remote(num_cpus=1)
class Trainer:
    def ping(self): pass
    def step(self): threading.Event().wait()
@ray.remote(num_cpus=64)
class TooLarge:
    def step(self): pass
trainers = [Trainer.remote() for _ in range(int(ray.cluster_resources()["CPU"]))]
ray.get([trainer.ping.remote() for trainer in trainers])
steps = [trainer.step.remote() for trainer in trainers]
large = TooLarge.remote()
steps.append(large.step.remote())
while not any(actor["State"] == "PENDING_CREATION" for actor in ray._private.state.actors().values()):
    time.sleep(0.1)
print("ready", flush=True)
for step in steps:
    try:
        ray.get(step)
    except ray.exceptions.RayError:
        pass  # its node is gone; the job goes on, and so there is something to look at
"""


@dataclass
class Cluster:
    """Containers by the name that they have on their network."""

    network: str
    image: str
    token: Path
    containers: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, role: str, head: str) -> None:
        """Start one node."""
        self.containers[name] = docker(
            # On a busy machine Ray itself gives up on a node after 30 s.
            "run", "--detach", "--restart", "on-failure:5", "--init", "--shm-size", "256m",
            "--network", self.network, "--network-alias", name,
            "--hostname", name, "--name", f"{self.network}-{name}", "--cap-drop", "ALL",
            "--security-opt", "no-new-privileges:true", "--env", "DRYDOCK_RAY_CPUS=1",
            "--env", f"RAY_ADDRESS={head}:6379",
            "--mount", f"type=bind,source={self.token},target=/run/secrets/ray_token,readonly", self.image, role,
        ).strip()  # fmt: skip

    def run(self, name: str, *command: str, check: bool = True) -> str:
        """Run a command on a node; returns what it prints."""
        return docker("exec", self.containers[name], "/opt/drydock/with-env", *command, check=check)

    def whole(self, head: str, nodes: int) -> bool:
        """Whether a head counts as many nodes."""
        health = ("env", f"DRYDOCK_RAY_NODES={nodes}", "/opt/drydock/ray-health")
        return f"{nodes} of {nodes}" in self.run(head, *health, check=False)

    def dump(self, name: str, address: str, *more: str) -> dict[str, Any]:
        """Run ``hang-dump`` on a node as a person does who has just a shell there."""
        printed = self.run(name, "env", "RUNS=/tmp/runs", "harness", "hang-dump", "--ray-address", address, "--json",
                           "--gap", "0.5", *more, check=False)  # fmt: skip
        found: dict[str, Any] = json.loads(printed)
        return found

    def jobs(self, name: str) -> list[str]:
        """Every job that a head has ever had."""
        program = (
            "import ray; ray.init(log_to_driver=False, logging_level='ERROR');"
            "print(sorted(job['JobID'] for job in ray._private.state.jobs()))"
        )
        return self.run(name, "python", "-c", program).split()

    def left_behind(self) -> list[str]:
        """Files and processes of a dump that are still on any node."""
        found = []
        for name in self.containers:
            script = (
                "ls -d /tmp/drydock-* /dev/shm/drydock-* 2>/dev/null;"
                " grep -alE '[s]ampler.pyz|[r]ay_cluster/driver|^ray::[d]rydock' /proc/[0-9]*/cmdline 2>/dev/null"
            )
            found += [f"{name}: {line}" for line in self.run(name, "sh", "-c", script, check=False).splitlines()]
        return found


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes with a CPU each, all taken by a job that hangs; ``other`` is the head of somebody else's cluster."""
    token = tmp_path_factory.mktemp("ray") / "token"
    token.write_text(secrets.token_hex(32))
    token.chmod(0o644)
    network = own_project("hang-ray")
    _remove(network)
    docker("network", "create", network)
    made = Cluster(network, ensure_images(docker_engine.connect(), load_settings()).dev, token)
    try:
        made.add("head", "head", "head")
        # One after the other: nodes that start at once on a busy machine run into Ray's own time limits.
        wait_for("the head", lambda: made.whole("head", 1), 300)
        made.add("node1", "worker", "head")
        made.add("node2", "worker", "head")
        wait_for("three nodes", lambda: made.whole("head", 3), 300)
        made.add("other", "head", "other")
        wait_for("the other cluster", lambda: made.whole("other", 1), 300)
        docker("exec", "--detach", made.containers["node1"], "/opt/drydock/with-env", "sh", "-c",
               f"cd /tmp && cat > job.py <<'END'\n{JOB}\nEND\npython job.py > job.log 2>&1")  # fmt: skip
        wait_for("the job to hang", lambda: "ready" in made.run("node1", "cat", "/tmp/job.log", check=False), 300)
        yield made
    finally:
        _remove(network)


def _remove(network: str) -> None:
    listing = docker("ps", "-aq", "--filter", f"network={network}", check=False).split()
    if listing:
        docker("rm", "--force", *listing, check=False)
    docker("network", "rm", network, check=False)
