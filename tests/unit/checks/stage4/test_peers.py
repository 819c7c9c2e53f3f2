"""Only this user's own processes are served where a server's key is put in for them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from harness.checks.stage4 import peers

WAYS = [peers._asked, peers._looked_up]
Way = Callable[[tuple[str, int], tuple[str, int]], int | None]
_CONNECTS = """
import os, socket, sys
os.setuid(int(sys.argv[2]))  # from here on nothing can be imported from a home of root's
connection = socket.socket()
connection.connect(("127.0.0.1", int(sys.argv[1])))
sys.stdin.read()
"""


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        found.settimeout(60)  # a child that can't connect
        yield found


@pytest.mark.parametrize("way", WAYS)
def test_an_open_connections_owner(way: Way, listening: socket.socket) -> None:
    with socket.create_connection(listening.getsockname()), listening.accept()[0] as ours:
        assert way(ours.getpeername(), ours.getsockname()) == os.getuid()
        assert peers.is_ours(ours.getpeername(), ours.getsockname())


@pytest.mark.parametrize("way", WAYS)
def test_one_that_is_not_there(way: Way) -> None:
    assert way(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
    assert not peers.is_ours(("127.0.0.1", 1), ("127.0.0.1", 2))
    assert not peers.is_ours(None, None)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("way", WAYS)
def test_somebody_elses(way: Way, listening: socket.socket) -> None:
    port = str(listening.getsockname()[1])
    other = subprocess.Popen([sys.executable, "-c", _CONNECTS, port, "4321"], stdin=subprocess.PIPE)
    try:
        with listening.accept()[0] as ours:
            assert way(ours.getpeername(), ours.getsockname()) == 4321
            assert not peers.is_ours(ours.getpeername(), ours.getsockname())
    finally:
        other.communicate()


def test_where_the_kernel_cannot_be_asked_its_table_is_read(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(peers, "_asked", refused)
    with socket.create_connection(listening.getsockname()), listening.accept()[0] as ours:
        assert peers.is_ours(ours.getpeername(), ours.getsockname())
