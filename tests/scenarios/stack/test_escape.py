"""Code that runs in the stack's containers, as an agent's does, gets neither to the machine nor to more rights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.harness import CLONE, Stack, docker

pytestmark = pytest.mark.docker

PROGRAM = Path(__file__).with_name("escape.py").read_text()
PYTHON = {"dev": "/opt/venv/bin/python", "ray-head": "/opt/venv/bin/python", "inference": "/opt/gateway/bin/python"}
# What the containers' user may write to beside its own home and /tmp, below the container's own disposable root.
MAY_WRITE = {"/tmp", "/var/tmp", "/home/dev", "/runs", "/workspace", "/run/drydock-relay", "/dev/shm"}
# Sockets, which can be connected to and not replaced: tests/scenarios/hang_ways/test_stack.py.
MAY_WRITE.add("/run/drydock-samplers")
# An entry for ssh and a lock file of uv's: nothing that anybody runs or believes.
HARMLESS = {"/var/lib/extrausers/passwd", "/opt/venv/.lock"}


def attacked(*command: str) -> dict[str, Any]:
    """What each attempt got, None for nothing."""
    report: dict[str, Any] = json.loads(docker(*command, "-I", "-S", "-", given=PROGRAM))
    return report


@pytest.mark.parametrize("service", PYTHON)
def test_nothing_gets_out(up: Stack, service: str) -> None:
    report = attacked("exec", "--interactive", up.container(service), PYTHON[service])
    assert len(report) >= 20
    assert {name: got for name, got in report.items() if got} == {}


def test_the_attempts_work_where_nothing_holds_them(up: Stack) -> None:
    image = json.loads(docker("inspect", up.container("dev")))[0]["Image"]
    open_to_all = ["--user", "0:0", "--cap-add", "SYS_ADMIN", "--security-opt", "seccomp=unconfined"]
    open_to_all += ["--volume", "/var/run/docker.sock:/run/docker.sock"]
    report = attacked("run", "--rm", "--interactive", *open_to_all, "--entrypoint", PYTHON["dev"], image)
    got = {name for name, value in report.items() if value}
    assert got >= {
        "a socket of a container engine",
        "mount a file system",
        "other namespaces of one's own",
        "rights of the process, and groups",
        "see the machine's files",
        "forge packets",
        "become root",
        "write what the kernel or another user runs",
    }


@pytest.mark.parametrize("service", ["dev", "ray-head"])
def test_no_program_of_the_image_can_be_replaced(up: Stack, service: str) -> None:
    """The root of a Ray node isn't read-only: Ray writes below /tmp, and people install things. This holds instead."""
    leave_out = " ".join(f"-path {place} -prune -o" for place in ("/proc", "/sys", "/dev", *MAY_WRITE))
    found = up.execute(service, "sh", "-c", f"find / {leave_out} -writable ! -type l -print 2>/dev/null || true")
    assert set(found.split()) <= HARMLESS


def test_every_container_is_limited_and_gains_no_privilege(up: Stack) -> None:
    ours = docker("ps", "-q", "--filter", f"name=^{up.project}-").split()
    found = {one["Name"].lstrip("/"): one["HostConfig"] for one in json.loads(docker("inspect", *ours))}
    assert len(found) >= 6  # three services and their samplers
    for name, host in found.items():
        assert "no-new-privileges:true" in host["SecurityOpt"], name
        assert host["CapDrop"] == ["ALL"], name
        assert 0 < host["PidsLimit"] <= 2**16, name
        assert host["Privileged"] is False, name
        # Ray writes its logs below /tmp, on disk.
        assert host["ReadonlyRootfs"] or name.removeprefix(f"{up.project}-") in ("dev-1", "ray-head-1"), name
    machine = int(docker("info", "--format", "{{.MemTotal}}"))
    for name in ("dev-1", "ray-head-1"):
        host = found[f"{up.project}-{name}"]
        assert 2**30 <= host["Memory"] == host["MemorySwap"] < machine
        assert host["CpuShares"] < 1024
    said = up.run("up").ok().stdout
    assert f"{found[f'{up.project}-dev-1']['Memory'] // 2**30} GiB of memory" in said


# As one user of the stack; the workspace is that user's, and nobody else's files are there.
LOOK_AROUND = """
import json, os
places = ["/etc/shadow", "/root", "/home", "/workspace/..", "/runs/..", "/workspace/link/etc/hostname"]
found = {}
for place in places:
    try:
        found[place] = sorted(os.listdir(place)) if os.path.isdir(place) else open(place).read()
    except OSError as error:
        found[place] = type(error).__name__
print(json.dumps(found))
"""


def test_no_file_of_the_machine_is_read_through_the_workspace(up: Stack, workspace: Path) -> None:
    secret = workspace.parent / "somebody else's.txt"
    secret.write_text("not for the agent")
    (workspace / "link").symlink_to("/")
    (workspace / "beside.txt").symlink_to(secret)
    try:
        found = json.loads(up.execute("dev", "/opt/venv/bin/python", "-c", LOOK_AROUND))
        # Above the mounts is the container's own root.
        assert found["/workspace/.."] == found["/runs/.."] == sorted(up.execute("dev", "ls", "-a", "/").split()[2:])
        assert found["/etc/shadow"] == "PermissionError"
        assert found["/home"] == ["dev"]
        assert found["/workspace/link/etc/hostname"].strip() == up.execute("dev", "hostname").strip()
        assert "not for the agent" not in up.execute("dev", "sh", "-c", "cat /workspace/beside.txt 2>&1 || true")
    finally:
        (workspace / "link").unlink()
        (workspace / "beside.txt").unlink()
        secret.unlink()


def test_a_requirement_list_that_leads_out_of_the_workspace_is_not_read(up: Stack, workspace: Path) -> None:
    """An agent can put it there; the next `up` reads it with the rights of whoever types that."""
    secret = workspace.parent / "key.txt"
    secret.write_text("-----BEGIN PRIVATE KEY-----\n")
    (workspace / "requirements.txt").symlink_to(secret)
    try:
        ended = up.run("up")
        assert ended.code == 2, ended
        assert "outside its own folder" in ended.stderr
        assert "PRIVATE KEY" not in ended.stderr + ended.stdout
    finally:
        (workspace / "requirements.txt").unlink()
        secret.unlink()


def test_keys_are_in_no_environment_but_that_of_what_needs_them(up: Stack) -> None:
    key, token = up.key("api_key"), up.key("ray_token")
    read = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' || true"
    for service in ("inference", "ray-head", "dev"):
        seen = up.execute(service, "sh", "-c", read)
        assert "PATH=" in seen
        assert token not in seen, service
        # Agents and tasks call the server; the server itself reads its file.
        assert service != "inference" or key not in seen
    everything = json.dumps(
        json.loads(docker("inspect", *docker("ps", "-aq", "--filter", f"name=^{up.project}-").split()))
    )
    everything += docker(
        "image", "inspect", *set(docker("images", "-q", "--filter", "label=dev.drydock.image").split())
    )
    assert key not in everything
    assert token not in everything
    for path in (CLONE / ".drydock" / up.project).rglob("*"):
        if path.is_file() and path.parent.name != "secrets":
            text = path.read_text(errors="replace")
            assert key not in text, path
            assert token not in text, path
