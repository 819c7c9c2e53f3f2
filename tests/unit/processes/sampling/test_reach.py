"""What a debugger's calls show of a process, compared with what its files of /proc say."""

from __future__ import annotations

import ctypes
import os
import socket

from harness.processes.sampling import reach


def test_the_environment_is_that_of_proc() -> None:
    with open("/proc/self/stat", "rb") as stat, open("/proc/self/environ", "rb") as environ:
        assert reach.environment(stat.read(), os.getpid()) == environ.read()


def test_memory_is_read_as_far_as_it_is_mapped() -> None:
    text = ctypes.create_string_buffer(b"here it is")
    assert reach.memory(os.getpid(), ctypes.addressof(text), 10) == b"here it is"
    assert reach.memory(os.getpid(), 8, 8) == b""
    assert reach.memory(os.getpid(), -8, 8) == b""
    assert reach.memory(1 << 21, 4096, 8) == b""


def test_a_socket_that_waits_for_connections_is_seen_and_stays_open() -> None:
    with socket.socket() as server, socket.socket() as client:
        assert not reach.listens(os.getpid(), 256)
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert reach.listens(os.getpid(), 256)
        client.connect(server.getsockname())
    assert not reach.listens(os.getpid(), 256)
    assert not reach.listens(1 << 21, 256)


def test_a_line_of_stat_that_is_cut_short_is_no_environment() -> None:
    assert reach.environment(b"1 (python) S 1", os.getpid()) == b""
