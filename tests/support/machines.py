"""Machines with a network of their own, on this one: each can be cut off, slowed and brought back.

A machine is a container that does nothing, without a network of Docker's; a pair of virtual cables leads from its
network into a bridge here. A node's container joins that network (NODE_NETWORK=container:NAME).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.harness import CLONE, Ended, Stack, docker, free_port, wait_for

PROGRAM = CLONE / "tests" / "scenarios" / "machines" / "ranks.py"
# Machines that start a Ray node at once on few cores run into Ray's own time limits.
WAIT = "900"

ROOT = () if os.geteuid() == 0 else ("sudo", "-n")


def run(*command: str, check: bool = True) -> str:
    """Run a command as root; returns what it prints."""
    done = subprocess.run([*ROOT, *command], capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


@dataclass
class Machine:
    """One of them."""

    name: str
    address: str
    cable: str  # its end on this machine

    @property
    def host(self) -> str:
        """Its host name."""
        return f"machine{self.address.rpartition('.')[2]}"

    def inside(self, *command: str) -> str:
        """Run a program of this machine's in that one's network; returns what it prints."""
        pid = json.loads(docker("inspect", self.name))[0]["State"]["Pid"]
        return run("nsenter", "--target", str(pid), "--net", *command)

    @property
    def network(self) -> str:
        """For NODE_NETWORK."""
        return f"container:{self.name}"

    def cut_off(self) -> None:
        """Pull the cable."""
        run("ip", "link", "set", self.cable, "down")

    def plug_in(self) -> None:
        """Put it back."""
        run("ip", "link", "set", self.cable, "up")

    def slow(self, rate: str = "", loss: float = 0) -> None:
        """Let only so much through to it, as ``tc`` writes a rate, and lose a part of the packets; nothing: as ever.

        Not by netem, which not every kernel has: a token bucket queues, and a rule of its firewall loses.
        """
        run("tc", "qdisc", "del", "dev", self.cable, "root", check=False)
        self.inside("iptables", "-F", "INPUT")
        if rate:
            run(
                "tc",
                "qdisc",
                "add",
                "dev",
                self.cable,
                "root",
                "tbf",
                "rate",
                rate,
                "burst",
                "16kb",
                "latency",
                "400ms",
            )
        if loss:
            random = ("-m", "statistic", "--mode", "random", "--probability", str(loss))
            self.inside("iptables", "-A", "INPUT", *random, "-j", "DROP")


@dataclass
class Lan:
    """A bridge on this machine, and the machines at it; this machine is at ``.1``.

    Attributes:
        number: of the network, 10.91.NUMBER.0/24; another for each test that runs at the same time.
    """

    prefix: str
    number: int
    machines: list[Machine] = field(default_factory=list)

    @property
    def bridge(self) -> str:
        return f"dd-lan{self.number}"

    @property
    def address(self) -> str:
        """This machine's own."""
        return f"10.91.{self.number}.1"

    def __enter__(self) -> Lan:
        self.close()
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "address", "add", f"{self.address}/24", "dev", self.bridge)
        run("ip", "link", "set", self.bridge, "up")
        # Docker lets the kernel ask iptables about bridged packets too, and then forwards none that it doesn't know.
        run("iptables", "-I", "FORWARD", *self._rule)
        return self

    @property
    def _rule(self) -> tuple[str, ...]:
        return ("-i", self.bridge, "-o", self.bridge, "-j", "ACCEPT")

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove all of it, also what a killed test left."""
        left = docker("ps", "-aq", "--filter", f"label=dev.drydock.test-lan={self.bridge}").split()
        if left:
            docker("rm", "-f", *left)
        run("ip", "link", "del", self.bridge, check=False)
        while f"-i {self.bridge} " in run("iptables", "-S", "FORWARD"):
            run("iptables", "-D", "FORWARD", *self._rule)

    def machine(self, image: str) -> Machine:
        """One more; of the image nothing but `sleep` is used."""
        host = len(self.machines) + 2
        made = Machine(f"{self.prefix}-machine{host}", f"10.91.{self.number}.{host}", f"dd{self.number}m{host}")
        docker(
            "run", "--detach", "--init", "--name", made.name, "--hostname", f"machine{host}", "--network", "none",
            "--label", f"dev.drydock.test-lan={self.bridge}", "--entrypoint", "sleep", image, "infinity",
        )  # fmt: skip
        pid = json.loads(docker("inspect", made.name))[0]["State"]["Pid"]
        run("ip", "link", "add", made.cable, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        run("ip", "link", "set", made.cable, "master", self.bridge, "up")
        inside = ("nsenter", "--target", str(pid), "--net", "ip")
        run(*inside, "address", "add", f"{made.address}/24", "dev", "eth0")
        run(*inside, "link", "set", "lo", "up")
        run(*inside, "link", "set", "eth0", "up")
        run(*inside, "route", "add", "default", "via", self.address)
        self.machines.append(made)
        return made


@dataclass
class Cluster:
    """A head and the nodes that have joined it."""

    lan: Lan
    head: Stack
    nodes: dict[str, Stack] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """For HEAD=."""
        return f"{self.lan.address}:{self.head.settings['RAY_PORT']}"

    @property
    def image(self) -> str:
        """Of the head and all nodes."""
        return docker("inspect", "--format", "{{.Config.Image}}", self.head.container("dev")).strip()

    def machine(self) -> Machine:
        """One more, which hasn't joined."""
        return self.lan.machine(self.image)

    @property
    def joined(self) -> list[Machine]:
        """Those machines that are nodes now."""
        states = self.states()
        return [machine for machine in self.lan.machines if states.get(machine.address) == "alive"]

    @property
    def token_file(self) -> Path:
        """The head's own; elsewhere it would be a copy."""
        return self.head.folder / "ray_token"

    def worker(self, machine: Machine, **settings: str) -> Ended:
        """``make worker`` on a machine."""
        node = Stack(
            project=machine.name,
            folder=self.head.folder,
            settings={
                "HEAD": self.address,
                "TOKEN_FILE": str(self.token_file),
                "NODE_NETWORK": machine.network,
                "WORKSPACE": self.head.settings["WORKSPACE"],
                "WAIT": WAIT,
            },
        )
        self.nodes[machine.name] = node
        return node.run("worker", timeout=1000, **settings)

    @contextlib.contextmanager
    def acting(self, method: str, count: int) -> Iterator[str]:
        """One actor on each of so many machines, in that method of ranks.py; its log is what is handed out."""
        alive = ["alive"] * count
        wait_for(
            "all nodes to be alive", lambda: [one for one in self.states().values() if one != "dead"] == alive, 300
        )
        dev, log = self.head.container("dev"), f"/tmp/{method}.log"
        start = f"/opt/drydock/with-env python /workspace/ranks.py {method} > {log} 2>&1 & echo $! > {log}.pid; wait"
        docker("exec", dev, "rm", "-f", log)
        docker("exec", "--detach", dev, "sh", "-c", start)
        try:
            wait_for(
                "actors on all nodes", lambda: f"ready {count}" in docker("exec", dev, "cat", log, check=False), 400
            )
            yield log
        finally:
            for machine in self.lan.machines:
                machine.slow()
                machine.plug_in()
            docker("exec", dev, "sh", "-c", f"kill $(cat {log}.pid)", check=False)

    def dump(self, *arguments: str) -> Ended:
        """A hang-dump from the host; its answer is JSON."""
        ended = self.head.run("hang-dump", "--json", *arguments)
        assert ended.code in (0, 1), str(ended)
        return ended

    def states(self) -> dict[str, str]:
        """Address to state of every node, as `make status` tells them."""
        return {node["ip"]: node["state"] for node in self.head.run("status", "--json").json()["nodes"]}

    def waiting_on(self, answer: Any) -> set[str]:
        """The machines whose actor a dump has seen where it waits."""
        standing = {number for number, group in enumerate(answer["groups"]) if "wait_for_weights" in json.dumps(group)}
        return {one["host"] for one in answer["processes"] if one["role"] == "worker" and one["group"] in standing}

    def paused(self) -> list[dict[str, Any]]:
        """Who waits at a breakpoint."""
        found: list[dict[str, Any]] = self.head.run("breakpoints", "--json").json()["paused"]
        return found

    def close(self) -> None:
        """End all of it."""
        for stack in [*self.nodes.values(), self.head]:
            stack.run("down")
        volumes = docker(
            "volume", "ls", "-q", "--filter", f"label=com.docker.compose.project={self.head.project}"
        ).split()
        if volumes:
            docker("volume", "rm", "-f", *volumes)


@contextlib.contextmanager
def cluster_of(project: str, folder: Path) -> Iterator[Cluster]:
    """A shared cluster whose head is this machine; no other has joined yet."""
    workspace = folder / "workspace"
    workspace.mkdir()
    shutil.copy(PROGRAM, workspace)
    for path in (folder, workspace, workspace / PROGRAM.name):
        path.chmod(0o755)
    number = zlib.crc32(project.encode()) % 200 + 20
    with Lan(project, number) as lan:
        settings = {
            "SHARE": lan.address,
            "RAY_PORT": str(14000 + 10 * number),
            "PORT": str(free_port()),
            "DASHBOARD_PORT": str(free_port()),
            "WORKSPACE": str(workspace),
            "WAIT": WAIT,
        }
        cluster = Cluster(lan, Stack(project, folder, settings))
        try:
            cluster.head.run("up", timeout=1800).ok()
            cluster.token_file.write_text(cluster.head.key("ray_token"))
            yield cluster
        finally:
            cluster.close()
