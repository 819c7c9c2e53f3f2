"""Ports that somebody has, and a workspace that the containers can't write into."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import PortTaken
from harness.stack import guard
from harness.stack.plan import closed, unwritable


def test_a_taken_port_names_the_container_that_has_it_and_all_are_told_at_once() -> None:
    with socket.socket() as one, socket.socket() as other:
        ports = []
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
            each.listen()
            ports.append(each.getsockname()[1])
        holder: Any = SimpleNamespace(name="theirs-inference-1", project="theirs", published_ports=(ports[0],))
        with pytest.raises(PortTaken) as raised:
            guard.ports_free({"PORT": ports[0], "DASHBOARD_PORT": ports[1]}, lambda: [holder])
    assert f"PORT={ports[0]} is taken by the container theirs-inference-1 of the Compose project theirs" in (
        raised.value.what
    )
    assert f"DASHBOARD_PORT={ports[1]} is taken" in raised.value.what
    # One command that goes through, not two of which each fails at the other's port.
    (command,) = raised.value.mend.splitlines()
    given = dict(part.split("=") for part in command.split() if "=" in part)
    assert command.startswith("make up ")
    assert set(given) == {"PORT", "DASHBOARD_PORT"}
    assert len({*given.values(), *map(str, ports)}) == 4


def test_one_taken_port_is_told_with_whom_to_end() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        port = one.getsockname()[1]
        holder: Any = SimpleNamespace(name="theirs-inference-1", project="theirs", published_ports=(port,))
        with pytest.raises(PortTaken) as raised:
            guard.ports_free({"PORT": port}, lambda: [holder])
    assert "docker stop theirs-inference-1" in raised.value.mend


def test_a_folder_of_roots_can_not_be_written_by_the_containers_user(tmp_path: Path) -> None:
    owner = tmp_path.stat().st_uid
    tmp_path.chmod(0o755)
    assert "may not write" in unwritable(tmp_path, owner + 1000, 99999)
    assert unwritable(tmp_path, owner, 99999) == ""
    tmp_path.chmod(0o777)
    assert unwritable(tmp_path, owner + 1000, 99999) == ""
    assert unwritable(tmp_path / "absent", 1000, 1000) == ""


@pytest.mark.parametrize(
    ("mode", "owners", "groups", "others"),
    [(0o755, False, False, False), (0o700, False, True, True), (0o750, False, False, True), (0o711, False, True, True),
     (0o744, False, True, True), (0o000, True, True, True), (0o077, True, False, False)],
)  # fmt: skip
def test_a_folder_that_the_containers_user_may_not_enter(
    tmp_path: Path, mode: int, owners: bool, groups: bool, others: bool
) -> None:
    uid, gid = tmp_path.stat().st_uid or 1000, tmp_path.stat().st_gid
    folder = tmp_path / "workspace"
    folder.mkdir()
    if tmp_path.stat().st_uid == 0:
        os.chown(folder, uid, gid)
    folder.chmod(mode)
    try:
        assert (closed(folder, uid, gid + 1), closed(folder, uid + 1, gid), closed(folder, uid + 1, gid + 1)) == (
            owners,
            groups,
            others,
        )
        assert not closed(folder, 0, 0)
        assert not closed(tmp_path / "absent", 1000, 1000)
    finally:
        folder.chmod(0o755)
