"""Containers of this machine that run Python and were not asked: whoever didn't know of them can name them then."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from harness.docker_engine import Container
from harness.processes.sampling import facts
from harness.processes.sampling.roles import is_own, is_python, is_system
from harness.processes.stat import all_pids, read_command, read_small

_ID = re.compile(rb"[0-9a-f]{64}")


def with_python(there: Sequence[Container], project: str) -> list[str]:
    """Names of the containers in which Python runs; a stack's own (of this Compose project) aren't among them."""
    names = {one.id: one.name for one in there if one.running and one.project != project}
    return sorted({names[id_] for id_ in _ids_of_python() if id_ in names}) if names else []


def _ids_of_python() -> Iterable[str]:
    here = facts.pid_namespace()
    for pid in all_pids():
        if facts.pid_namespace(pid) in (0, here):
            continue
        arguments = read_command(pid) or []
        if is_python(arguments) and not is_own(arguments) and not is_system(" ".join(arguments)):
            yield from (found.decode() for found in _ID.findall(read_small(f"/proc/{pid}/cgroup") or b"")[-1:])
