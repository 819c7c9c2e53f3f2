"""start-docker.sh after all kinds of deaths; the daemon and the client are fakes, and a folder stands in for /run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"

# Answers as long as the daemon has said that it listens.
CLIENT = """#!/bin/sh
case "$1" in
version)
    if [ -e "$DRYDOCK_RUN/answers" ]; then echo 20.10.24; exit 0; fi
    echo "${COMPLAINT:-Cannot connect to the Docker daemon}"
    exit 1
    ;;
context) echo unix:///var/run/docker.sock ;;
esac
"""
DAEMON = """#!/bin/bash
echo $$ > "$DRYDOCK_RUN/started"
echo "level=info Starting up"
if [ -n "$DAEMON_FAILS" ]; then echo "level=fatal no space left on device"; exit 1; fi
echo $$ > "$DRYDOCK_RUN/docker.pid"
touch "$DRYDOCK_RUN/answers"
# This very process must sleep, under its name dockerd: it reads from a pipe into which nobody writes.
mkfifo "$DRYDOCK_RUN/never" && exec 3<>"$DRYDOCK_RUN/never" && read -r -u 3
"""


class Machine:
    """A machine whose daemon is a fake."""

    def __init__(self, folder: Path) -> None:
        self.run = folder / "run"
        self.log = folder / "dockerd.log"
        self.programs = programs = folder / "bin"
        self.run.mkdir()
        programs.mkdir()
        for name, text in (("docker", CLIENT), ("dockerd", DAEMON)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("DRYDOCK_", "DOCKER_"))},
            "PATH": f"{programs}:{os.environ['PATH']}",
            "DRYDOCK_RUN": str(self.run),
            "DRYDOCK_DOCKERD_LOG": str(self.log),
            "DRYDOCK_EUID": "0",
        }

    def start(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", str(SCRIPTS / "start-docker.sh")],
            env=self.environment | environment,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=50,
            check=False,
        )

    def leave(self, name: str, text: str) -> Path:
        path = self.run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @property
    def daemon(self) -> psutil.Process:
        return psutil.Process(int((self.run / "started").read_text()))

    @property
    def started(self) -> bool:
        return (self.run / "started").exists()


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    # A short path: the kernel takes no long one for a socket.
    machine = Machine(tmp_path_factory.mktemp("m"))
    yield machine
    if machine.started and psutil.pid_exists(pid := int((machine.run / "started").read_text())):
        os.kill(pid, signal.SIGKILL)


def dead_pid() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def test_a_daemon_that_answers_is_left_alone(machine: Machine) -> None:
    machine.leave("answers", "")
    done = machine.start()
    assert (done.returncode, done.stderr) == (0, "")
    assert not machine.started


def test_a_daemon_is_started_outlives_the_script_and_holds_nothing_of_it(machine: Machine) -> None:
    done = machine.start()
    assert done.returncode == 0, done.stderr
    assert "✓ Docker 20.10.24 answers" in done.stderr
    daemon = machine.daemon
    assert os.getsid(daemon.pid) == daemon.pid
    targets = {os.readlink(f"/proc/{daemon.pid}/fd/{fd}") for fd in (0, 1, 2)}
    assert targets == {"/dev/null", str(machine.log)}
    assert not any(file.path.endswith(".lock") for file in daemon.open_files())


@pytest.mark.parametrize("pid", ["dead", "another program", "nonsense", "empty"])
def test_pid_files_of_an_unclean_death_are_removed(machine: Machine, pid: str) -> None:
    text = {"dead": f"{dead_pid()}", "another program": f"{os.getpid()}\n", "nonsense": "x\n", "empty": ""}[pid]
    machine.leave("docker.pid", text)
    stale = machine.leave("docker/containerd/containerd.pid", text)
    done = machine.start()
    assert done.returncode == 0, done.stderr
    assert f"removing {machine.run}/docker.pid, left behind" in done.stderr
    assert not stale.exists()
    assert (machine.run / "docker.pid").read_text().strip() == str(machine.daemon.pid)


def test_a_socket_on_which_nobody_listens_is_removed_and_one_in_use_is_kept(machine: Machine) -> None:
    for name in ("containerd", "docker/containerd"):
        (machine.run / name).mkdir(parents=True)
    stale, used = machine.run / "containerd/containerd.sock", machine.run / "docker/containerd/containerd.sock"
    assert len(str(used)) < 108, "the kernel takes no longer path for a socket: run pytest with a shorter --basetemp"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(stale))
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(str(used))
        alive.listen()
        done = machine.start()
    assert done.returncode == 0, done.stderr
    assert not stale.exists()
    assert used.exists()


def test_a_daemon_that_ends_at_once_is_reported_with_its_log(machine: Machine) -> None:
    done = machine.start(DAEMON_FAILS="1")
    assert done.returncode == 1
    assert "level=fatal no space left on device" in done.stderr
    assert "✗ The Docker daemon ended right after its start" in done.stderr


def test_a_stopped_daemon_is_named_with_the_command_that_continues_it(machine: Machine) -> None:
    assert machine.start().returncode == 0
    pid = machine.daemon.pid
    os.kill(pid, signal.SIGSTOP)
    (machine.run / "answers").unlink()
    done = machine.start()
    assert done.returncode == 1
    assert f"stopped (process {pid}, state T)" in done.stderr
    assert f"→ sudo kill -CONT {pid}" in done.stderr


def with_systemd(machine: Machine, systemctl: str) -> dict[str, str]:
    """Let systemd be process 1 on this machine, with this systemctl."""
    (machine.run / "systemd/system").mkdir(parents=True)
    for name, text in (("systemctl", systemctl), ("journalctl", "echo journal: unit docker.service failed\n")):
        (machine.programs / name).write_text(f"#!/bin/sh\n{text}")
        (machine.programs / name).chmod(0o755)
    return {"DRYDOCK_INIT": "systemd"}


def test_with_systemd_the_unit_is_started_and_no_daemon_beside_it(machine: Machine) -> None:
    done = machine.start(
        **with_systemd(machine, '[ "$*" != "start docker.service" ] || touch "$DRYDOCK_RUN/answers"\n')
    )
    assert done.returncode == 0, done.stderr
    assert "✓ Docker 20.10.24 answers" in done.stderr
    assert not machine.started


def test_systemd_too_starts_from_a_clean_slate(machine: Machine) -> None:
    stale = machine.leave("docker.pid", f"{os.getpid()}\n")
    done = machine.start(**with_systemd(machine, 'touch "$DRYDOCK_RUN/answers"\n'))
    assert done.returncode == 0, done.stderr
    assert not stale.exists()


def test_a_unit_that_fails_is_reported_at_once_with_the_journal(machine: Machine) -> None:
    done = machine.start(**with_systemd(machine, '[ "$1" != start ]\n'))
    assert done.returncode == 1
    assert "journal: unit docker.service failed" in done.stderr
    assert "✗ systemd could not start docker.service" in done.stderr


def test_a_user_outside_the_docker_group_is_told_how_to_get_in(machine: Machine) -> None:
    complaint = "permission denied while trying to connect to the Docker daemon socket"
    done = machine.start(COMPLAINT=complaint, DRYDOCK_EUID="1000")
    assert done.returncode == 3
    assert "→ sudo usermod -aG docker " in done.stderr
    assert "newgrp docker" in done.stderr
    assert not machine.started


def test_an_engine_elsewhere_that_is_silent_does_not_start_one_here(machine: Machine) -> None:
    done = machine.start(DOCKER_HOST="tcp://127.0.0.1:1")
    assert done.returncode == 3
    assert "tcp://127.0.0.1:1" in done.stderr
    assert not machine.started


def test_an_ordinary_user_without_a_terminal_gets_the_command(machine: Machine) -> None:
    done = machine.start(DRYDOCK_EUID="1000")
    assert done.returncode == 3
    assert "scripts/start-docker.sh" in done.stderr.splitlines()[-1]
    assert not machine.started


def test_two_at_once_start_one_daemon(machine: Machine) -> None:
    both = [
        subprocess.Popen(
            ["bash", str(SCRIPTS / "start-docker.sh")],
            env=machine.environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]
    assert [process.wait(timeout=50) for process in both] == [0, 0]
    assert machine.log.read_text().count("Starting up") == 1
