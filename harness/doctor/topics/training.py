"""Training: environment variables that nothing reads, and those that hurt, here and in every training process.

A variable that is exported in a shell or in a container reaches each rank, and no framework says that it has no effect.
What is found is decided in training_rules.py.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.doctor.check import Check
from harness.doctor.context import Context
from harness.doctor.findings import Finding
from harness.doctor.topics.training_rules import NAMES, Place, decide, decide_addresses

# Command lines in which training, its servers or its workers run; a shell with the same exports is not one of them.
_TRAINS = re.compile(
    r"(?:^|[/\s])(?:python[\d.]*|torchrun|accelerate|deepspeed|ray|vllm|sglang)(?:\s|$)|^ray::|^sglang::"
)
MOST_PROCESSES = 20_000


def of_here(environ: Mapping[str, str]) -> Place:
    """This shell, whose exports every program gets that is started from it."""
    return Place("this shell", {name: environ[name] for name in NAMES if name in environ}, here=True)


def of_processes(proc: Path = Path("/proc")) -> list[Place]:
    """Processes of this machine that look like training and whose environment this user may read; not our own."""
    own = {os.getpid(), os.getppid()}
    namespace = _link(proc / "self/ns/net")
    found = []
    for folder in sorted(proc.glob("[0-9]*"), key=lambda path: int(path.name))[:MOST_PROCESSES]:
        if int(folder.name) in own:
            continue
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            ours = any(word.rpartition("/")[2] == "harness" for word in command.split()[:3])
            if ours or not _TRAINS.search(command):
                continue
            variables = read_environment((folder / "environ").read_bytes())
        except OSError:
            continue  # another user's, or gone meanwhile
        if variables:
            same = _link(folder / "ns/net") == namespace
            found.append(Place(f"PID {folder.name} ({command[:40].strip()})", variables, here=same))
    return found


def read_environment(raw: bytes) -> dict[str, str]:
    """The variables that rules are about, out of ``/proc/PID/environ``."""
    pairs = (entry.partition("=") for entry in raw.decode("utf-8", "replace").split("\0"))
    return {name: value for name, _, value in pairs if name in NAMES}


def of_containers(context: Context) -> list[Place]:
    """What containers of the stack were made with; their processes may belong to users whom we can't look at."""
    engine = context.engine()
    if not context.runs_stacks or not engine.answers:
        return []
    from harness.docker_engine import PROJECT_LABEL

    places = []
    label = f"{PROJECT_LABEL}={context.settings.project}"
    for container in engine.client.containers.list(all=True, filters={"label": label}, ignore_removed=True):
        pairs = (str(entry).partition("=") for entry in container.attrs["Config"].get("Env") or [])
        variables = {name: value for name, _, value in pairs if name in NAMES}
        if variables:
            places.append(Place(container.name, variables))
    return places


def interfaces() -> frozenset[str]:
    """Names of this machine's network interfaces."""
    try:
        return frozenset(name for _, name in socket.if_nameindex())
    except OSError:
        return frozenset()


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _places(context: Context) -> Iterable[Place]:
    return [of_here(os.environ), *of_processes(), *of_containers(context)]


def _variables(context: Context) -> list[Finding]:
    return decide(_places(context))


def _addresses(context: Context) -> list[Finding]:
    return decide_addresses(_places(context), interfaces())


CHECKS = (Check("training.variables", _variables), Check("training.addresses", _addresses))
