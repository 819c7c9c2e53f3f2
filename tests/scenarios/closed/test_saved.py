"""`make save`, then `make load up check` with an engine of its own and in a network without any route."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest

from tests.support.harness import CLONE, wait_for

# Saves and loads a gigabyte, and starts a Docker daemon.
pytestmark = [pytest.mark.slow, pytest.mark.docker]


@dataclass
class Closed:
    """A machine without a network, as far as programs can tell: no route, a home and an engine of its own."""

    pid: int
    host: str
    home: Path

    def run(self, *command: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a command there."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "DOCKER_HOST": self.host,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_CACHE_DIR": "1",
        }
        inside = ["nsenter", f"--net=/proc/{self.pid}/ns/net", *command]
        return subprocess.run(inside, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Closed]:
    if os.geteuid() != 0 or not shutil.which("dockerd") or not shutil.which("nsenter"):
        pytest.skip("only root can make a network without routes and start an engine in it")
    (tmp_path / "home").mkdir()
    host = f"unix://{tmp_path}/sock"
    daemon = ["dockerd", "--host", host, "--pidfile", f"{tmp_path}/pid"]
    daemon += ["--data-root", f"{tmp_path}/root", "--exec-root", f"{tmp_path}/exec"]
    up = 'ip link set lo up && exec "$@"'
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(["unshare", "--net", "sh", "-c", up, "sh", *daemon], stdout=log, stderr=log)
    try:
        wait_for("the engine", lambda: process.poll() is not None or answers(host))
        assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
        yield Closed(process.pid, host, tmp_path / "home")
    finally:
        process.terminate()
        process.wait()
        for place in (tmp_path / "exec" / "netns").glob("*"):
            subprocess.run(["umount", str(place)], check=False, capture_output=True)


def answers(host: str) -> bool:
    try:
        return bool(docker.DockerClient(base_url=host).ping())
    except docker.errors.DockerException:
        return False


def test_a_saved_stack_is_loaded_and_checked_without_any_route(closed: Closed, tmp_path: Path) -> None:
    saved = tmp_path / "a stick" / "drydock"
    done = subprocess.run(["make", "save", f"OUT={saved}"], cwd=CLONE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=saved, check=False).returncode == 0

    assert "default" not in closed.run("ip", "route", folder=tmp_path).stdout
    clone = tmp_path / "clone"
    clone.mkdir()
    assert closed.run("tar", "-xzf", str(saved / "drydock.tar.gz"), folder=clone).returncode == 0
    loaded = closed.run("make", "load", f"FROM={saved}", folder=clone)
    assert loaded.returncode == 0, loaded.stdout + loaded.stderr
    # Neither builds anything nor asks anybody: only what was loaded is there.
    checked = closed.run("make", "up", "check", "STAGE=1-2", "THREADS=1", folder=clone)
    try:
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert "Stage 2" in checked.stdout
        assert "✗" not in checked.stdout
        again = closed.run("make", "load", f"FROM={saved}", "JSON=1", folder=clone)
        assert '"images": 0' in again.stdout
        assert '"files": 0' in again.stdout
    finally:
        down = closed.run("make", "down", folder=clone)
    assert down.returncode == 0
