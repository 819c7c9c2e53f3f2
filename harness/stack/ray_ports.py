"""Which ports a cluster over several machines uses; pure. A firewall can only be told what is fixed.

Ray would choose most of them anew at each start. ``python -m harness.stack.ray_ports head|node PORT`` prints as
lines of shell what docker/dev/entrypoint.sh needs, where Compose hasn't told it.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass

# Of Ray's worker processes; one each. Ray tries a port before it hands it out.
WORKERS = range(10002, 11002)
# As in harness/breakpoints/inside: debugpy itself, and the threads that answer who is paused.
DEBUGGERS = range(21000, 21512)
AGENTS = range(21512, 22024)
# How many ports from RAY_PORT on are taken.
BLOCK = 10


@dataclass(frozen=True)
class Ports:
    """The ports from ``RAY_PORT`` on, in their order."""

    base: int

    @property
    def control(self) -> int:
        return self.base

    @property
    def meeting(self) -> int:
        return self.base + 1

    @property
    def node_manager(self) -> int:
        return self.base + 2

    @property
    def object_manager(self) -> int:
        return self.base + 3

    @property
    def runtime_env(self) -> int:
        return self.base + 4

    @property
    def agent_grpc(self) -> int:
        return self.base + 5

    @property
    def agent_http(self) -> int:
        return self.base + 6

    @property
    def metrics(self) -> int:
        return self.base + 7

    @property
    def dashboard(self) -> int:
        return self.base + 8

    @property
    def client(self) -> int:
        return self.base + 9

    @property
    def of_every_node(self) -> tuple[int, ...]:
        """Where each node listens for the others, whatever runs on it."""
        return (self.node_manager, self.object_manager, self.agent_grpc, self.agent_http)

    def of_node(self) -> str:
        """What ``ray start`` is told on every node."""
        return (
            f"--node-manager-port {self.node_manager} --object-manager-port {self.object_manager} "
            f"--runtime-env-agent-port {self.runtime_env} --dashboard-agent-grpc-port {self.agent_grpc} "
            f"--dashboard-agent-listen-port {self.agent_http} --metrics-export-port {self.metrics} "
            f"--min-worker-port {WORKERS.start} --max-worker-port {WORKERS.stop - 1}"
        )

    def of_head(self) -> str:
        """What it is told on the head beside that. The dashboard listens on the loopback, behind its gate."""
        return (
            f"--port {self.control} --dashboard-host 127.0.0.1 --dashboard-port {self.dashboard} "
            f"--ray-client-server-port {self.client}"
        )


@dataclass(frozen=True)
class Row:
    """One line for a firewall.

    Attributes:
        to: ``head``, ``every node``, ``none``.
        asks: what whoever connects has to know; "nothing" is what to be careful with.
    """

    ports: str
    to: str
    what: str
    asks: str

    def as_dict(self) -> dict[str, str]:
        """For ``--json``."""
        return {"ports": self.ports, "to": self.to, "what": self.what, "asks": self.asks}


def table(ports: Ports, serving: int) -> list[Row]:
    """What a firewall has to let through between the machines; all of it is TCP.

    Args:
        serving: port of the inference server.
    """
    return [
        Row(str(ports.control), "head", "Ray's control store", "token"),
        Row(str(ports.meeting), "head", "a node asks what the head is, before it joins", "token"),
        Row(str(serving), "head", "inference server", "its key"),
        Row(str(ports.client), "head", "drivers elsewhere that use ray://; else not needed", "token"),
        Row(f"{ports.node_manager}-{ports.object_manager}", "every node", "Ray: tasks, objects", "token"),
        Row(f"{ports.agent_grpc}-{ports.agent_http}", "every node", "Ray: logs, metrics of a node", "token"),
        Row(f"{WORKERS.start}-{WORKERS.stop - 1}", "every node", "Ray's worker processes, between themselves", "token"),
        Row(f"{AGENTS.start}-{AGENTS.stop - 1}", "every node", "who is paused, log points", "proof of the token"),
        Row(f"{DEBUGGERS.start}-{DEBUGGERS.stop - 1}", "every node", "debugpy, while something is paused", "nothing"),
        Row("all", "every node", "what training opens by itself: NCCL, gloo, torchrun", "nothing"),
    ]


def head_address(text: str) -> tuple[str, int]:
    """``HEAD=HOST:PORT`` in its parts; the port may be left out.

    Raises:
        ValueError: it is no such thing.
    """
    host, colon, port = text.strip().rpartition(":")
    if not colon:
        host, port = port, "6379"
    host = host.strip("[]")
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535 - BLOCK:
        raise ValueError(f"{text} is not HOST:PORT")
    return host, int(port)


def told(role: str, ports: Ports) -> dict[str, str]:
    """The variables of docker/dev/entrypoint.sh that say which ports a head or a node takes."""
    if role == "node":
        return {"DRYDOCK_RAY_FLAGS": ports.of_node()}
    return {
        "DRYDOCK_RAY_FLAGS": f"{ports.of_head()} {ports.of_node()}",
        "DRYDOCK_MEETING_PORT": str(ports.meeting),
        "DRYDOCK_INNER_DASHBOARD_PORT": str(ports.dashboard),
    }


if __name__ == "__main__":
    for name, value in told(sys.argv[1], Ports(int(sys.argv[2]))).items():
        print(f"export {name}={shlex.quote(value)}")  # noqa: T201
