"""What of the user's runs in a stack's ``dev`` and Ray nodes: whoever makes these anew ends it.

:func:`look` reads the engine's lists of processes; :func:`theirs` decides, and is pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from docker.errors import APIError, NotFound

from harness.docker_engine import FOR_PROJECT_LABEL, PROJECT_LABEL, ROLE_LABEL, SERVICE_LABEL
from harness.processes.redact import redact_command
from harness.stack import beside

NODES = ("dev", "ray-head", "ray-worker")
# Processes that aren't the user's, but may have some below them: entry point, node, shells, editors, what runs
# commands.
_AROUND = re.compile(
    r"(\S*/)?(docker-init|tini) |\S*bash \S*/entrypoint\.sh|\S*python\S* \S*/bin/ray start "
    r"|\S*/ray/core/src/ray/raylet/|.*ray\.util\.client\.server .*--mode=proxy|ray::\S*JobSupervisor"
    r"|.*/\.vscode-(server|remote)|\S*/opt/drydock/with-env |\S*python\S* \S*harness supervise( |$)"
    r"|-?(\S*/)?(ba|z|da|fi)?sh( -(?!\w*c\b).*)?$|(\S*/)?(sshd|tmux)"
)
# These and all that they have started aren't the user's.
_OURS = re.compile(
    r".*(\s|^)/opt/drydock/|.*/ray/(_private|dashboard|autoscaler|core/src/ray/gcs)/|ray-dashboard-"
    r"|ray::(IDLE|DashboardAgent|RuntimeEnvAgent)|.* -c from multiprocessing\.resource_tracker "
    r"|(\S*/)?(sleep|ps) |\S*python\S* \S*harness sample\b|.*debugpy/adapter |.* -m harness\.breakpoints\.relay "
)
# A shell that was given a command is as good as that command, which may be its child.
_SHELL_WITH_COMMAND = re.compile(r"-?(\S*/)?(ba|z|da|fi)?sh -\w*c ")
_SHOWN = 100


@dataclass(frozen=True)
class Running:
    """One process of the user's; those that it has started are meant with it.

    Attributes:
        where: the service, as ``dev``.
        pid: its number on this machine.
        command: its command line, without secrets, cut.
    """

    where: str
    pid: int
    command: str

    def __str__(self) -> str:
        return f"{self.where}: {self.command}"


def look(client: Any, project: str) -> list[Running]:
    """What runs there now, by service; a container that ends meanwhile has nothing."""
    found = []
    for container in client.containers.list(filters={"label": f"{PROJECT_LABEL}={project}"}, ignore_removed=True):
        if (service := container.labels.get(SERVICE_LABEL, "")) in NODES:
            found.append((service, container))
    # Stage 4 of a check runs in a container beside `dev`, in its network.
    for container in client.containers.list(filters={"label": f"{FOR_PROJECT_LABEL}={project}"}, ignore_removed=True):
        if container.labels.get(ROLE_LABEL) == beside.ROLE:
            found.append((beside.ROLE, container))
    running = []
    for service, container in sorted(found, key=lambda one: (one[0], one[1].name)):
        try:
            rows = container.top(ps_args="-eo pid,ppid,args").get("Processes") or []
        except (APIError, NotFound):
            continue
        running += [Running(service, pid, command) for pid, command in theirs(rows)]
    return running


def theirs(rows: Iterable[Sequence[str]]) -> list[tuple[int, str]]:
    """The uppermost processes of the user's among (PID, parent's PID, command line), with the command line cut."""
    table = {int(pid): (int(parent), args) for pid, parent, args in rows}
    below: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        below.setdefault(parent if parent in table else 0, []).append(pid)
    found: list[tuple[int, str]] = []

    def descend(parent: int) -> None:
        for pid in below.get(parent, ()):
            args = table[pid][1]
            if _AROUND.match(args) or (_SHELL_WITH_COMMAND.match(args) and pid in below):
                descend(pid)
            elif not _OURS.match(args):
                found.append((pid, _short(args)))

    descend(0)
    return found


def _short(args: str) -> str:
    text = " ".join(redact_command(args).split())
    program, _, rest = text.partition(" ")
    text = f"{PurePath(program).name if program.startswith('/') else program} {rest}".strip()
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
