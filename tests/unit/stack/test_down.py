"""`down` tries again where a busy engine doesn't hear of a container's end, and gives up in the end."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from harness.errors import ComposeFailed
from harness.settings import load_settings
from harness.stack import down

# The first calls fail, as many as the file says.
DOCKER = """#!/bin/sh
echo "$@" >> {folder}/calls
[ "$(wc -l < {folder}/calls)" -gt "$(cat {folder}/failures)" ] && exit 0
echo "tried to kill container, but did not receive an exit event" >&2
exit 1
"""


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> mock.Mock:
    """An engine without containers, and a docker that is slow to end them."""
    program = tmp_path / "bin/docker"
    program.parent.mkdir()
    program.write_text(DOCKER.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("DRYDOCK_HOME", str(tmp_path))
    for name in ("samplers.remove", "beside.remove_left"):
        monkeypatch.setattr(f"harness.stack.down.{name}", lambda client, project: None)
    monkeypatch.setattr("harness.docker_engine.containers", lambda client, project: [])
    found = mock.Mock()
    found.containers.list.return_value = []
    return found


@pytest.mark.parametrize("failures", [0, 1, down.TRIES - 1])
def test_it_tries_again(client: mock.Mock, tmp_path: Path, failures: int) -> None:
    (tmp_path / "failures").write_text(str(failures))
    assert down.down(client, load_settings(environ={"PROJECT": "p"})) == []
    assert len((tmp_path / "calls").read_text().splitlines()) == failures + 1


def test_it_gives_up_in_the_end(client: mock.Mock, tmp_path: Path) -> None:
    (tmp_path / "failures").write_text("99")
    with pytest.raises(ComposeFailed) as caught:
        down.down(client, load_settings(environ={"PROJECT": "p"}))
    assert "exit event" in caught.value.logs
    assert len((tmp_path / "calls").read_text().splitlines()) == down.TRIES
