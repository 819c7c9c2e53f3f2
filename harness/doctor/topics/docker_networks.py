"""Docker's networks: do their addresses collide with this machine's routes (a VPN), is one left for the stack."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.findings import Finding, bad, note, ok, warn
from harness.doctor.probing import read

Net = ipaddress.IPv4Network
# What an engine without `default-address-pools` gives to networks: 15 of the first, 16 of the second kind.
BUILT_IN = (
    *((Net(f"172.{number}.0.0/16"), 16) for number in range(17, 32)),
    (Net("192.168.0.0/16"), 20),
)
FEW_LEFT = 3


@dataclass(frozen=True)
class DockerNetwork:
    """A network of the engine's.

    Attributes:
        bridge: its interface on this machine; "" for none.
        project: the Compose project that it belongs to.
        used: containers are on it; None where that can't be seen.
    """

    name: str
    subnets: tuple[Net, ...]
    bridge: str = ""
    project: str = ""
    used: bool | None = None


@dataclass(frozen=True)
class Route:
    """A route of this machine's, the default one left out."""

    net: Net
    interface: str


@dataclass(frozen=True)
class Networks:
    """Networks, routes, and the pools that new networks are taken from: each with the length of what is taken."""

    networks: tuple[DockerNetwork, ...] = ()
    routes: tuple[Route, ...] = ()
    pools: tuple[tuple[Net, int], ...] = BUILT_IN
    forwards: bool = True
    warnings: tuple[str, ...] = field(default=())


def gather(client: Any, *, our_routes: bool) -> Networks:
    """Ask the engine; ``our_routes``: it runs on this machine, whose routes count."""
    info = client.info()
    return Networks(
        networks=tuple(_network(attrs) for attrs in client.api.networks()),
        routes=read_routes(read("/proc/net/route")) if our_routes else (),
        pools=pools_of(info.get("DefaultAddressPools") or []),
        forwards=info.get("IPv4Forwarding", True),
        warnings=tuple(info.get("Warnings") or ()),
    )


def _network(attrs: dict[str, Any]) -> DockerNetwork:
    options = attrs.get("Options") or {}
    bridge = options.get("com.docker.network.bridge.name", "")
    if not bridge and attrs.get("Driver") == "bridge":
        bridge = f"br-{attrs['Id'][:12]}"
    texts = [config.get("Subnet", "") for config in (attrs.get("IPAM") or {}).get("Config") or []]
    return DockerNetwork(
        attrs.get("Name", ""),
        tuple(net for net in map(as_net, texts) if net is not None),
        bridge,
        (attrs.get("Labels") or {}).get("com.docker.compose.project", ""),
    )


def as_net(text: str) -> Net | None:
    """An IPv4 network, None for anything else: IPv6 collides with nobody here."""
    try:
        return Net(text, strict=False)
    except ValueError:
        return None


def read_routes(table: str) -> tuple[Route, ...]:
    """The routes in /proc/net/route, whose numbers are in the processor's byte order; without the default one."""
    routes = []
    for line in table.splitlines()[1:]:
        parts = line.split()
        try:
            address, mask = (socket.inet_ntoa(struct.pack("=I", int(parts[place], 16))) for place in (1, 7))
            if mask != "0.0.0.0":
                routes.append(Route(Net(f"{address}/{mask}", strict=False), parts[0]))
        except (IndexError, ValueError, struct.error):
            continue  # no route
    return tuple(routes)


def pools_of(configured: Any) -> tuple[tuple[Net, int], ...]:
    """The pools that the daemon's configuration names, else those that are built in."""
    listed = configured if isinstance(configured, list) else []
    pools = [(as_net(str(pool.get("Base", ""))), pool.get("Size")) for pool in listed if isinstance(pool, dict)]
    usable = [(net, size) for net, size in pools if net is not None and isinstance(size, int)]
    return tuple((net, size) for net, size in usable if net.prefixlen <= size <= net.max_prefixlen) or BUILT_IN


def left(pools: Sequence[tuple[Net, int]], taken: Sequence[Net]) -> int:
    """How many more networks fit."""
    count = 0
    for pool, size in pools:
        inside = [net for net in taken if net.overlaps(pool)]
        # Networks of a pool are equal in size, so whoever overlaps takes whole ones.
        blocked: set[int] = set()
        for net in inside:
            first = max(int(net.network_address), int(pool.network_address))
            last = min(int(net.broadcast_address), int(pool.broadcast_address))
            step = 1 << (32 - size)
            blocked.update(range(first // step, last // step + 1))
        count += (1 << (size - pool.prefixlen)) - len(blocked)
    return count


def decide(found: Networks, project: str) -> list[Finding]:
    """Collisions first, then room for one more network; ``project``: the stack's, which needs one."""
    findings = [_collision(network, route, project) for network, route in collisions(found)]
    mine = any(network.project == project for network in found.networks)
    taken = [net for network in found.networks for net in network.subnets] + [route.net for route in found.routes]
    room = left(found.pools, taken)
    mend = (
        "docker network ls   # then: docker network rm NAME for those that nobody needs\n"
        """in /etc/docker/daemon.json: "default-address-pools": [{"base": "10.201.0.0/16", "size": 24}]"""
    )
    if room == 0 and not mine:
        findings.append(
            bad(
                f"All addresses that Docker gives to networks are taken ({len(found.networks)} networks).",
                "`make up` fails: “could not find an available, non-overlapping IPv4 address pool”.",
                mend,
            )
        )
    elif room < FEW_LEFT:
        findings.append(
            warn(
                f"Docker has addresses for {room} more network{'s' * (room != 1)} only.",
                "Each stack and each test run takes one; then `make up` fails.",
                mend,
            )
        )
    if not found.forwards:
        findings.append(
            bad(
                "The kernel forwards no packets (net.ipv4.ip_forward is 0).",
                "Containers reach nothing outside, so images can't be built and agents call nobody.",
                "sudo sysctl net.ipv4.ip_forward=1",
            )
        )
    findings += [note(f"The engine warns: {text.removeprefix('WARNING: ')}") for text in found.warnings]
    if not any(finding.sign in ("bad", "warn") for finding in findings):
        findings.insert(0, ok(f"{len(found.networks)} networks, none collides with a route, room for {room} more"))
    return findings


def collisions(found: Networks) -> list[tuple[DockerNetwork, Route]]:
    """Networks that have addresses to which this machine has another way."""
    bridges = {network.bridge for network in found.networks}
    return [
        (network, route)
        for network in found.networks
        for route in found.routes
        if route.interface not in bridges
        and route.interface != "docker0"
        and any(net.overlaps(route.net) for net in network.subnets)
    ]


def _collision(network: DockerNetwork, route: Route, project: str) -> Finding:
    ours = network.project == project
    subnets = ", ".join(map(str, network.subnets))
    text = f"Docker's network {network.name} ({subnets}) collides with the route to {route.net} by {route.interface}."
    consequence = f"What is behind {route.interface} (a VPN?) can't be reached from containers, or not at all."
    if ours:
        return bad(text, consequence, "make down up   # takes other addresses, now that the route is known")
    return warn(
        text,
        consequence,
        f"docker network rm {network.name}   # if nobody needs it; made anew it gets other addresses",
    )


def _networks(context: Context) -> list[Finding]:
    engine = context.engine()
    if not engine.answers or not context.runs_stacks:
        return []
    return decide(gather(engine.client, our_routes=engine.shares_our_files), context.settings.project)


CHECKS = (Check("docker.networks", _networks),)
