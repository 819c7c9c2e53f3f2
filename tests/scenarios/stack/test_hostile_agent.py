"""Whatever an agent does in `dev`, the server and Ray go on, `make check` says what happened, and `make up` heals."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.harness import Ended, Stack, docker

pytestmark = pytest.mark.docker

# What a terminal obeys, but for the line's end; none of it may come through.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def hostile(up: Stack, workspace: Path) -> Iterator[Stack]:
    """The stack with these agents in its workspace; afterwards nothing but `dev` was hit, and `up` has healed that."""
    shutil.copy(Path(__file__).with_name("hostile_agents.py"), workspace / "hostile_agents.py")
    others = {name: one for name, one in up.ids().items() if name != "dev"}
    yield up
    assert {name: one for name, one in up.ids().items() if name != "dev"} == others, "another container was hit"
    up.run("up").ok()
    (workspace / "hostile_agents.py").unlink()
    # Nothing that the agents started is left.
    assert "hostile_agents" not in up.execute("dev", "ps", "-eo", "args")


def check(stack: Stack, agent: str, timeout: str = "8") -> Ended:
    return stack.run("check", AGENT=f"hostile_agents.py:{agent}", STAGE="2", TIMEOUT=timeout)


def test_escapes_reach_neither_the_terminal_nor_the_page(hostile: Stack) -> None:
    ended = check(hostile, "Escapes")
    assert ended.code == 1, ended
    assert "RuntimeError: \\x1b]0;owned" in ended.stdout
    assert not OBEYED.findall(ended.stdout + ended.stderr)
    newest = max((hostile.folder / "runs").glob("*-check"))
    page = (newest / "report.html").read_text()
    assert "<script>alert(1)" not in page
    as_json = hostile.run("check", "--json", AGENT="hostile_agents.py:Escapes", STAGE="2", TIMEOUT="8")
    assert not OBEYED.findall(as_json.stdout)
    # For a program it is the same text.
    assert "\x9b5n" in json.dumps(as_json.json(), ensure_ascii=False)
    assert not OBEYED.findall(hostile.run("runs").ok().stdout)


@pytest.mark.parametrize("agent", ["KillsItsParent", "KillsEverything"])
def test_one_that_kills_what_watches_it_is_told(hostile: Stack, agent: str) -> None:
    ended = check(hostile, agent)
    assert ended.code == 1, ended
    assert "killed (SIGKILL)" in ended.stderr
    assert "→ make up" in ended.stderr
    hostile.run("up").ok()
    assert "✓ run ends: returned" in check(hostile, "Good").stdout


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["StopsItsParent", "TracesItsNeighbours"])
def test_one_that_stops_what_watches_it_is_told_and_ended(hostile: Stack, agent: str) -> None:
    ended = check(hostile, agent)
    assert ended.code == 1, ended
    assert "stopped from outside" in ended.stderr


@pytest.mark.slow
def test_a_full_shm_is_the_agents_own_trouble(hostile: Stack) -> None:
    try:
        ended = check(hostile, "FillsShm", timeout="30")
        assert "No space left on device" in ended.stdout, ended
    finally:
        hostile.execute("dev", "rm", "-f", "/dev/shm/filled")


@pytest.fixture
def narrow(hostile: Stack) -> Iterator[Stack]:
    """Limits under which a runaway agent is at them in seconds, and the machine of the test has no trouble."""
    dev = hostile.container("dev")
    host = json.loads(docker("inspect", dev))[0]["HostConfig"]
    docker("update", "--pids-limit", "600", "--memory", "2g", "--memory-swap", "2g", dev)
    yield hostile
    again = ("--pids-limit", str(host["PidsLimit"]), "--memory", str(host["Memory"]))
    docker("update", *again, "--memory-swap", str(host["MemorySwap"]), hostile.container("dev"))


@pytest.mark.slow
def test_one_that_forks_without_end_is_ended_with_all_its_children(narrow: Stack) -> None:
    ended = check(narrow, "Forks", timeout="15")
    assert ended.code == 1, ended
    assert "✗ run ends" in ended.stdout
    assert narrow.ask("/v1/models")["data"]


@pytest.mark.slow
def test_one_that_eats_the_memory_is_killed_and_told(narrow: Stack) -> None:
    ended = check(narrow, "EatsMemory", timeout="60")
    assert ended.code == 1, ended
    assert "SIGKILL" in ended.stdout + ended.stderr
    assert narrow.ask("/v1/models")["data"]
