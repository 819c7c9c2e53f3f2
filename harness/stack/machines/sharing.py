"""The head's side on its machine: its ports are free, and which nodes there are."""

from __future__ import annotations

import errno
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from harness.docker_engine import Container
from harness.errors import BadSetting, PortTaken
from harness.stack import guard
from harness.stack.expected import Expected
from harness.stack.plan import Plan

TRY_SECONDS = 1.5
ASK_SECONDS = 5.0


@dataclass(frozen=True)
class Node:
    """A node of the cluster.

    Attributes:
        state: ``alive``; ``silent``: Ray hasn't given it up yet, and it can't be reached; ``dead``: Ray has.
    """

    ip: str
    host: str
    state: str

    def as_dict(self) -> dict[str, str]:
        """For ``--json``."""
        return {"ip": self.ip, "host": self.host, "state": self.state}


def runs(mine: Iterable[Container]) -> bool:
    """Whether a ``dev`` of ours runs in this machine's network, and so holds the ports itself."""
    return any(one.service == "dev" and one.running and not one.published_ports for one in mine)


def check_ports(plan: Plan, mine: Iterable[Container]) -> None:
    """Refuse an address that isn't this machine's, and ports that somebody else holds there.

    Raises:
        BadSetting, PortTaken: and which.
    """
    settings, held = plan.settings, runs(mine)
    for port in () if held else range(settings.ray_port, plan.ports.client + 1):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((settings.share, port))
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    raise BadSetting(
                        f"SHARE={settings.share} is no address of this machine.",
                        mend="ip -brief address   # lists them",
                    ) from None
                raise PortTaken(
                    f"Port {port} of {settings.share} is taken by {guard.port_holder(port)}; Ray takes "
                    f"{settings.ray_port} to {plan.ports.client} (RAY_PORT=).",
                    mend=f"make up SHARE={settings.share} RAY_PORT={settings.ray_port + 100}   # or end that program",
                ) from None


def nodes(expected: Expected, *, node_manager: int) -> list[Node]:
    """Gather: every node that the head knows, each also tried directly, since Ray takes its time to give one up.

    The newest of each address: a node that has joined again is another one to Ray.
    """
    url = f"http://127.0.0.1:{expected.dashboard_port}/nodes?view=summary"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {expected.key('ray_token')}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=ASK_SECONDS) as answer:
            summary = json.load(answer)["data"]["summary"]
    except (OSError, urllib.error.URLError, ValueError, KeyError, TypeError):
        return []
    found = newest(summary)
    alive = [one for one in found if one.state == "alive"]
    with ThreadPoolExecutor(max_workers=64) as pool:
        silent = {
            one.ip
            for one, answers in zip(alive, pool.map(lambda one: _answers(one.ip, node_manager), alive), strict=True)
            if not answers
        }
    return [Node(one.ip, one.host, "silent" if one.ip in silent else one.state) for one in found]


def newest(summary: list[dict[str, Any]]) -> list[Node]:
    """Decide: one node for each address, the one that lives, if any does."""
    found: dict[str, Node] = {}
    for one in summary:
        raylet = one.get("raylet") or {}
        # One that ended before it had told anything of itself has no more than the address at which it had registered.
        ip = str(one.get("ip") or raylet.get("nodeManagerAddress") or "")
        alive = raylet.get("state") == "ALIVE"
        if ip and (alive or ip not in found):
            found[ip] = Node(ip, str(one.get("hostname") or ""), "alive" if alive else "dead")
    return sorted(
        found.values(), key=lambda node: tuple(int(part) if part.isdecimal() else 0 for part in node.ip.split("."))
    )


def _answers(ip: str, port: int) -> bool:
    try:
        socket.create_connection((ip, port), timeout=TRY_SECONDS).close()
    except OSError:
        return False
    return True
