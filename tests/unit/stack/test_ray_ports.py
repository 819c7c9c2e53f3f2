"""Fixed ports, and the lines for a firewall."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from harness.breakpoints import inside
from harness.settings import Settings
from harness.stack import ray_ports as ports
from harness.stack.ray_ports import Ports, head_address, table, told


def numbers(text: str) -> set[int]:
    first, _, last = text.partition("-")
    return set(range(int(first), int(last or first) + 1)) if first.isdecimal() else set()


def test_no_two_things_share_a_port() -> None:
    one = Ports(6379)
    names = [name for name, value in inspect.getmembers(Ports) if isinstance(value, property)]
    single = [getattr(one, name) for name in names if isinstance(getattr(one, name), int)]
    assert sorted(single) == list(range(6379, 6379 + ports.BLOCK))
    ranges = [*single, *ports.WORKERS, *ports.DEBUGGERS, *ports.AGENTS]
    assert len(ranges) == len(set(ranges))


def test_the_debuggers_ranges_are_those_of_the_debugged_processes() -> None:
    assert (ports.DEBUGGERS, ports.AGENTS) == (inside.DEBUGGER_PORTS, inside.AGENT_PORTS)


def test_whatever_ray_is_told_to_listen_at_is_in_the_table() -> None:
    one = Ports(6379)
    told = {int(number) for number in re.findall(r"\d+", f"{one.of_head()} {one.of_node()}".replace("127.0.0.1", ""))}
    named = set().union(*(numbers(row.ports) for row in table(one, 8080)))
    # On the loopback only: Ray's dashboard, and what prepares a node's environments and offers its metrics here.
    assert told - named == {one.dashboard, one.runtime_env, one.metrics}
    assert {one.meeting, 8080} < named


def test_what_asks_for_nothing_is_said() -> None:
    assert next(row.what for row in table(Ports(6379), 8080) if row.asks == "nothing").startswith("debugpy")


@pytest.mark.parametrize(("text", "expected"), [("h:7000", ("h", 7000)), ("10.0.0.1", ("10.0.0.1", 6379))])
def test_a_heads_address(text: str, expected: tuple[str, int]) -> None:
    assert head_address(text) == expected


@pytest.mark.parametrize("text", ["", ":6379", "h:x", "h:0", "h:65530"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        head_address(text)


def test_the_page_has_the_table() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "machines.md").read_text()
    rows = page.partition("<!-- ports -->")[2].partition("\n\n")[0].strip().splitlines()[2:]
    settings = Settings()
    expected = table(Ports(settings.ray_port), settings.port)
    assert rows == [f"| {row.ports} | {row.to} | {row.what} | {row.asks} |" for row in expected]


def test_a_node_is_told_less_than_a_head() -> None:
    assert told("node", Ports(6379)).keys() < told("head", Ports(6379)).keys()
