"""Docker's address pools and this machine's routes."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network as Net

import pytest

from harness.doctor.topics.docker_networks import (
    BUILT_IN,
    DockerNetwork,
    Networks,
    Route,
    decide,
    left,
    pools_of,
    read_routes,
)

BRIDGE = DockerNetwork("bridge", (Net("172.17.0.0/16"),), "docker0")
OURS = DockerNetwork("drydock_default", (Net("172.18.0.0/16"),), "br-1", "drydock")
THEIRS = DockerNetwork("shop_default", (Net("172.19.0.0/16"),), "br-2", "shop")
LAN = Route(Net("192.168.1.0/24"), "eth0")
GOOD = Networks(
    (BRIDGE, OURS),
    (LAN, Route(Net("172.17.0.0/16"), "docker0"), Route(Net("172.18.0.0/16"), "br-1")),
)


def signs(found: Networks) -> list[str]:
    return [finding.sign for finding in decide(found, "drydock")]


def test_a_usual_machine_is_fine() -> None:
    (finding,) = decide(GOOD, "drydock")
    # 15 + 16, without the two that are taken and the part of the local network's.
    assert finding.text == "2 networks, none collides with a route, room for 28 more"


def test_a_vpn_that_goes_where_our_network_is() -> None:
    (finding,) = decide(replace(GOOD, routes=(*GOOD.routes, Route(Net("172.16.0.0/12"), "tun0"))), "drydock")[:1]
    wrong = [f for f in decide(replace(GOOD, routes=(*GOOD.routes, Route(Net("172.18.4.0/24"), "tun0"))), "drydock")]
    assert finding.sign == "warn"
    assert "network bridge" in finding.text
    assert [f.sign for f in wrong] == ["bad"]
    assert "drydock_default (172.18.0.0/16) collides with the route to 172.18.4.0/24 by tun0" in wrong[0].text
    assert wrong[0].mend.startswith("make down up")


def test_anothers_collision_is_only_told() -> None:
    found = replace(GOOD, networks=(BRIDGE, THEIRS), routes=(Route(Net("172.19.0.0/16"), "wg0"),))
    (finding,) = decide(found, "drydock")
    assert finding.sign == "warn"
    assert finding.mend.startswith("docker network rm shop_default")


def full(count: int) -> Networks:
    """A pool for four networks, of which so many are taken by somebody."""
    taken = tuple(
        DockerNetwork(f"n{number}", (Net(f"10.9.{number}.0/24"),), f"br-n{number}") for number in range(count)
    )
    return Networks(taken, (), ((Net("10.9.0.0/22"), 24),))


@pytest.mark.parametrize(("count", "expected"), [(0, ["ok"]), (2, ["warn"]), (4, ["bad"])])
def test_addresses_run_out(count: int, expected: list[str]) -> None:
    assert signs(full(count)) == expected


def test_a_full_pool_stops_nobody_who_has_a_network_already() -> None:
    found = full(4)
    mine = replace(found.networks[0], project="drydock")
    assert signs(replace(found, networks=(mine, *found.networks[1:]))) == ["warn"]


def test_a_kernel_that_forwards_nothing() -> None:
    (finding,) = decide(replace(GOOD, forwards=False), "drydock")
    assert finding.sign == "bad"
    assert "ip_forward" in finding.mend


def test_the_engines_own_warnings_are_passed_on() -> None:
    found = decide(replace(GOOD, warnings=("WARNING: No swap limit support",)), "drydock")
    assert found[-1].text == "The engine warns: No swap limit support"


def test_what_is_left_counts_networks_of_other_sizes() -> None:
    assert left(BUILT_IN, ()) == 31
    assert left(BUILT_IN, (Net("172.16.0.0/12"),)) == 16
    assert left(BUILT_IN, (Net("192.168.0.0/19"),)) == 29
    assert left(BUILT_IN, (Net("10.0.0.0/8"),)) == 31


def test_configured_pools_replace_the_built_in_ones() -> None:
    assert pools_of([{"Base": "10.201.0.0/16", "Size": 24}]) == ((Net("10.201.0.0/16"), 24),)
    assert pools_of([]) == BUILT_IN


def test_routes_are_read() -> None:
    table = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    )
    assert read_routes(table) == (LAN,)
