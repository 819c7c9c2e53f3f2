"""Machines with a network of their own, on this one: each can be cut off, slowed and brought back.

A machine is a container that does nothing, without a network of Docker's; a pair of virtual cables leads from its
network into a bridge here. A node's container joins that network (NODE_NETWORK=container:NAME).
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field

from tests.support.harness import docker


def run(*command: str, check: bool = True) -> str:
    """Run a command as root; returns what it prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


@dataclass
class Machine:
    """One of them."""

    name: str
    address: str
    cable: str  # its end on this machine

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

    def slow(self, *how: str) -> None:
        """Make what comes to it late or lossy, as ``tc netem`` takes it; nothing: as fast as ever."""
        run("tc", "qdisc", "del", "dev", self.cable, "root", check=False)
        if how:
            run("tc", "qdisc", "add", "dev", self.cable, "root", "netem", *how)


@dataclass
class Lan:
    """A bridge on this machine, and the machines at it; this machine is at ``.1``.

    Attributes:
        number: of the network, 10.91.NUMBER.0/24; another for each test that runs at the same time.
    """

    prefix: str
    number: int
    image: str
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
        while (
            subprocess.run(["iptables", "-D", "FORWARD", *self._rule], capture_output=True, check=False).returncode == 0
        ):
            pass

    def machine(self) -> Machine:
        """One more."""
        host = len(self.machines) + 2
        made = Machine(f"{self.prefix}-machine{host}", f"10.91.{self.number}.{host}", f"dd{self.number}m{host}")
        docker(
            "run", "--detach", "--init", "--name", made.name, "--hostname", f"machine{host}", "--network", "none",
            "--label", f"dev.drydock.test-lan={self.bridge}", "--entrypoint", "sleep", self.image, "infinity",
        )  # fmt: skip
        pid = json.loads(docker("inspect", made.name))[0]["State"]["Pid"]
        run("ip", "link", "add", made.cable, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        run("ip", "link", "set", made.cable, "master", self.bridge, "up")
        inside = ("nsenter", "--target", str(pid), "--net", "ip")
        run(*inside, "address", "add", f"{made.address}/24", "dev", "eth0")
        run(*inside, "link", "set", "eth0", "up")
        run(*inside, "route", "add", "default", "via", self.address)
        self.machines.append(made)
        return made
