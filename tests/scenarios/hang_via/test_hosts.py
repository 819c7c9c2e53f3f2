"""Hosts by a command template: one answers, one greets first, and the others fail each in a way of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.harness import HARNESS, free_port, wait_for

# Leads to a "host": runs the command here, with what that host does to it.
LEAD = """#!/bin/sh
host=$1
shift
case $host in
    good) exec "$@" ;;
    greeting) echo "Welcome to $host"; "$@"; echo "Goodbye" ;;
    hanging) exec sleep 1000 ;;
    leaving) setsid sleep 60 & exec sleep 1000 ;;
    bare) exec /nonexistent/harness sample ;;
    closed) echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255 ;;
    cut) "$@" | head -c 100 ;;
    endless) exec yes ;;
    silent) ;;
    old) echo "Error: No such command 'sample'." >&2; exit 2 ;;
esac
"""
REASONS = {
    "hanging": "it didn't answer in time",
    "leaving": "it didn't answer in time",
    "bare": "no harness there; REMOTE= says where it is",
    "closed": "Connection refused",
    "cut": "its answer broke off",
    "endless": "which is no answer",
    "silent": "it gave no answer",
    "old": "its harness is too old",
}


@pytest.fixture
def training(tmp_path: Path) -> Iterator[int]:
    """A process to find; gives its number."""
    program = tmp_path / "ways_via_train.py"
    program.write_text("import time\nprint('ready', flush=True)\nwhile True: time.sleep(1000)\n")
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process.pid
    process.kill()
    process.wait()


def dump(tmp_path: Path, via: str, hosts: str, remote: str = f"{HARNESS} sample") -> dict[str, Any]:
    """Run ``hang-dump`` by hosts; gives the manifest."""
    done = subprocess.run(
        [HARNESS, "hang-dump", "--via", via, "--hosts", hosts, "--remote", remote, "--match", "ways_via_train",
         "--gap", "0.1", "--json"],
        env={**os.environ, "RUNS": str(tmp_path / "runs")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert "folder" in found, done.stdout + done.stderr
    manifest: dict[str, Any] = json.loads((Path(found["folder"]) / "manifest.json").read_text())
    return manifest


def test_each_host_that_fails_is_named_with_its_reason(tmp_path: Path, training: int) -> None:
    lead = tmp_path / "lead"
    lead.write_text(LEAD)
    lead.chmod(0o755)
    manifest = dump(tmp_path, f"{lead} {{host}}", ",".join(["good", "greeting", *REASONS]))
    # Both hosts are this machine, so its one process is found once.
    assert [entry["pid"] for entry in manifest["processes"]] == [training]
    assert all(sample["file"] for sample in manifest["processes"][0]["samples"])
    assert set(manifest["unreachable"]) == set(REASONS)
    for host, reason in REASONS.items():
        assert reason in manifest["unreachable"][host]
    # What the commands had started is gone, and nobody was left stopped.
    stat = Path(f"/proc/{training}/stat").read_text().rpartition(")")[2].split()[0]
    assert stat == "S"
    wait_for("the commands to end", lambda: not _running(str(lead)))


def _running(word: str) -> list[str]:
    found = subprocess.run(["pgrep", "--full", "--", f"sh {word}"], capture_output=True, text=True, check=False)
    return found.stdout.split()


def test_a_hostfile_and_a_range_name_hosts(tmp_path: Path, training: int) -> None:
    (tmp_path / "hosts").write_text("node1 slots=8\nnode2 slots=8\n")
    for hosts in (f"@{tmp_path}/hosts", "node[1-2]"):
        manifest = dump(tmp_path, "env HOST={host}", hosts)
        assert [entry["pid"] for entry in manifest["processes"]] == [training]
        assert manifest.get("unreachable", {}) == {}


def test_a_real_ssh_server_leads_there(tmp_path: Path, training: int) -> None:
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if sshd is None:
        pytest.skip("no ssh server is installed here")
    port = free_port()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-N", "", "-t", "ed25519", "-f", str(tmp_path / name)], check=True)
    (tmp_path / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nPidFile none\nStrictModes no\nUsePAM no\n"
        f"AuthorizedKeysFile {tmp_path}/user.pub\nPrintMotd yes\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen([sshd, "-D", "-e", "-f", str(tmp_path / "config")], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        assert "listening" in server.stderr.readline()
        via = (
            f"ssh -p {port} -i {tmp_path}/user -o BatchMode=yes -o StrictHostKeyChecking=no"
            f" -o UserKnownHostsFile={tmp_path}/known -o LogLevel=ERROR {{host}}"
        )
        # What is typed for the far shell is read by the far shell.
        manifest = dump(tmp_path, via, "127.0.0.1", f"X='a b' && {HARNESS} sample")
        assert [entry["pid"] for entry in manifest["processes"]] == [training]
        said = dump_refused(tmp_path, via.replace("/user ", "/none "), "127.0.0.1")
        assert "doesn't let this user in" in said
    finally:
        server.terminate()
        server.wait()


def dump_refused(tmp_path: Path, via: str, hosts: str) -> str:
    """What a dump says where nobody could be asked."""
    done = subprocess.run(
        [HARNESS, "hang-dump", "--via", via, "--hosts", hosts],
        env={**os.environ, "RUNS": str(tmp_path / "runs")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr
