"""One stack of three Ray node containers and a server, and containers that Drydock did not start."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.harness import Ended, Stack, docker, free_port, own_project, wait_for
from tests.support.torch_python import torch_python

PROGRAM = Path(__file__).with_name("program.py")
PYTHON = "/opt/python/bin/python3"
OURS = "dev.drydock.role"
_NOT_STACKS = ("manifest.json", "verdict.json", "result.json", "environment.json")


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that is up; when it is down again, no helper of it is left."""
    made = Stack(
        own_project("ways"),
        tmp_path_factory.mktemp("ways"),
        {"PORT": str(free_port()), "DASHBOARD_PORT": str(free_port()), "THREADS": "1", "WORKERS": "1", "GAP": "0.2"},
    )
    made.run("down")
    made.run("up").ok()
    try:
        yield made
    finally:
        made.run("down").ok()
        assert not docker("ps", "-aq", "--filter", f"label=dev.drydock.project={made.project}")
        for volume in docker(
            "volume", "ls", "-q", "--filter", f"label=com.docker.compose.project={made.project}"
        ).split():
            docker("volume", "rm", volume)


@pytest.fixture
def up(stack: Stack) -> Stack:
    """The same, healed where the test before left it broken."""
    stack.run("up").ok()
    return stack


@dataclass
class Boxes:
    """Containers of somebody else's.

    Args:
        image: what they are made of where nothing else is said: Debian with Python and nothing of ours.
    """

    image: str
    names: list[str] = field(default_factory=list)

    def start(self, name: str, what: str = "hold-on", *options: str, image: str = "", python: str = "python3") -> str:
        """Start the program in a container without any right, and wait until it says "ready"."""
        full = self.begin(name, *options, "--network", "none", image or self.image, python, "/program.py", what)
        self.wait_ready(full)
        return full

    def begin(self, name: str, *arguments: str) -> str:
        """Start a container of that kind; ``arguments`` are more options, the image and the command."""
        full = own_project(name)
        docker("rm", "--force", full, check=False)
        self.names.append(full)
        docker(
            "run", "--detach", "--name", full, "--user", "12345:12345", "--cap-drop", "ALL",
            "--security-opt", "no-new-privileges", "--read-only",
            "--mount", f"type=bind,source={PROGRAM},target=/program.py,readonly", *arguments,
        )  # fmt: skip
        return full

    def wait_ready(self, name: str, seconds: float = 60) -> None:
        """Wait until a container's program says "ready"."""
        wait_for(f"{name} to be ready", lambda: "ready" in docker("logs", name), seconds)

    def states(self, name: str) -> list[str]:
        """The kernel's letters for a container's processes."""
        return [row.split()[1][0] for row in docker("top", name, "-eo", "pid,stat").splitlines()[1:]]

    def end(self) -> None:
        """Remove them all."""
        for name in self.names:
            docker("rm", "--force", name, check=False)


@pytest.fixture
def boxes(stack: Stack) -> Iterator[Boxes]:
    """Somebody else's containers, ended whatever a test does."""
    dev = docker("inspect", "--format", "{{.Config.Image}}", stack.container("dev")).strip()
    base = docker("images", "--quiet", f"{dev.partition('/')[0]}/base").split()
    made = Boxes(base[0])
    yield made
    made.end()


@pytest.fixture
def network() -> Iterator[str]:
    """A network of a job's own; asked for before its containers, so that these are gone first."""
    name = own_project("torchrun")
    docker("network", "create", "--internal", name)
    yield name
    docker("network", "rm", name)


def mounted_torch() -> list[str]:
    """Options of a container that give it this machine's Python, as ``PYTHON``, with torch."""
    script = "import sys, sysconfig; print(sys.base_prefix); print(sysconfig.get_path('platlib'))"
    base, packages = subprocess.check_output([torch_python(), "-c", script], text=True).split()
    return [
        "--tmpfs", "/tmp:mode=1777",
        "--mount", f"type=bind,source={base},target=/opt/python,readonly",
        "--mount", f"type=bind,source={packages},target=/opt/torch,readonly",
        "--env", "PYTHONPATH=/opt/torch", "--env", "LD_LIBRARY_PATH=/opt/python/lib", "--env", "OMP_NUM_THREADS=1",
    ]  # fmt: skip


@dataclass(frozen=True)
class Dump:
    """What the command said, and the folder that it wrote."""

    ended: Ended
    verdict: dict[str, Any]
    manifest: dict[str, Any]
    stacks: str

    @property
    def processes(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Entries by container and number; Ray's spare workers come and go as they like and are left out."""
        found = [entry for entry in self.manifest["processes"] if "ray::IDLE" not in entry.get("command", "")]
        return {(entry.get("container", ""), entry.get("pid", 0)): entry for entry in found}

    @property
    def unreachable(self) -> dict[str, str]:
        """Containers that couldn't be asked, and why."""
        reasons: dict[str, str] = self.manifest.get("unreachable", {})
        return reasons


def dump(stack: Stack, *arguments: str, **environment: str) -> Dump:
    """Run ``harness hang-dump`` on this machine."""
    ended = stack.run("hang-dump", "--json", *arguments, timeout=200, **environment)
    return _read(
        ended, lambda folder: {path.name: path.read_text() for path in Path(folder).iterdir() if path.is_file()}
    )


def dump_in_dev(stack: Stack, *arguments: str) -> Dump:
    """The same from a terminal in `dev`."""
    said = stack.execute("dev", "sh", "-c", f"harness hang-dump --json --gap 0.2 {' '.join(arguments)} || [ $? = 1 ]")
    ended = Ended(arguments, 0, said, "", 0)
    return _read(ended, lambda folder: _files_in_dev(stack, folder))


def _files_in_dev(stack: Stack, folder: str) -> dict[str, str]:
    script = "import json, pathlib, sys; print(json.dumps({p.name: p.read_text() for p in pathlib.Path(sys.argv[1]).iterdir() if p.is_file()}))"  # noqa: E501
    found: dict[str, str] = json.loads(stack.execute("dev", "python", "-c", script, folder))
    return found


def _read(ended: Ended, files_of: Any) -> Dump:
    verdict = ended.json()
    assert "state" in verdict, str(ended)
    files = files_of(verdict["folder"])
    stacks = "".join(text for name, text in files.items() if name.endswith(".json") and name not in _NOT_STACKS)
    return Dump(ended, verdict, json.loads(files["manifest.json"]), stacks)


def probes(*options: str) -> list[str]:
    """Probe containers that are there now; ``options`` are more of ``docker ps``."""
    return docker("ps", "-aq", "--filter", f"label={OURS}=probe", *options).split()
