"""The doctor on machines where things hang, are missing or belong to somebody else: it always answers, and in time."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.harness import CLONE, Stack

SLEEPER = """#!/bin/sh
echo $$ > {pid_file}
exec sleep 1000
"""


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """A stack that never is up; its settings are the doctor's."""
    return Stack("drydock-doctor", tmp_path)


@contextmanager
def engine_that_never_answers(folder: Path) -> Iterator[str]:
    """A socket that takes every connection and says nothing, as a stopped daemon does; yields its address."""
    path = folder / "docker.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(64)
    connections: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connections.append(listener.accept()[0])
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"unix://{path}"
    finally:
        listener.close()
        for connection in connections:
            connection.close()


def findings(document: dict[str, Any], check: str) -> list[dict[str, Any]]:
    return [finding for finding in document["findings"] if finding["check"] == check]


def test_an_engine_and_a_driver_that_hang_delay_nobody_and_leave_nothing_behind(stack: Stack, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    driver = tmp_path / "nvidia-smi"
    driver.write_text(SLEEPER.format(pid_file=pid_file))
    driver.chmod(0o755)
    with engine_that_never_answers(tmp_path) as address:
        ended = stack.run("doctor", "--json", DOCKER_HOST=address, PATH=f"{tmp_path}:{os.environ['PATH']}")
    document = ended.json()
    # A machine that is busy gives more, and says so.
    assert document["seconds"] <= max(5.0, document["limit"] + 1)
    assert document["limit"] <= 20
    (engine,) = findings(document, "docker.engine")
    # On a very busy machine the whole run's limit may come before the engine's own.
    if engine["sign"] == "bad":
        assert ended.code == 1
        assert address in engine["text"]
        assert engine["mend"][0].startswith("unset DOCKER_HOST")
    else:
        assert "docker.engine did not answer within" in engine["text"]
    (gpu,) = findings(document, "gpu.found")
    assert gpu["sign"] == "warn"
    # What doesn't hang is found as ever.
    assert findings(document, "machine.system")[0]["sign"] == "ok"
    if pid_file.exists():
        pid = int(pid_file.read_text())
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_without_the_packages_of_the_stack_everything_else_is_looked_at(stack: Stack) -> None:
    without = (
        "import sys\n"
        "for name in ('docker', 'filelock', 'huggingface_hub'): sys.modules[name] = None\n"
        "from harness.cli.entry import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", without, "doctor", "--json"],
        env=stack.environment(),
        cwd=CLONE,
        capture_output=True,
        text=True,
        check=False,
    )
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert not [finding["text"] for finding in document["findings"] if "failed itself" in finding["text"]]
    (engine,) = findings(document, "docker.engine")
    assert "docker isn't installed" in engine["text"]
    assert "pip install 'drydock[stack]'" in engine["mend"]


def test_a_bad_setting_is_one_finding_among_others(stack: Stack) -> None:
    ended = stack.run("doctor", "--json", PORT="eighty")
    document = ended.json()
    assert ended.code == 1
    assert "PORT=eighty" in findings(document, "settings.origins")[0]["text"]
    assert findings(document, "machine.system")[0]["sign"] == "ok"


def test_who_holds_a_port_is_named(stack: Stack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        ended = stack.run("doctor", TOPIC="ports", PORT=str(port))
    assert ended.code == 1
    assert f"✗ PORT={port} is taken by process {os.getpid()}" in ended.stdout
    assert "→ make up PORT=" in ended.stdout


def test_a_read_only_or_full_cache_is_found(stack: Stack, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    place = tmp_path / "cache"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True)
    try:
        full = stack.run("doctor", TOPIC="disk", DRYDOCK_CACHE=str(place))
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        read_only = stack.run("doctor", TOPIC="disk", DRYDOCK_CACHE=str(place))
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert full.code == read_only.code == 1
    assert f"free for our cache {place}" in full.stdout
    assert "→ make up DRYDOCK_CACHE=" in full.stdout
    assert f"✗ our cache {place} lies on a read-only file system." in read_only.stdout


def test_an_unknown_topic_names_the_known_ones(stack: Stack) -> None:
    ended = stack.run("doctor", TOPIC="disks")
    assert ended.code == 2
    assert "no topic `disks`" in ended.stderr
    assert "machine|disk|docker" in ended.stderr


def test_only_the_asked_topics_are_looked_at(stack: Stack) -> None:
    document = stack.run("doctor", "--json", TOPIC="machine,gpu").json()
    assert {check["check"].partition(".")[0] for check in document["checks"]} == {"machine", "gpu"}
