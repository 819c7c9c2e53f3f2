"""What AReaL 1.0.4 supports, and what of it a check can run here; pure.

From AReaL's source and seen in runs: its ``RayScheduler`` has no way to start the proxy that an agent's calls go
through, and its trainer refuses the pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["runs", "refused", "not-here"]


@dataclass(frozen=True)
class Pair:
    """One scheduler with one kind of workflow.

    Args:
        verdict: ``runs``: it is run here. ``refused``: AReaL itself doesn't support it. ``not-here``: AReaL does, and
            it can't be run on this machine.
        why: in a sentence; empty where it runs.
    """

    scheduler: str
    workflow: Literal["agent", "rlvr"]
    verdict: Verdict
    why: str = ""


_REFUSED = "AReaL 1.0.4 refuses it: “Proxy workers not supported with RayScheduler”"
_RAY = "AReaL runs it in actors of a Ray cluster, which a check doesn't start; the local scheduler takes its place here"
_SLURM = "a batch job is nothing that a check starts; the local scheduler runs the same controller, workers and proxy"

MATRIX = (
    Pair("local", "agent", "runs"),
    Pair("local", "rlvr", "runs"),
    Pair("ray", "agent", "refused", _REFUSED),
    Pair("ray", "rlvr", "not-here", _RAY),
    Pair("slurm", "agent", "not-here", _SLURM),
    Pair("slurm", "rlvr", "not-here", _SLURM),
)

BACKENDS = ("sglang", "vllm")


def pair(scheduler: str | None, workflow: str) -> Pair:
    """The line of the matrix; a configuration that names no scheduler is checked with the local one."""
    wanted = scheduler or "local"
    for one in MATRIX:
        if one.scheduler == wanted and one.workflow == workflow:
            return one
    raise KeyError(wanted)


def known_scheduler(name: str | None) -> bool:
    """Whether AReaL has a scheduler of that name."""
    return name is None or any(one.scheduler == name for one in MATRIX)
