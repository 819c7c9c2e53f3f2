"""What install-docker.sh would install where, and when it asks, goes on or refuses. Only a fake sudo is ever called."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"
INSTALL = str(SCRIPTS / "install-docker.sh")
APT = "apt-get install --yes --no-install-recommends"
PLUGINS = "install-docker-plugins.sh docker-compose docker-buildx"

# Distribution, release, and the packages of engine, Compose and Buildx there.
SUPPORTED = [
    ("debian", "13", "docker.io docker-cli ca-certificates docker-compose docker-buildx"),
    ("ubuntu", "22.04", "docker.io ca-certificates docker-compose-v2 docker-buildx"),
    ("ubuntu", "24.04", "docker.io ca-certificates docker-compose-v2 docker-buildx"),
]


def os_release(folder: Path, identity: str, release: str, name: str = "") -> dict[str, str]:
    """The environment that makes the script believe it is on that system."""
    path = folder / "os-release"
    path.write_text(f'PRETTY_NAME="{name or identity}"\nID={identity}\nVERSION_ID="{release}"\n')
    return {"OS_RELEASE": str(path)}


def install(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script for a machine that has nothing, without a terminal."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("DRYDOCK_", "DOCKER_"))}
    return subprocess.run(
        ["bash", INSTALL, "--assume-bare", *arguments],
        env=inherited | environment,
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def plan(*arguments: str, **environment: str) -> list[str]:
    """The plan's commands; AppArmor's parser, which depends on this machine's kernel, is left out."""
    done = install("--dry-run", *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return [line.replace(" apparmor", "") for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("identity", "release", "packages"), SUPPORTED)
def test_a_distribution_with_all_packages_needs_one_installation(
    tmp_path: Path, identity: str, release: str, packages: str
) -> None:
    assert plan(**os_release(tmp_path, identity, release)) == ["apt-get update", f"{APT} {packages}"]


def test_debian_12_takes_the_engine_from_itself_and_the_pinned_plugins(tmp_path: Path) -> None:
    update, engine, plugins = plan(**os_release(tmp_path, "debian", "12"))
    assert (update, engine) == ("apt-get update", f"{APT} docker.io ca-certificates")
    assert plugins.endswith(f"/scripts/{PLUGINS}")


@pytest.mark.parametrize(
    ("identity", "release", "extra"),
    [("debian", "12", " mmdebstrap"), ("ubuntu", "24.04", " mmdebstrap debian-archive-keyring")],
)
def test_mmdebstrap_comes_along_on_request(tmp_path: Path, identity: str, release: str, extra: str) -> None:
    assert plan("--with-mmdebstrap", **os_release(tmp_path, identity, release))[1].endswith(extra)


@pytest.mark.parametrize(
    ("identity", "release", "name", "mend"),
    [
        ("fedora", "42", "Fedora Linux 42", "sudo dnf install moby-engine docker-compose docker-buildx"),
        ("arch", "", "Arch Linux", "sudo pacman -S docker docker-compose docker-buildx"),
        ("debian", "11", "Debian GNU/Linux 11 (bullseye)", "Docker Engine 20.10 or newer"),
        ("ubuntu", "20.04", "Ubuntu 20.04 LTS", "Docker Engine 20.10 or newer"),
        ("mint", "22", "Linux Mint 22", "plugins compose (2.20 or newer) and buildx"),
    ],
)
def test_elsewhere_it_says_what_to_install_and_exits_3(
    tmp_path: Path, identity: str, release: str, name: str, mend: str
) -> None:
    done = install(DRYDOCK_YES="1", **os_release(tmp_path, identity, release, name))
    assert done.returncode == 3
    assert f"Drydock knows no packages for {name}." in done.stderr
    assert mend in done.stderr.splitlines()[-1]


def test_an_unknown_argument_is_wrong_usage() -> None:
    assert install("--force").returncode == 2


@pytest.fixture
def fake_sudo(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A sudo that only notes what it was asked to run, and the environment of an ordinary user who has it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    log = tmp_path / "sudo.log"
    (folder / "sudo").write_text(f'#!/bin/sh\necho "$*" >> {log}\n')
    (folder / "sudo").chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "DRYDOCK_EUID": "1000"}
    return log, environment | os_release(tmp_path, "debian", "12")


def test_an_ordinary_user_without_a_terminal_gets_the_commands_and_exit_3(
    fake_sudo: tuple[Path, dict[str, str]],
) -> None:
    log, environment = fake_sudo
    done = install(**environment)
    assert done.returncode == 3
    assert not log.exists()
    assert "→ sudo apt-get update" in done.stderr
    assert f"→ sudo {APT} docker.io ca-certificates" in done.stderr
    assert PLUGINS in done.stderr


def test_drydock_yes_runs_the_announced_commands_with_sudo(fake_sudo: tuple[Path, dict[str, str]]) -> None:
    log, environment = fake_sudo
    done = install(DRYDOCK_YES="1", **environment)
    update, engine, plugins = log.read_text().splitlines()
    # -n: without a terminal there is nobody to type a password
    assert update == "-n env DEBIAN_FRONTEND=noninteractive apt-get update -qq"
    assert engine.startswith(f"-n env DEBIAN_FRONTEND=noninteractive {APT} docker.io ca-certificates")
    assert plugins.endswith(PLUGINS)
    assert done.stderr.index("Drydock will run as root:") < done.stderr.index("+ apt-get update")


def test_neither_root_nor_sudo_gets_the_commands_and_exit_3(tmp_path: Path) -> None:
    folder = tmp_path / "no-sudo"
    folder.mkdir()
    for tool in ("bash", "dirname", "id", "cat", "uname", "env"):
        (folder / tool).symlink_to(shutil.which(tool) or "")
    done = install(
        PATH=str(folder), DRYDOCK_EUID="1000", DRYDOCK_YES="1", **os_release(tmp_path, "debian", "13", "Debian 13")
    )
    assert done.returncode == 3
    assert "→ sudo apt-get update" in done.stderr


@pytest.mark.parametrize(("answer", "runs"), [("n\n", False), ("no\n", False), ("\n", True), ("y\n", True)])
def test_on_a_terminal_it_asks(fake_sudo: tuple[Path, dict[str, str]], answer: str, runs: bool) -> None:
    log, environment = fake_sudo
    terminal, its_side = pty.openpty()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("DRYDOCK_", "DOCKER_"))}
    with subprocess.Popen(
        ["bash", INSTALL, "--assume-bare"],
        env=inherited | environment,
        stdin=its_side,
        stderr=its_side,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        os.close(its_side)
        said = b""
        while b"Go on?" not in said:
            said += os.read(terminal, 1000)
        os.write(terminal, answer.encode())
        code = process.wait(timeout=60)
    os.close(terminal)
    assert log.exists() == runs
    assert code == 3 or runs
